"""``python -m benchmarks.peers``: this project and other load generators under one load, each held against ground truth.

The server that logs every byte it sends runs on the first core; each tool, with every process it starts, has the second
core to itself and is asked for the same thing: open Poisson arrivals at a rate, or a closed loop. What it reports as TTFT
stands beside what the server says of the same requests. The tools take turns, so that every round of them had the same
minutes of the machine; the C client that only reads is measured before each.

The tools are not dependencies of this project. Install each in an environment of its own and name its command::

    python -m venv /tmp/guidellm && /tmp/guidellm/bin/pip install guidellm==0.8.1
    python -m benchmarks.peers --guidellm /tmp/guidellm/bin/guidellm --aiperf ... --genai-bench ...

Nothing leaves the loopback interface: the tokenizer that they insist on is written here, and hubs are switched off.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.load import CHAT, LADDER
from benchmarks.native import Floor, NoCompiler, Pace, Server, build, floor, pinned, truth_server
from llm_locust.records import RunFolder

PACE = Pace()
PROMPT_TOKENS = 64
VOCABULARY = 5000
SAMPLE_S = 0.5
SEARCH_S = 5.0
START_LIMIT_S = 150.0
"""What a tool may take beyond its load, to start, to drain and to write its report."""
WARM_S = 3.0
"""Of the load, left out of the CPU figure."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PROBE_GAP_NS = 500_000_000
"""A request this long before the next is a tool's own check of the server, not load."""
DISTURBED_MS = 20.0
"""Once the server itself was that late (P99), somebody else had its core: the run says nothing."""


class Load(NamedTuple):
    """What every tool is asked for: arrivals per second, or so many requests at once."""

    rate_rps: float | None
    users: int | None
    seconds: float

    @property
    def label(self) -> str:
        """How the table names it."""
        return f"open {self.rate_rps:g}/s" if self.rate_rps is not None else f"closed {self.users}"


class Reported(NamedTuple):
    """What a tool says in its own result file, milliseconds."""

    requests: int
    failed: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    said: str
    """What it says about itself: its warnings, or its verdict on its own lateness. Empty: nothing."""


class NotDone(Exception):
    """A tool left no result; the message is the end of what it printed."""


@dataclass(frozen=True)
class Tool:
    """A load generator: how it is asked for a load, and where it leaves its figures."""

    name: str
    command: Callable[[Load, int, Path, Path], list[str]]
    """From the load, the server's port, a folder for results and the tokenizer."""
    read: Callable[[Path], Reported]
    closed_only: bool = False


@dataclass(frozen=True)
class Row:
    """One run of one tool. Times in milliseconds."""

    round: int
    load: str
    tool: str
    floor_cpu_us: float
    floor_ttft_p50: float
    floor_ttft_p99: float
    others_percent: float
    """Of the client's core, while the load went on: what processes other than the tool's took."""
    server_late_p99: float
    truth_requests: int
    truth_mean: float
    truth_p50: float
    truth_p99: float
    said_requests: int
    said_failed: int
    said_mean: float
    said_p50: float
    said_p99: float
    arrivals_rps: float
    """By the server's log: what arrived, per second."""
    gaps_cv: float
    """Standard deviation over mean of the gaps between arrivals: 1 is Poisson."""
    events_per_s: float
    cpu_percent: float
    cpu_us_per_event: float
    processes: int
    said: str


def _ours(load: Load, port: int, folder: Path, tokenizer: Path) -> list[str]:
    timing = ["--stage-time", f"{load.seconds:g}", "--warmup-time", "0", "--cooldown", "3"]
    common = ["--host", f"http://127.0.0.1:{port}", "--max-tokens", str(PACE.tokens), "--deadline", "30"]
    if load.rate_rps is not None:
        files, how = f"{CHAT},{LADDER}", ["--rates", f"{load.rate_rps:g}"]
    else:
        users = str(load.users)
        files, how = str(CHAT), ["-u", users, "-r", users, "--run-time", f"{load.seconds + 4:.0f}s"]
    return [sys.executable, "-m", "locust", "-f", files, "--headless", *common, *how, *timing]


