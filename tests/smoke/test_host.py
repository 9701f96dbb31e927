"""The smoke test of a server that is there, with the run of the load generator made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.report import merge_run
from llm_locust.smoke import host
from llm_locust.smoke.checks import CHECKS
from llm_locust.smoke.host import Access, smoke_host
from llm_locust.smoke.locust_run import LocustRun
from llm_locust.smoke.result import SmokeResult
from tests.analysis.run_builder import RunBuilder
from tests.smoke.promising_server import PromisingServer, listening


def smoked(
    server: PromisingServer, run: LocustRun, home: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[SmokeResult, list[str]]:
    said: list[str] = []
    monkeypatch.setattr(host, "run_locust", lambda *_, **__: run)
    with listening(server) as url:
        return smoke_host(Access(host=url), home, home / "runs", report=said.append, kept=True), said


def by_hand(home: Path, lag: float) -> LocustRun:
    run = RunBuilder(home / "by-hand")
    run.stage(rate=5, window=20).requests(36, lag=lag)
    folder = run.write()
    merge_run(folder)
    return LocustRun(0, "", folder)


def test_dispatch_comes_first_then_every_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, said = smoked(PromisingServer(), by_hand(tmp_path, lag=1), tmp_path, monkeypatch)
    assert [check.name for check in result.checks] == ["dispatch", *CHECKS]
    assert {check.result for check in result.checks} == {"pass"}, result.checks
    assert (result.exit_code, result.against, result.model, result.synthetic_engine) == (0, "server", "m", False)
    assert (result.figures.success, result.figures.goodput_requests) == (36, None)
    assert result.note.startswith("The figures are of the run that tested dispatch: 36 short requests at a low rate.")
    assert result.note.endswith("are not its performance.")
    assert [line for line in said if line in CHECKS] == list(CHECKS)


def test_a_broken_promise_is_the_only_thing_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = smoked(PromisingServer(ended_text="OK <|im_end|>"), by_hand(tmp_path, lag=1), tmp_path, monkeypatch)
    assert [check.name for check in result.checks if check.result != "pass"] == ["end token"]
    assert result.exit_code == 3


def test_a_generator_that_is_late_fails_before_anything_is_said_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = smoked(PromisingServer(), by_hand(tmp_path, lag=8), tmp_path, monkeypatch)
    assert result.checks[0].result == "fail"
    assert "36 of 36 arrivals by more than 5 ms" in (result.checks[0].reason or "")


def test_a_run_that_left_nothing_is_told_by_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LocustRun(1, "first\nlocust: no such thing\n\n", None)
    result, _ = smoked(PromisingServer(), run, tmp_path, monkeypatch)
    assert result.checks[0].reason == "the run did not end as it should: locust: no such thing"
    assert (result.checks[0].seen, result.figures.success, result.run_folder) == ("exit code 1", None, None)


def test_a_server_that_is_still_loading_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = PromisingServer(loading=2)
    result, said = smoked(server, by_hand(tmp_path, lag=1), tmp_path, monkeypatch)
    assert result.exit_code == 0
    assert said[0].startswith(f"waiting for {result.host}: HTTP 503: Loading model")
