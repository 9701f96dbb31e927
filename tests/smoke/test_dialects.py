"""Every dialect against the synthetic engine: as it should be, and with the faults that it can be asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_locust.simulator.process import running
from llm_locust.smoke.dialects import dialect_checks
from llm_locust.smoke.result import Check
from llm_locust.smoke.server import USERS, SmokedServer
from llm_locust.streaming import DIALECTS
from llm_locust.telemetry.target import TargetFacts


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with running(decode_ms=2) as (url, _):
        yield url


def checks(url: str, fault: str | None = None) -> list[Check]:
    headers = {"X-Simulate-Fault": fault} if fault else {}
    server = SmokedServer(url, "synthetic", headers, TargetFacts(synthetic=True))
    try:
        return dialect_checks(server)
    finally:
        server.close()


def test_every_dialect_passes_and_tells_what_was_seen(engine: str) -> None:
    found = checks(engine)
    assert [check.name for check in found] == [f"dialect {name}" for name in DIALECTS]
    assert {check.result for check in found} == {"pass"}, found
    assert "8 output and 8 prompt tokens by usage, finish length; in one piece 8 tokens, the same text" in found[0].seen


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("buffered", "8 events at distinct times were due"),
        ("no-finish", "truncated"),
        ("not-streamed", "not_streamed"),
        ("cut:3", "truncated"),
        ("status=500", "HTTP 500"),
    ],
)
def test_a_fault_fails_every_dialect(engine: str, fault: str, reason: str) -> None:
    found = checks(engine, fault)
    assert {check.result for check in found} == {"fail"}, found
    assert all(reason in (check.reason or "") for check in found), found


def test_a_dialect_that_nobody_speaks_fails(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(USERS, "ollama-chat")
    found = {check.name: check for check in checks(engine)}
    assert found["dialect ollama-chat"].reason == "no user class here speaks it, so nothing was asked"
    assert found["dialect openai-chat"].result == "pass"
