"""``python -m benchmarks.merge_benchmark [--requests N] [--gaps N]``: how long a merge takes, and how much memory.

It writes a run folder of one open stage into a temporary folder, merges it with the command that a person would give, in a
process of its own, and prints time, peak memory and rows per second. It is a measurement, not a test: run it by hand, on a
machine that does nothing else. A million requests with a hundred gaps each are to take under 60 s and 2 GB on two cores.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llm_locust.records import (
    COLUMNS,
    NS_PER_S,
    ClockSample,
    Manifest,
    Outcome,
    PlanRow,
    RequestRecord,
    RunFolder,
    StageManifest,
    StageSpec,
    StageWorker,
    WorkloadFacts,
    encode_plan_rows,
    encode_rows,
    header_line,
    plan_header_line,
)

START_NS = 1_790_000_000 * NS_PER_S + 123_456_789
RATE_RPS = 1000.0
ROWS_AT_ONCE = 10_000
SLICES = ("chat", "faq", None)


def main() -> int:
    """Write the run, merge it, print what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merge_benchmark", description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--gaps", type=int, default=100, help="between the output events of a request")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shipped", action="store_true", help="with the master's copies beside the workers' own files")
    parser.add_argument("--report", action="store_true", help="then judge it again by other limits")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="merge-benchmark-") as parent:
        folder = RunFolder(Path(parent) / "run-1")
        began = time.monotonic()
        write_run(folder, options.requests, options.gaps, options.workers)
        if options.shipped:
            for path in folder.request_files():
                shutil.copy(path, path.with_suffix(".shipped.csv"))
        size = sum(path.stat().st_size for path in folder.path.rglob("*.csv"))
        print(f"{options.requests:,} requests, {options.gaps} gaps each: {size / 1e9:.2f} GB of raw files", end="")
        print(f" (written in {time.monotonic() - began:.0f} s)", flush=True)
        measure("merge", options.requests, [str(folder.path)])
        if options.report:
            measure("report", options.requests, [str(folder.path), "--slo", "ttft=100,tpot=20"])
    return 0


def measure(command: str, rows: int, arguments: list[str]) -> None:
    """Run a subcommand in a process of its own and print its time and peak memory."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "llm_locust", command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if process.returncode not in (0, 4):  # 4: the made-up times are no healthy queue's, and that is no matter here
        raise SystemExit(f"{command} failed with {process.returncode}: {said}")
    print(
        f"{command}: {seconds:.1f} s, {usage.ru_maxrss / 1e6:.2f} GB at most, {rows / seconds:,.0f} rows/s, "
        f"{usage.ru_utime + usage.ru_stime:.1f} s of CPU time",
        flush=True,
    )


def write_run(folder: RunFolder, requests: int, gaps: int, workers: int) -> None:
    """A run of one stage whose requests are as a healthy server would answer them."""
    folder.requests_dir.mkdir(parents=True)
    window_s = requests / RATE_RPS
    end_ns = START_NS + round(window_s * NS_PER_S)
    sample = ClockSample(at_ns=START_NS, offset_ns=1_000_000, uncertainty_ns=50_000)
    later = ClockSample(at_ns=end_ns, offset_ns=3_000_000, uncertainty_ns=50_000)
    spec = StageSpec(
        stage=0,
        rate_rps=RATE_RPS,
        warmup_s=0,
        window_s=window_s,
        cooldown_s=0,
        seed=1,
        first_index=0,
    )
    stage = StageManifest(
        spec=spec,
        start_ns=START_NS,
        window_start_ns=START_NS,
        window_end_ns=end_ns,
        arrivals_end_ns=end_ns,
        end_ns=end_ns + 30 * NS_PER_S,
        planned=requests,
        workers=[
            StageWorker(worker=k, client_id=f"worker-{k}", rank=k, clock_start=sample, clock_end=later)
            for k in range(workers)
        ],
    )
    Manifest(
        run_id=folder.run_id,
        state="complete",
        started_at="2026-09-21T14:13:20Z",
        host="http://127.0.0.1:8000",
        seed=1,
        deadline_s=60.0,
        slo={"ttft": 500.0, "tpot": 100.0, "max_gap": 400.0},
        workload=WorkloadFacts(name="made up", kind="synthetic", source="benchmarks", sha256="0" * 64),
        stages=[stage],
    ).save(folder.manifest)
    random_ = random.Random(1)
    pieces = [[random_.randint(5_000, 30_000) for _ in range(gaps)] for _ in range(100)]
    with folder.plan.open("w") as plan:
        plan.write(plan_header_line())
        files = [folder.worker_csv(k).open("w") for k in range(workers)]
        for file in files:
            file.write(header_line())
        for start in range(0, requests, ROWS_AT_ONCE):
            rows = [
                request(folder.run_id, k, workers, pieces) for k in range(start, min(requests, start + ROWS_AT_ONCE))
            ]
            plan.write(encode_plan_rows([due(row) for row in rows]))
            for k, file in enumerate(files):
                file.write(encode_rows(row for row in rows if row.worker == k))
        for file in files:
            file.close()


def request(run_id: str, index: int, workers: int, pieces: list[list[int]]) -> RequestRecord:
    """One request; its worker's clock is a millisecond ahead."""
    planned = START_NS + round(index / RATE_RPS * NS_PER_S)
    gaps = pieces[index % len(pieces)]
    sent = planned + 1_000_000 + 100_000
    first = sent + (80 + index * 7919 % 200) * 1_000_000
    last = first + sum(gaps) * 1000
    failed = index % 250 == 249
    record = RequestRecord(
        run_id=run_id,
        stage=0,
        phase="measure",
        index=index,
        request_id=f"{run_id}.{index}",
        worker=index % workers,
        user="OpenAIChatUser",
        slice=SLICES[index % len(SLICES)],
        planned_ns=planned + 1_000_000,
        dispatched_ns=sent - 50_000,
        sent_ns=sent,
        reused=True,
        retries=0,
        written_ns=sent + 60_000,
        headers_ns=first - 1_000_000,
        end_ns=last + 900_000,
        outcome=Outcome.HTTP_ERROR if failed else Outcome.OK,
        status=500 if failed else 200,
        error='Internal Server Error: {"detail": "made up, for a benchmark"}' if failed else None,
        bytes_in=23_456,
        prompt_sha256=f"{index % 5000:064x}",
        prompt_index=index % 5000,
        input_tokens_asked=512,
        max_tokens=len(gaps) + 1,
        clock="kernel",
        read_lag_ns=123_456,
    )
    if not failed:
        record.first_output_ns = record.first_answer_ns = first
        record.last_output_ns, record.complete_ns = last, last + 800_000
        record.finish_reason = "length"
        record.prompt_tokens = 512 + index % 64
        record.output_tokens = record.output_events = len(gaps) + 1
        record.output_tokens_source = "usage"
        record.max_gap_ns = max(gaps) * 1000 if gaps else None
        record.gaps_us = gaps
        record.coalesced, record.first_coalesced = 0, False
    return record


def due(row: RequestRecord) -> PlanRow:
    """The line of the plan, on the master's clock."""
    assert row.planned_ns is not None
    shared = {name: getattr(row, name) for name in PlanRow.__struct_fields__ if name in COLUMNS}
    return PlanRow(**(shared | {"planned_ns": row.planned_ns - 1_000_000}))


if __name__ == "__main__":
    sys.exit(main())
