"""``llm-locust smoke``: the synthetic engine, every dialect, and one short run through the whole chain of evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from llm_locust.bundled_files import bundled
from llm_locust.simulator.process import Value, running
from llm_locust.smoke.chain import chain_checks
from llm_locust.smoke.dialects import dialect_checks
from llm_locust.smoke.figures import SmokeFigures
from llm_locust.smoke.locust_run import run_locust
from llm_locust.smoke.result import SmokeResult
from llm_locust.smoke.server import USERS, SmokedServer
from llm_locust.telemetry.target import ask_target

NOTE = "The figures are of a run against a synthetic engine. They show that the chain works, and are no performance."
ENGINE: dict[str, Value] = {"slots": 8, "decode_ms": 20}
"""Tokens far enough apart that a busy machine still reads them one by one."""
LOAD = [
    *("--rates", "12", "--stage-time", "3", "--warmup-time", "0.5", "--cooldown", "1"),
    *("--max-tokens", "8", "--deadline", "10", "--slo", "ttft=1000,tpot=100,e2e=3000"),
]
"""A quarter of what the engine can do: some forty measured requests."""
WORKERS = 2


def smoke_simulator(home: Path, run_dir: Path, *, report: Callable[[str], None], kept: bool) -> SmokeResult:
    """Start the engine, ask it in every dialect, run locust against it, and look at what that left.

    Args:
        home: a folder for what is needed meanwhile.
        run_dir: where the run folder is made.
        report: told what is being done.
        kept: the run folder stays.
    """
    began = time.monotonic()
    truth_log = home / "truth.csv"
    locustfile = home / "every_dialect.py"
    locustfile.write_text(_locustfile(), encoding="utf-8")
    with running(log=truth_log, **ENGINE) as (url, _):
        report(f"the synthetic engine listens at {url}; every dialect, streamed and in one piece")
        facts = ask_target(url, {})
        server = SmokedServer(url, facts.models[0] if facts.models else None, {}, facts)
        try:
            checks = dialect_checks(server)
        finally:
            server.close()
        report(f"locust, a master and {WORKERS} workers, all dialects at once: some 15 s")
        run = run_locust(
            [locustfile, bundled("shapes") / "rate_ladder.py"],
            ["--host", url, *LOAD],
            home=home,
            run_dir=run_dir,
            workers=WORKERS,
        )
    report("looking at what the run left")
    checks += chain_checks(run, truth_log)
    return SmokeResult(
        against="simulator",
        host=url,
        engine=facts.engine,
        engine_version=facts.version,
        model=server.model,
        synthetic_engine=True,
        note=NOTE,
        figures=SmokeFigures.of(run.stage) if run.stage is not None else SmokeFigures(),
        checks=checks,
        seconds=round(time.monotonic() - began, 3),
        run_folder=str(run.folder.path) if kept and run.folder is not None else None,
    )


def _locustfile() -> str:
    """A locustfile with one user class for each dialect."""
    names = [user.__name__ for user in USERS.values()]
    classes = "".join(f"\n\nclass Smoke{name}({name}):\n    pass\n" for name in names)
    return f"from llm_locust import {', '.join(names)}\n{classes}"
