"""What feeds the live picture: rows are counted later and a few at a time, and nothing that goes wrong in it ends a run."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from llm_locust.dispatch import Rows
from llm_locust.dispatch.controller import ProgressSink
from llm_locust.live.snapshot import Snapshot
from llm_locust.plugin import live_view as module
from llm_locust.plugin.live_view import LiveView
from llm_locust.plugin.sinks import Sinks
from llm_locust.records import (
    NS_PER_S,
    Clock,
    Manifest,
    Outcome,
    RequestRecord,
    RunFolder,
    StageManifest,
    StageSpec,
    WorkloadFacts,
    encode_rows,
)

MS = 1_000_000


@pytest.fixture
def view(tmp_path: Path) -> Iterator[LiveView]:
    clock = Clock()
    found = LiveView(clock)
    manifest = Manifest(
        run_id="run",
        state="running",
        started_at="",
        host="http://127.0.0.1:8000",
        seed=1,
        deadline_s=30.0,
        workload=WorkloadFacts(name="w", kind="synthetic", source="s", sha256=""),
    )
    found.begin(manifest, RunFolder(tmp_path / "run"), 1)
    now = clock.now_ns()
    spec = StageSpec(stage=0, rate_rps=1.0, warmup_s=0, window_s=60, cooldown_s=0, seed=1, first_index=0)
    found.run.stage_starts(
        StageManifest(
            spec=spec,
            start_ns=now - 10 * NS_PER_S,
            window_start_ns=now - 10 * NS_PER_S,
            window_end_ns=now + 50 * NS_PER_S,
        )
    )
    yield found
    found.failed("the test is over")


def record(index: int = 0) -> RequestRecord:
    sent = Clock().now_ns() - 2 * NS_PER_S
    return RequestRecord(
        run_id="run", stage=0, phase="measure", index=index, request_id="x", worker=0, user="Chat", planned_ns=sent,
        dispatched_ns=sent, sent_ns=sent, first_output_ns=sent + MS, last_output_ns=sent + 9 * MS, complete_ns=sent + 9 * MS,
        end_ns=sent + 9 * MS, outcome=Outcome.OK, status=200, output_tokens=9,
    )  # fmt: skip


def rows(count: int, *, issued: bool = False) -> Rows:
    lines = encode_rows(record(k) for k in range(count))
    return Rows(run_id="run", worker=0, serial=1, issued=issued, lines=lines)


def counted(view: LiveView, due: int) -> Snapshot:
    """The picture once so many requests are in it; a test in which they never are fails by its timeout."""
    with gevent.Timeout(20):
        while (found := view.run.snapshot()).stages[0].completed < due:
            gevent.sleep(0.01)
    return found


def emptied(view: LiveView) -> None:
    """Wait until nothing waits any longer: a row is in the picture before it has left the queue."""
    with gevent.Timeout(20):
        while view._waiting:
            gevent.sleep(0.01)


def test_rows_are_counted_after_the_call_that_brings_them(view: LiveView) -> None:
    view.on_rows(rows(20))
    view.on_rows(rows(5, issued=True))  # what was only begun has not ended
    assert view.run.snapshot().stages[0].completed == 0
    assert counted(view, 20).stages[0].groups[0].measured == 20


def test_records_of_this_very_process_are_counted_too(view: LiveView) -> None:
    for k in range(20):
        view.on_record(record(k))
    assert view.run.snapshot().stages[0].completed == 0
    assert counted(view, 20).stages[0].groups[0].ok == 20


def test_what_comes_faster_than_it_can_be_counted_is_said_to_be_missing(
    view: LiveView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 1_000)
    for _ in range(3):
        view.on_rows(rows(8))
    view.on_record(record())
    found = counted(view, 8)
    assert found.stages[0].completed == 8
    assert found.notes == ["17 rows came faster than they could be counted: they are on disk, but not in here."]
    emptied(view)
    view.on_rows(rows(8))  # there is room again
    counted(view, 16)


def test_a_fault_in_the_picture_is_told_once_and_counting_goes_on(
    view: LiveView, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("of ours")

    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(view.run, "on_record", fails)
        view.on_record(record())
        view.on_record(record())
        emptied(view)
    assert caplog.text.count("the live picture is not complete") == 1
    view.on_record(record())
    counted(view, 1)


def test_a_judged_run_has_all_its_rows_and_one_without_a_summary_failed(view: LiveView, tmp_path: Path) -> None:
    view.on_rows(rows(40))
    view.over(None)
    assert view.run.snapshot().state == "judging"
    folder = RunFolder(tmp_path)
    folder.manifest.touch()
    view.judged(0, folder)
    found = view.run.snapshot()
    assert found.stages[0].completed == 40
    assert found.state == "failed"
    assert "summary.json" in (found.reason or "")


def test_a_new_run_begins_without_what_waited_for_the_last(view: LiveView, tmp_path: Path) -> None:
    view.on_rows(rows(40))
    view.begin(view.run._of, RunFolder(tmp_path / "next"), None)  # type: ignore[arg-type]
    assert not view._waiting
    assert view._bytes == 0
    assert view.run.snapshot().generation == 2


def test_several_sinks_are_told_in_their_order() -> None:
    told: list[str] = []

    class Sink:
        def __init__(self, name: str) -> None:
            self._name = name

        def stage_starts(self, *_: object) -> None:
            told.append(f"{self._name} starts")

        def waits(self, what: str) -> None:
            told.append(f"{self._name} {what}")

        def update(self, _: object) -> None:
            told.append(f"{self._name} update")

        def stage_ends(self, _: object) -> None:
            told.append(f"{self._name} ends")

        def close(self) -> None:
            told.append(f"{self._name} close")

    both: ProgressSink = Sinks([Sink("a"), Sink("b")])
    both.stage_starts(None, 1, 2)  # type: ignore[arg-type]
    both.waits("waits")
    both.update(None)  # type: ignore[arg-type]
    both.stage_ends(None)  # type: ignore[arg-type]
    both.close()
    assert told == [f"{name} {what}" for what in ("starts", "waits", "update", "ends", "close") for name in "ab"]


def test_a_locustfile_loads_nothing_that_a_worker_does_not_need() -> None:
    code = "import llm_locust, sys; print([n for n in sys.modules if n.startswith('llm_locust.live.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("run", "series", "sketch", "rows", "server"):
        assert f"llm_locust.live.{name}'" not in loaded