def _read_ours(folder: Path) -> Reported:
    run = RunFolder(_one(folder, "runs/*/summary.json").parent)
    stage = json.loads(run.summary.read_text())["stages"][-1]
    rows = pd.read_csv(run.merged, usecols=["phase", "outcome", "ttft_ms"])
    measured = rows[rows["phase"] == "measure"]
    ok = measured[measured["outcome"] == "ok"]["ttft_ms"]
    generator = stage["generator"]
    said = "generator valid" if generator["valid"] else "; ".join(generator["reasons"])
    return Reported(len(measured), len(measured) - len(ok), float(ok.mean()), _nearest(ok, 50), _nearest(ok, 99), said)


def _guidellm(program: str) -> Tool:
    def command(load: Load, port: int, folder: Path, tokenizer: Path) -> list[str]:
        profile = (
            f"kind=poisson,rate={load.rate_rps:g}"
            if load.rate_rps is not None
            else f"kind=concurrent,streams={load.users}"
        )
        return [
            program, "run", "--disable-console-interactive",
            "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=truth",
            "--profile", profile,
            "--constraint", f"kind=max_duration,seconds={load.seconds:g}",
            "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={PACE.tokens}",
            "--output", f"kind=json,path={folder / 'result.json'}",
        ]  # fmt: skip

    def read(folder: Path) -> Reported:
        found = json.loads((folder / "result.json").read_text())["benchmarks"][0]
        totals, ttft = found["metrics"]["request_totals"], found["metrics"]["time_to_first_token_ms"]["successful"]
        said = "; ".join(warning["message"] for warning in found["warnings"])
        at = ttft["percentiles"]
        return Reported(totals["successful"], totals["errored"], ttft["mean"], at["p50"], at["p99"], said)

    return Tool("GuideLLM", command, read)


def _aiperf(program: str) -> Tool:
    def command(load: Load, port: int, folder: Path, tokenizer: Path) -> list[str]:
        how = (
            ["--request-rate", f"{load.rate_rps:g}", "--arrival-pattern", "poisson"]
            if load.rate_rps is not None
            else ["--concurrency", str(load.users)]
        )
        return [
            program, "profile", "--model", "truth", "--url", f"http://127.0.0.1:{port}", "--endpoint-type", "chat",
            "--streaming", *how, "--benchmark-duration", f"{load.seconds:g}", "--tokenizer", str(tokenizer),
            "--use-server-token-count", "--isl", str(PROMPT_TOKENS), "--osl", str(PACE.tokens), "--ui", "none",
            "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", str(folder / "artifacts"),
        ]  # fmt: skip

    def read(folder: Path) -> Reported:
        found = json.loads((folder / "artifacts" / "profile_export_aiperf.json").read_text())
        ttft, failed = found["time_to_first_token"], found.get("error_request_count", {"avg": 0})
        return Reported(
            int(found["request_count"]["avg"]), int(failed["avg"]), ttft["avg"], ttft["p50"], ttft["p99"], ""
        )

    return Tool("AIPerf", command, read)


def _genai_bench(program: str) -> Tool:
    def command(load: Load, port: int, folder: Path, tokenizer: Path) -> list[str]:
        requests = round((load.users or 0) * load.seconds / PACE.reply_s)
        return [
            program, "benchmark", "--api-backend", "openai", "--api-base", f"http://127.0.0.1:{port}",
            "--api-key", "none", "--api-model-name", "truth", "--model", "truth", "--model-tokenizer", str(tokenizer),
            "--task", "text-to-text", "--traffic-scenario", f"D({PROMPT_TOKENS},{PACE.tokens})",
            "--num-concurrency", str(load.users), "--max-time-per-run", "2", "--max-requests-per-run", str(requests),
            "--experiment-base-dir", str(folder), "--experiment-folder-name", "result",
        ]  # fmt: skip

    def read(folder: Path) -> Reported:
        found = json.loads(_one(folder, "result/D*_time_*.json").read_text())
        whole, ttft = found["aggregated_metrics"], found["aggregated_metrics"]["stats"]["ttft"]
        scale = {"s": 1000.0, "ms": 1.0}[found["_time_unit"]]
        mean, p50, p99 = (scale * ttft[name] for name in ("mean", "p50", "p99"))
        return Reported(whole["num_completed_requests"], whole["num_error_requests"], mean, p50, p99, "")

    return Tool("genai-bench", command, read, closed_only=True)


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"no {pattern} in {folder}")
    return found[-1]


