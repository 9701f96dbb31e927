"""``python -m benchmarks [--quick]``: the whole path, from planned arrival to written row, against ground truth.

The server runs on the first core of this machine and the worker alone on the second; with more cores the master has the
third, else it shares the server's. Run it on a machine that does nothing else: it is a measurement, not a test.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.compare import Comparison, compare
from benchmarks.load import Point, RunFailed, run_point
from benchmarks.native import Floor, NoCompiler, Pace, build, floor, truth_server

OPEN_RATES = [100.0, 250.0, 400.0, 800.0]
CLOSED_USERS = [256, 1024]
QUICK_RATES = [100.0, 400.0]
PACE = Pace()
SHORT = Pace(ttft_ms=20, itl_ms=10, tokens=8)
"""Short replies: what a request costs, and hardly what its tokens do."""
SHORT_RATES = [250.0, 500.0, 750.0, 1000.0, 1250.0, 1500.0, 1750.0, 2000.0, 2500.0, 3000.0]
SHORT_SECONDS = 5.0
SHORT_TRIES = 2
"""A rate is given up when it was not valid so often."""
QUIET_PERCENT = 2.0
"""A worker that waits for its core longer than this is not alone on it."""


def main() -> int:
    """Run the points asked for and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two points of a few seconds each")
    parser.add_argument("--seconds", type=float, help="measurement window of a point (default 10, quick 4)")
    parser.add_argument("--rates", help="open arrival rates, e.g. 100,400")
    parser.add_argument("--users", help="closed loops, e.g. 256,1024")
    parser.add_argument("--keep", type=Path, help="a folder for the runs and logs, which are otherwise removed")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        print("the benchmark needs Linux and two cores: one for the server, one for the client", file=sys.stderr)
        return 2
    seconds = options.seconds or (4.0 if options.quick else 10.0)
    with tempfile.TemporaryDirectory() as scratch:
        home = options.keep or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        try:
            build(home)
        except NoCompiler as missing:
            print(missing, file=sys.stderr)
            return 2
        print(f"TTFT {PACE.ttft_ms:g} ms, {PACE.tokens} tokens {PACE.itl_ms:g} ms apart, {seconds:g} s a point")
        print("percentiles are P50 / P99; errors are against the server's own log, request by request", flush=True)
        for point in _points(options):
            try:
                print(f"\n{_measure(home, point, seconds, cores)}", flush=True)
            except RunFailed as failed:
                print(f"\n{failed}", flush=True)
        if options.rates is None and options.users is None and not options.quick:
            for workers in (1, 2):
                print(f"\n{_highest_valid(home, workers, cores)}", flush=True)
    return 0


def _highest_valid(home: Path, workers: int, cores: list[int]) -> str:
    """The highest rate of short replies at which a stage is still valid, up a ladder."""
    highest, story = 0.0, ""
    for rate in SHORT_RATES:
        point = Point(rate_rps=rate, workers=workers)
        for _ in range(SHORT_TRIES):
            try:
                found, _lowest = _run(home, point, SHORT, SHORT_SECONDS, cores)
            except RunFailed as failed:
                story = str(failed).splitlines()[0]
                continue
            story = f"{found.cpu_percent:.0f} % CPU, " + ("valid" if found.valid else "; ".join(found.reasons))
            if found.valid:
                highest = rate
                break
        if highest < rate:
            break
    shared = " (which share a core here)" if workers > max(1, len(cores) - 1) else ""
    named = f"{workers} worker{'s' if workers > 1 else ''}{shared}"
    return (
        f"short replies of {SHORT.tokens} tokens, {named}: valid up to {highest:g} req/s; "
        f"last tried {point.rate_rps:g}/s: {story}"
    )


def _points(options: argparse.Namespace) -> list[Point]:
    rates, users = (QUICK_RATES, []) if options.quick else (OPEN_RATES, CLOSED_USERS)
    if options.rates is not None or options.users is not None:
        rates = [float(rate) for rate in options.rates.split(",")] if options.rates else []
        users = [int(count) for count in options.users.split(",")] if options.users else []
    return [Point(rate_rps=rate) for rate in rates] + [Point(users=count) for count in users]


def _measure(home: Path, point: Point, seconds: float, cores: list[int]) -> str:
    return _told(point, *_run(home, point, PACE, seconds, cores))


def _run(home: Path, point: Point, pace: Pace, seconds: float, cores: list[int]) -> tuple[Comparison, Floor]:
    folder = Path(
        tempfile.mkdtemp(prefix=point.label.replace("/", "-per-").replace(" ", "-").replace(",", ""), dir=home)
    )
    with truth_server(home, folder / "floor.csv", pace, core=cores[0]) as server:
        lowest = floor(home, server, pace, concurrency=max(point.streams(pace), 1), core=cores[1])
    own = cores[1:] if len(cores) <= 2 else cores[1 : 1 + point.workers]
    rest = [core for core in cores[1:] if core not in own]
    with truth_server(home, folder / "truth.csv", pace, core=cores[0]) as server:
        finished = run_point(
            point,
            server,
            pace,
            folder=folder,
            seconds=seconds,
            worker_cores=own,
            master_core=rest[0] if rest else cores[0],
        )
    return compare(finished, folder / "truth.csv"), lowest


def _told(point: Point, found: Comparison, lowest: Floor) -> str:
    lag = "not applicable" if found.dispatch_lag_p99_ms is None else f"{found.dispatch_lag_p99_ms:.2f} ms"
    lines = (
        f"{found.events_per_s:,.0f} events/s; worker at {found.cpu_percent:.0f} % of its core, "
        f"{found.cpu_us_per_event:.1f} us CPU an event (C floor {lowest.cpu_us_per_event:.1f}), {found.rss_mb:.0f} MB",
        f"TTFT {found.ttft_p50_ms:.2f} / {found.ttft_p99_ms:.2f} ms (C floor {lowest.ttft_p50_ms:.2f} / "
        f"{lowest.ttft_p99_ms:.2f}), error {found.ttft_error_p50_ms:.3f} / {found.ttft_error_p99_ms:.3f} ms; "
        f"ITL error {found.itl_error_p50_ms:.3f} / {found.itl_error_p99_ms:.3f} ms",
        f"dispatch lag P99 {lag}; {found.rows:,} rows for {found.planned:,} planned, {found.ok:,} ok; "
        f"the server itself was late by {found.server_late_p99_ms:.2f} ms (P99)",
        f"the worker waited for its core for {found.waited_percent:.1f} % of the window"
        + (": something else runs here, measure again" if found.waited_percent > QUIET_PERCENT else ""),
        "generator valid" if found.valid else f"generator-limited: {'; '.join(found.reasons)}",
    )
    return f"{point.label:<14}" + ("\n" + 14 * " ").join(lines)


sys.exit(main())
