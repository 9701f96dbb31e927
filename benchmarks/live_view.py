"""``python -m benchmarks.live_view [--hours N]``: what the live picture of a run costs the master.

It feeds a picture with the lines that workers ship and the reports that they send, by a clock of its own, and prints

* the share of one core that 500 requests a second with 100 gaps each take (under a tenth is the aim: 200 us a row),
* what a look costs in a run of 60 stages, a whole one and one for the newest points only,
* how much memory it takes after some hours, and the growth in the last of them.

It is a measurement, not a test: run it by hand.
"""

from __future__ import annotations

import argparse
import random
import time

import msgspec
import psutil

from llm_locust.dispatch import Progress
from llm_locust.live.run import LiveRun
from llm_locust.records import (
    NS_PER_S,
    ClockSample,
    Manifest,
    Outcome,
    RequestRecord,
    StageManifest,
    StageSpec,
    StageWorker,
    WorkloadFacts,
    encode_rows,
)
from llm_locust.records.server_sample import CumulativeHistogram, ServerSample

START_NS = 1_790_000_000 * NS_PER_S
MS = 1_000_000
GAPS = 100
WORKERS = 4
ROWS_A_MESSAGE = 8
SLICES = ("faq", "chat", "long")
DISTINCT_GAPS = 200


class Feed:
    """A run that goes on by a clock of its own."""

    def __init__(self, seed: int = 1) -> None:
        self.now_ns = START_NS
        self._random = random.Random(seed)
        self._gaps = [[int(self._random.lognormvariate(9.9, 0.3)) for _ in range(GAPS)] for _ in range(DISTINCT_GAPS)]
        self.live = LiveRun(lambda: self.now_ns)
        self.rows = 0
        self._counts = dict.fromkeys(range(WORKERS), 0)
        self.live.begin(
            Manifest(
                run_id="bench",
                state="running",
                started_at="2026-01-01T00:00:00+00:00",
                host="http://127.0.0.1:8000",
                seed=1,
                deadline_s=60.0,
                slo={"ttft": 500.0, "tpot": 50.0},
                workload=WorkloadFacts(name="bench", kind="synthetic", source="made up", sha256="00" * 32),
            ),
            "bench",
            None,
        )

    def stage(self, number: int, seconds: int, rate: int) -> None:
        """One stage of so many rows a second, with a report of each worker twice and a page of the server once a second."""
        spec = StageSpec(
            stage=number,
            rate_rps=float(rate),
            warmup_s=0.0,
            window_s=float(seconds),
            cooldown_s=0.0,
            seed=1,
            first_index=0,
        )
        record = StageManifest(
            spec=spec,
            start_ns=self.now_ns,
            window_start_ns=self.now_ns,
            window_end_ns=self.now_ns + seconds * NS_PER_S,
            workers=[
                StageWorker(
                    worker=k,
                    client_id=f"w{k}",
                    rank=k,
                    clock_start=ClockSample(at_ns=self.now_ns, offset_ns=0, uncertainty_ns=50_000),
                )
                for k in range(WORKERS)
            ],
        )
        self.live.stage_starts(record)
        self._counts = dict.fromkeys(range(WORKERS), 0)
        for second in range(seconds):
            for half in (1, 2):
                self.now_ns = record.start_ns + second * NS_PER_S + half * NS_PER_S // 2
                self._report(number, rate)
            for lines in self._lines(number, rate):
                for _ in self.live.on_rows(lines):
                    pass
            self._page(second)
        record.arrivals_end_ns = record.end_ns = self.now_ns
        record.planned = rate * seconds
        self.live.stage_ends(record)

    def one_more(self, stage: int) -> None:
        """A row that comes late."""
        for _ in self.live.on_rows(encode_rows([self._record(stage)])):
            pass

    def _report(self, stage: int, rate: int) -> None:
        for worker in range(WORKERS):
            self._counts[worker] += rate // WORKERS // 2
            sent = self._counts[worker]
            self.live.on_report(
                worker,
                Progress(
                    stage=stage, at_ns=self.now_ns, due=sent, sent=sent, in_flight=100, waiting=0, ok=sent, failed=0,
                    batch_left=0, output_tokens=0, failures_in_a_row=0, last_failure=None, stop=None, cpu_percent=50.0,
                    loop_lag_ms=1.0,
                ),
            )  # fmt: skip

    def _lines(self, stage: int, rate: int) -> list[str]:
        records = [self._record(stage) for _ in range(rate)]
        self.rows += rate
        return [encode_rows(records[k : k + ROWS_A_MESSAGE]) for k in range(0, rate, ROWS_A_MESSAGE)]

    def _record(self, stage: int) -> RequestRecord:
        gaps = self._random.choice(self._gaps)
        sent = self.now_ns - self._random.randrange(NS_PER_S) - 3 * NS_PER_S
        sent = max(sent, START_NS)
        first = sent + round(self._random.lognormvariate(5, 0.5) * MS)
        end = first + sum(gaps) * 1000
        ok = self._random.random() > 0.02
        return RequestRecord(
            run_id="bench", stage=stage, phase="measure", index=self.rows, request_id=f"bench.{self.rows}",
            worker=self._random.randrange(WORKERS), user="ChatUser", slice=self._random.choice(SLICES),
            planned_ns=sent - 300_000, dispatched_ns=sent - 100_000, sent_ns=sent, written_ns=sent + 200_000,
            headers_ns=first, first_output_ns=first, first_answer_ns=first, last_output_ns=end, complete_ns=end, end_ns=end,
            outcome=Outcome.OK if ok else Outcome.TIMEOUT, status=200, finish_reason="stop", prompt_tokens=200,
            output_tokens=GAPS + 1, output_tokens_source="usage", output_events=GAPS + 1, max_gap_ns=max(gaps) * 1000,
            gaps_us=gaps, bytes_in=25_000, prompt_sha256="ab" * 32, clock="kernel", read_lag_ns=40_000, coalesced=0,
            first_coalesced=False,
        )  # fmt: skip

    def _page(self, second: int) -> None:
        count = float(second)
        self.live.on_server(
            [
                ServerSample(
                    at_ns=self.now_ns, target="http://127.0.0.1:8000/metrics", engine="vllm", running=50.0, waiting=2.0,
                    kv_usage_max=0.5, queue_time=CumulativeHistogram(le=(0.1, 1.0), n=(count, count), count=count),
                )
            ]
        )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_view", description=__doc__)
    parser.add_argument("--hours", type=int, default=10, help="how long the long run is, by its own clock (default 10)")
    options = parser.parse_args()

    feed, seconds, rate = Feed(), 30, 500
    feed.stage(0, 3, rate)
    before = feed.live.cost_s
    feed.stage(1, seconds, rate)
    cost = feed.live.cost_s - before
    print(
        f"{rate} rows/s with {GAPS} gaps: {1e6 * cost / (seconds * rate):.1f} us a row, {cost / seconds:.2%} of a core"
    )
    _looks(feed, "while a stage of three slices goes on", changing=True)

    memory = psutil.Process()
    started = memory.memory_info().rss
    feed, stages = Feed(), 60
    feed.stage(0, 3_600 * options.hours // stages, 8)
    grown = []
    for number in range(1, stages):
        feed.stage(number, 3_600 * options.hours // stages, 8)
        grown.append(memory.memory_info().rss - started)
    hour = max(stages // options.hours, 1)
    print(
        f"after {options.hours} h, {stages} stages, {feed.rows} rows: {grown[-1] / 1e6:.0f} MB, "
        f"{(grown[-1] - grown[-1 - hour]) / 1e6:+.1f} MB in the last hour"
    )
    _looks(feed, f"with {stages} stages, {options.hours} h")


def _looks(feed: Feed, when: str, *, changing: bool = False) -> None:
    """What a look costs: whole, and with the newest points only."""
    whole = feed.live.snapshot()
    newest = whole.series.t[-3]
    for name, since in (("whole", None), ("newest points", newest)):
        times = []
        for _ in range(20):
            if changing:
                feed.one_more(1)
            began = time.perf_counter()
            found = feed.live.snapshot(since)
            times.append(time.perf_counter() - began)
        size = len(msgspec.json.encode(found))
        print(f"a look {when}, {name}: {1e3 * sorted(times)[len(times) // 2]:.2f} ms, {size / 1e3:.0f} kB as JSON")


if __name__ == "__main__":
    main()