def _nearest(values: Any, q: float) -> float:
    """The percentile by nearest rank."""
    ordered = np.sort(np.asarray(values, dtype=float))
    return float(ordered[max(int(np.ceil(q / 100 * len(ordered))) - 1, 0)]) if len(ordered) else float("nan")


def write_tokenizer(folder: Path) -> Path:
    """A tokenizer of whole words, one token each, as the tools load it from a folder; the server's words are among them."""
    folder.mkdir(exist_ok=True)
    words = ["<unk>", "<s>", "</s>", "<pad>", *(f"word{n}" for n in range(VOCABULARY))]
    model = {"type": "WordLevel", "vocab": {word: n for n, word in enumerate(words)}, "unk_token": "<unk>"}
    empty: dict[str, Any] = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    whole = {
        "version": "1.0",
        **empty,
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": model,
    }
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 10**6, "chat_template": template}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, **special}))
    return folder


class Usage(NamedTuple):
    """CPU seconds by then: of the tool's processes, alive or ended, and of everything on its core."""

    at_ns: int
    tool_s: float
    core_s: float
    processes: int


def _stat(folder: Path) -> list[str] | None:
    """What follows the name in ``/proc/PID/stat``; ``None`` of a process that ended meanwhile."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class Watch:
    """Samples the processes of one process group, which is the tool's."""

    def __init__(self, group: int, core: int) -> None:
        self.group, self.core = group, core
        self.used: dict[int, float] = {}
        """Process id to what it had used when it was last seen: an ended process keeps its share."""
        self.samples: list[Usage] = []
        self._known: set[str] = set()
        self._search_at = 0.0

    def _is_its(self, folder: Path) -> bool:
        fields = _stat(folder)
        return fields is not None and int(fields[2]) == self.group

    def look(self) -> None:
        """Take one sample. The whole of /proc is searched now and then only: that takes the server's core some time."""
        if time.monotonic() >= self._search_at:
            self._search_at = time.monotonic() + SEARCH_S
            self._known = {folder.name for folder in Path("/proc").glob("[0-9]*") if self._is_its(folder)}
        alive = 0
        for name in self._known:
            fields = _stat(Path("/proc", name))
            if fields is not None and int(fields[2]) == self.group:
                alive += 1
                self.used[int(name)] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
        lines = Path("/proc/stat").read_text().splitlines()
        busy = next(line.split() for line in lines if line.startswith(f"cpu{self.core} "))
        core_s = sum(map(int, busy[1:4])) / CLOCK_TICKS  # user, nice, system
        self.samples.append(Usage(time.time_ns(), sum(self.used.values()), core_s, alive))

    def between(self, name: str, begin_ns: float, end_ns: float) -> float:
        """By how much a figure grew."""
        times, values = [s.at_ns for s in self.samples], [getattr(s, name) for s in self.samples]
        return float(np.interp(end_ns, times, values) - np.interp(begin_ns, times, values))


