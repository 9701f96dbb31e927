"""``llm-locust smoke --host URL``: the checks of a server that is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from llm_locust.bundled_files import bundled
from llm_locust.records.text import one_line
from llm_locust.smoke.checks import CHECKS, run_check
from llm_locust.smoke.dispatch import NAME as DISPATCH
from llm_locust.smoke.dispatch import dispatch_accuracy
from llm_locust.smoke.figures import SmokeFigures
from llm_locust.smoke.locust_run import LocustRun, run_locust
from llm_locust.smoke.result import Check, Found, SmokeResult, failed
from llm_locust.smoke.server import SmokedServer
from llm_locust.telemetry.readiness import await_ready, check_one_request
from llm_locust.users.headers import request_headers

NOTE = (
    "The figures are of the run that tested dispatch: {count} short requests at a low rate. They show that figures can be "
    "made of this server, and are not its performance."
)
SYNTHETIC_NOTE = f"{NOTE} The engine is synthetic: nothing here is performance, of anything."
ARRIVALS = 36
LOAD = f"--rates 5 --requests {ARRIVALS} --warmup-time 1 --cooldown 10 --max-tokens 4".split()


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is reached and asked, as ``locust`` takes it too."""

    host: str
    model: str | None = None
    api_key_env: str | None = None
    headers: list[tuple[str, str]] = []
    extra_body: dict[str, Any] = {}
    ca_file: str | None = None
    insecure: bool = False
    ready_timeout_s: float = 60.0
    deadline_s: float = 60.0

    def options(self, model: str | None) -> list[str]:
        """The options of ``locust`` that say the same."""
        words = [
            "--host",
            self.host,
            "--deadline",
            f"{self.deadline_s:g}",
            "--ready-timeout",
            f"{self.ready_timeout_s:g}",
        ]
        words += ["--model", model] if model is not None else []
        words += ["--api-key-env", self.api_key_env] if self.api_key_env is not None else []
        for name, value in self.headers:
            words += ["--header", f"{name}: {value}"]
        words += ["--extra-body", msgspec.json.encode(self.extra_body).decode()] if self.extra_body else []
        words += ["--ca-file", str(Path(self.ca_file).resolve())] if self.ca_file is not None else []
        return [*words, *(["--insecure"] if self.insecure else [])]


def smoke_host(access: Access, home: Path, run_dir: Path, *, report: Callable[[str], None], kept: bool) -> SmokeResult:
    """Wait for the server, test the load generator on it at a low rate, then make every check.

    Args:
        access: how it is reached.
        home: a folder for what is needed meanwhile.
        run_dir: where the run folder is made.
        report: told what is being done.
        kept: the run folder stays.

    Raises:
        UsageError: it is not reached, or does not take a single request; with why, and what to do.
    """
    began = time.monotonic()
    headers = request_headers(access.api_key_env, access.headers)
    facts = await_ready(
        access.host,
        headers,
        timeout_s=access.ready_timeout_s,
        model=access.model,
        report=report,
        ca_file=access.ca_file,
        insecure=access.insecure,
    )
    server = SmokedServer(
        access.host,
        access.model or (facts.models[0] if facts.models else None),
        headers,
        facts,
        extra_body=access.extra_body,
        deadline_s=access.deadline_s,
        ca_file=access.ca_file,
        insecure=access.insecure,
    )
    try:
        check_one_request(
            server.client,
            server.request("Say hello.", max_tokens=4),
            base_url=access.host,
            model=server.model,
            facts=facts,
            deadline_s=access.deadline_s,
        )
        report(f"the load generator first: {ARRIVALS} arrivals at a low rate, some 15 s")
        run = _low_rate(access, server.model, home, run_dir)
        checks = [Check.of(DISPATCH, _dispatched(run, server))]
        for name in CHECKS:
            report(name)
            checks.append(run_check(name, server))
    finally:
        server.close()
    return SmokeResult(
        against="server",
        host=access.host,
        engine=facts.engine,
        engine_version=facts.version,
        model=server.model,
        synthetic_engine=facts.synthetic,
        note=(SYNTHETIC_NOTE if facts.synthetic else NOTE).format(
            count=run.stage.measured if run.stage is not None else 0
        ),
        figures=SmokeFigures.of(run.stage) if run.stage is not None else SmokeFigures(),
        checks=checks,
        seconds=round(time.monotonic() - began, 3),
        run_folder=str(run.folder.path) if kept and run.folder is not None else None,
    )


def _low_rate(access: Access, model: str | None, home: Path, run_dir: Path) -> LocustRun:
    prompts = home / "prompts.jsonl"
    lines = (msgspec.json.encode({"prompt": f"Which number comes after {n}?"}) for n in range(10 * ARRIVALS))
    prompts.write_bytes(b"\n".join(lines) + b"\n")
    files = (bundled("locustfiles") / "chat.py", bundled("shapes") / "rate_ladder.py")
    options = [*access.options(model), *LOAD, "--prompts", str(prompts), "--workload-kind", "synthetic"]
    return run_locust(files, options, home=home, run_dir=run_dir)


def _dispatched(run: LocustRun, server: SmokedServer) -> Found:
    if run.stage is None:
        return failed(
            f"the run did not end as it should: {server.probe.safe(one_line(run.last_words))}", f"exit code {run.code}"
        )
    return dispatch_accuracy(run.stage)
