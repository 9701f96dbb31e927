"""Rows on their way: on disk at the worker, shipped in bounded batches, written once by the master."""

from pathlib import Path
from typing import Any

import pytest

from llm_locust.dispatch.collector import Collector
from llm_locust.dispatch.messages import Ack, Rows
from llm_locust.dispatch.recorder import BATCH_BYTES, CREDIT, Recorder, _split
from llm_locust.records import COLUMNS, Outcome, RequestRecord, RunFolder


class Wire:
    """A link that keeps what is sent."""

    def __init__(self, distributed: bool = True) -> None:
        self.distributed = distributed
        self.sent: list[Any] = []

    def send(self, payload: object, client_id: str | None = None) -> None:
        self.sent.append(payload)


def record(index: int, **values: Any) -> RequestRecord:
    return RequestRecord(
        run_id="run", stage=0, phase="measure", index=index, request_id=f"run.{index}", worker=3, user="U",
        outcome=Outcome.OK, **values,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "run" / "requests").mkdir(parents=True)
    return RunFolder(tmp_path / "run")


def test_the_workers_file_has_a_header_and_its_rows_after_a_flush(folder: RunFolder) -> None:
    recorder = Recorder(folder, 3, Wire())  # type: ignore[arg-type]
    recorder.add(record(0))
    recorder.flush()
    lines = folder.worker_csv(3).read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert lines[1].startswith("run,0,0,measure,0,run.0,3,U,")
    recorder.close()


def test_the_masters_copy_is_byte_for_byte_the_workers(folder: RunFolder) -> None:
    wire, back = Wire(), Wire()
    recorder = Recorder(folder, 3, wire)  # type: ignore[arg-type]
    collector = Collector(folder, back)  # type: ignore[arg-type]
    for index in range(500):
        recorder.add(record(index, error='a "quoted", text'))
    recorder.flush()
    while wire.sent:
        collector.on_rows(wire.sent.pop(0), "client")
        recorder.on_ack(back.sent[-1])
    assert recorder.wait_shipped(0)
    recorder.close()
    collector.close()
    assert folder.worker_csv(3, shipped=True).read_bytes() == folder.worker_csv(3).read_bytes()


def test_no_more_batches_are_under_way_than_there_is_credit(folder: RunFolder) -> None:
    wire = Wire()
    recorder = Recorder(folder, 3, wire)  # type: ignore[arg-type]
    for index in range(2000):
        recorder.add(record(index, error="x" * 1000))
    recorder.flush()
    assert len(wire.sent) == CREDIT
    assert all(len(rows.lines) <= BATCH_BYTES for rows in wire.sent)
    assert not recorder.wait_shipped(0)
    recorder.on_ack(Ack(serial=2))
    assert len(wire.sent) == CREDIT + 2
    recorder.close()


def test_a_batch_that_comes_twice_is_written_once_and_acknowledged_twice(folder: RunFolder) -> None:
    back = Wire()
    collector = Collector(folder, back)  # type: ignore[arg-type]
    rows = Rows(run_id="run", worker=3, serial=1, issued=False, lines="a\n")
    assert collector.on_rows(rows, "client")
    assert not collector.on_rows(rows, "client")
    collector.close()
    assert folder.worker_csv(3, shipped=True).read_text().splitlines()[1:] == ["a"]
    assert [ack.serial for ack in back.sent] == [1, 1]


def test_rows_of_another_run_are_left_alone(folder: RunFolder) -> None:
    back = Wire()
    older = Rows(run_id="older", worker=3, serial=1, issued=False, lines="a\n")
    assert not Collector(folder, back).on_rows(older, "client")  # type: ignore[arg-type]
    assert back.sent == []
    assert not folder.worker_csv(3, shipped=True).exists()


def test_a_run_without_a_master_ships_nothing_and_waits_for_nobody(folder: RunFolder) -> None:
    wire = Wire(distributed=False)
    recorder = Recorder(folder, 3, wire)  # type: ignore[arg-type]
    recorder.add(record(0))
    assert recorder.wait_shipped(0)
    assert wire.sent == []
    recorder.close()


def test_lines_are_split_between_lines_only() -> None:
    assert _split("aa\nbb\ncc\n", 6) == ["aa\nbb\n", "cc\n"]
    assert _split("a" * 9 + "\nb\n", 4) == ["a" * 9 + "\n", "b\n"]
    assert _split("", 4) == []