def _run(tool: Tool, load: Load, server: Server, folder: Path, tokenizer: Path, core: int) -> Watch:
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("LOCUST", "LLM_LOCUST", "OPENAI", "AIPERF"))
    }
    environment |= {
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(folder / "hub"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }
    environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    if tool.name != "AIPerf":  # which in its offline mode does not take a tokenizer from a folder
        environment["HF_HUB_OFFLINE"] = "1"
    with (folder / "printed.txt").open("w") as printed:
        process = pinned(
            core,
            tool.command(load, server.port, folder, tokenizer),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        watch = Watch(process.pid, core)
        end = time.monotonic() + load.seconds + START_LIMIT_S
        try:
            while process.poll() is None and time.monotonic() < end:
                watch.look()
                time.sleep(SAMPLE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it and whatever it left behind
            process.wait(10)
    return watch


def _never_late(server: Server) -> None:
    """Let the server go before everybody else on its core, where one may: truth that is late is none."""
    with suppress(PermissionError):
        os.sched_setscheduler(server.pid, os.SCHED_FIFO, os.sched_param(1))


def measure(number: int, tool: Tool, load: Load, home: Path, tokenizer: Path, cores: Sequence[int]) -> Row:
    """One run of one tool against a fresh server.

    Raises:
        NotDone: it left no result.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{number}-{tool.name}-", dir=home))
    streams = load.users or round((load.rate_rps or 0) * PACE.reply_s)
    with truth_server(home, folder / "floor.csv", PACE, core=cores[0]) as server:
        _never_late(server)
        lowest = floor(home, server, PACE, concurrency=streams, core=cores[1])
    with truth_server(home, folder / "truth.csv", PACE, core=cores[0]) as server:
        _never_late(server)
        watch = _run(tool, load, server, folder, tokenizer, cores[1])
    truth = pd.read_csv(folder / "truth.csv", dtype={"request_id": "string", "gaps_us": "string"})
    try:
        reported = tool.read(folder)
    except (OSError, KeyError, ValueError) as missing:
        printed = (folder / "printed.txt").read_text(errors="replace")[-1500:]
        raise NotDone(f"{tool.name}, {load.label}: {type(missing).__name__} {missing}\n{printed}") from None
    if len(truth) < 2:
        raise NotDone(f"{tool.name}, {load.label}: the server saw {len(truth)} whole replies")
    return _row(number, tool, load, lowest, watch, truth, reported)


def _row(
    number: int, tool: Tool, load: Load, lowest: Floor, watch: Watch, truth: pd.DataFrame, reported: Reported
) -> Row:
    arrivals = np.sort(truth["received_ns"].to_numpy())
    alone = np.flatnonzero(np.diff(arrivals[: len(arrivals) // 2]) > PROBE_GAP_NS)
    arrivals = arrivals[alone[-1] + 1 :] if len(alone) else arrivals
    gaps = np.diff(arrivals)
    # Replies are of one length, so that up to the last arrival that was answered whole, every arrival was.
    begin, end = arrivals[0] + WARM_S * 1e9, min(arrivals[-1], arrivals[0] + load.seconds * 1e9)
    if end <= begin:
        raise NotDone(f"{tool.name}, {load.label}: what it sent and was answered is no longer than {WARM_S:g} s")
    seconds = (end - begin) / 1e9
    sent = np.concatenate(
        [
            first + 1000 * np.concatenate([[0], np.cumsum(np.array(text.split(), dtype=np.int64))])
            for first, text in zip(truth["first_ns"], truth["gaps_us"], strict=True)
        ]
    )
    events = int(((sent >= begin) & (sent < end)).sum())
    tool_s, core_s = watch.between("tool_s", begin, end), watch.between("core_s", begin, end)
    ttft_ms = (truth["first_ns"] - truth["received_ns"]) / 1e6
    return Row(
        round=number,
        load=load.label,
        tool=tool.name,
        floor_cpu_us=lowest.cpu_us_per_event,
        floor_ttft_p50=lowest.ttft_p50_ms,
        floor_ttft_p99=lowest.ttft_p99_ms,
        others_percent=100 * max(core_s - tool_s, 0.0) / seconds,
        server_late_p99=_nearest(truth["late_ns"], 99) / 1e6,
        truth_requests=len(truth),
        truth_mean=float(ttft_ms.mean()),
        truth_p50=_nearest(ttft_ms, 50),
        truth_p99=_nearest(ttft_ms, 99),
        said_requests=reported.requests,
        said_failed=reported.failed,
        said_mean=reported.mean_ms,
        said_p50=reported.p50_ms,
        said_p99=reported.p99_ms,
        arrivals_rps=(len(arrivals) - 1) / ((arrivals[-1] - arrivals[0]) / 1e9),
        gaps_cv=float(gaps.std() / gaps.mean()),
        events_per_s=events / seconds,
        cpu_percent=100 * tool_s / seconds,
        cpu_us_per_event=1e6 * tool_s / max(events, 1),
        processes=max((sample.processes for sample in watch.samples), default=0),
        said=reported.said,
    )


def _told(row: Row) -> str:
    return (
        f"{row.round} {row.load:<12} {row.tool:<12} TTFT mean/P50/P99 {row.said_mean:.1f} / {row.said_p50:.1f} / "
        f"{row.said_p99:.1f} ms, truth {row.truth_mean:.1f} / {row.truth_p50:.1f} / {row.truth_p99:.1f}; "
        f"{row.arrivals_rps:.1f} arrivals/s, CV {row.gaps_cv:.2f}; {row.said_requests} reported, {row.said_failed} failed, "
        f"{row.truth_requests} by the server; CPU {row.cpu_percent:.0f} %, {row.cpu_us_per_event:.1f} us an event "
        f"({row.processes} processes); C floor {row.floor_cpu_us:.1f} us, TTFT {row.floor_ttft_p50:.2f} / "
        f"{row.floor_ttft_p99:.2f}; others {row.others_percent:.0f} % of the core, server late {row.server_late_p99:.2f}"
        + ("   <- DISTURBED, measure again" if row.server_late_p99 > DISTURBED_MS else "")
        + (f"\n    says: {row.said}" if row.said else "")
    )


def main() -> int:
    """Run every tool that was named, in turns, and print and keep a row per run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--guidellm", help="its command")
    parser.add_argument("--aiperf", help="its command")
    parser.add_argument("--genai-bench", help="its command; it has closed loops only")
    parser.add_argument("--rates", default="", help="open arrival rates (default 100,250, if no --users are given)")
    parser.add_argument("--users", default="", help="closed loops, e.g. 203")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load, per run (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often all of it (default %(default)s)")
    parser.add_argument("--keep", type=Path, help="a folder for results and logs, which are otherwise removed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        print("this needs Linux and two cores: one for the server, one for the client", file=sys.stderr)
        return 2
    tools = [Tool("llm_locust", _ours, _read_ours)]
    makers = ((options.guidellm, _guidellm), (options.aiperf, _aiperf), (options.genai_bench, _genai_bench))
    tools += [maker(str(Path(program).absolute())) for program, maker in makers if program]
    rates = options.rates or ("" if options.users else "100,250")
    loads = [Load(float(rate), None, options.seconds) for rate in rates.split(",") if rate]
    loads += [Load(None, int(users), options.seconds) for users in options.users.split(",") if users]
    with tempfile.TemporaryDirectory() as scratch:
        home = (options.keep or Path(scratch)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        try:
            build(home)
        except NoCompiler as missing:
            print(missing, file=sys.stderr)
            return 2
        tokenizer = write_tokenizer(home / "tokenizer")
        print(f"TTFT {PACE.ttft_ms:g} ms, {PACE.tokens} tokens {PACE.itl_ms:g} ms apart, {options.seconds:g} s a run")
        for number in range(1, options.rounds + 1):
            for load in loads:
                turn = number % len(tools)  # nobody is always first
                for tool in (*tools[turn:], *tools[:turn]):
                    if tool.closed_only and load.rate_rps is not None:
                        continue
                    try:
                        row = measure(number, tool, load, home, tokenizer, cores)
                    except NotDone as not_done:
                        print(not_done, file=sys.stderr, flush=True)
                        continue
                    print(_told(row), flush=True)
                    with (home / "rows.jsonl").open("a") as rows:
                        rows.write(json.dumps(asdict(row)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
