"""Quality checks in real runs: the shipped ones by option, one's own by a method, and what becomes of goodput."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llm_locust.simulator.process import Running
from tests.e2e.conftest import LADDER, Locust, processes

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

SHORT = (
    "--rates", "8", "--stage-time", "4", "--warmup-time", "0", "--cooldown", "1", "--max-tokens", "8",
)  # fmt: skip

OWN = """
from llm_locust import OpenAIChatUser, Prompt, Reply

class Picky(OpenAIChatUser):
    def check(self, prompt: Prompt, reply: Reply) -> bool | None:
        assert reply.text.split(), "the text is there"
        if prompt.index % 4 == 3:
            raise ValueError("no idea")
        return None if prompt.index % 4 == 2 else prompt.index % 4 == 0
"""


def test_every_reply_is_checked_by_the_pattern_and_its_failure_is_not_good(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=16, decode_ms=5)
    run = locust.run(*SHORT, "--host", server.base_url, "--quality", r"regex:\w", "--slo", "e2e=60000,quality")
    run.assert_ran()
    (stage,) = run.summary.stages
    assert stage.measured > 0
    assert (stage.quality_failures, stage.quality_checked) == (0, stage.successful)
    assert stage.good_requests == stage.successful
    assert run.manifest.quality == r"regex:\w"
    run = locust.run(*SHORT, "--host", server.base_url, "--quality", "json", "--slo", "e2e=60000,quality")
    run.assert_ran()
    (stage,) = run.summary.stages
    assert stage.quality_failures == stage.quality_checked == stage.successful > 0  # words are no JSON
    assert (stage.good_requests, stage.error_rate) == (0, 0.0)


def test_a_check_of_ones_own_runs_on_workers_and_its_errors_are_its_own(
    locust: Locust, simulator: Simulator, tmp_path: Path
) -> None:
    server = simulator(slots=16, decode_ms=5)
    own = tmp_path / "picky.py"
    own.write_text(OWN)
    run = locust.run(*SHORT, *processes(2), "--host", server.base_url, files=f"{own},{LADDER}")
    run.assert_ran()
    said = {0: "pass", 1: "fail", 2: None, 3: "error"}
    rows = run.rows()
    assert len(rows) > 8
    found = {int(row["prompt_index"]): row["quality"] for row in rows[rows["outcome"] == "ok"].to_dict("records")}
    assert {k: v if isinstance(v, str) else None for k, v in found.items()} == {k: said[k % 4] for k in found}
    (stage,) = run.summary.stages
    assert stage.quality_errors > 0
    assert run.manifest.quality == "Picky.check"
    assert run.stderr.count("the quality check failed") <= 2  # once for each worker


def test_quality_as_a_limit_needs_something_that_checks_it(locust: Locust) -> None:
    run = locust.run(*SHORT, "--host", "http://127.0.0.1:9", "--slo", "quality", timeout_s=30)
    assert run.code == 2
    assert "--slo quality needs a check" in run.stderr
