"""``--json-lines``: what a look at a run calls for, as documented objects, and how lines reach a file, a pipe, or nobody."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gevent
import msgspec
import pytest

from llm_locust.live.snapshot import Snapshot
from llm_locust.plugin.json_lines import SCHEMA, AnyLine, Figures, RunFollower, StageEnded
from llm_locust.plugin.line_writer import MOST_WAITING, LineWriter, open_lines
from llm_locust.records import UsageError
from tests.live.made_up import group, judged, snapshot, stage


def events(follower: RunFollower, now: Snapshot, exit_code: int | None = None) -> list[dict[str, Any]]:
    lines = follower.look(now, exit_code=exit_code)
    found: list[dict[str, Any]] = [json.loads(msgspec.json.encode(line)) for line in lines]
    return found


def kinds(follower: RunFollower, now: Snapshot) -> list[str]:
    return [line["event"] for line in events(follower, now)]


IDLE = snapshot(state="idle", generation=0, run_id=None, stages=[])


def test_a_run_from_its_begin_to_its_judgement() -> None:
    follower = RunFollower()
    first, second = stage(0, phase="warm-up"), stage(1, phase="preparing")
    ended = stage(0, phase="done")
    last = stage(1, phase="done")
    assert kinds(follower, IDLE) == []
    assert kinds(follower, snapshot(stages=[])) == ["run_started"]
    assert kinds(follower, snapshot(stages=[first])) == ["stage_started", "figures"]
    assert kinds(follower, snapshot(stages=[first])) == ["figures"]
    assert kinds(follower, snapshot(stages=[ended])) == []  # rows of its last moments may still be counted
    assert kinds(follower, snapshot(stages=[ended, second])) == ["stage_ended", "stage_started", "figures"]
    assert kinds(follower, snapshot(stages=[ended, last], state="judging")) == []
    assert kinds(follower, snapshot(stages=[ended, last], state="judging")) == ["stage_ended"]
    assert kinds(follower, snapshot(stages=[ended, last], state="judged", judged=judged())) == ["judged"]
    assert kinds(follower, snapshot(stages=[ended, last], state="judged", judged=judged())) == []


def test_stages_do_not_overtake_each_other_when_a_look_sees_an_end_and_a_begin_at_once() -> None:
    follower = RunFollower()
    kinds(follower, snapshot(stages=[stage(0)]))
    both = snapshot(stages=[stage(0, phase="done"), stage(1)])
    assert kinds(follower, both) == []
    assert kinds(follower, both) == ["stage_ended", "stage_started", "figures"]


def test_a_run_that_is_judged_before_anybody_looked_is_told_whole() -> None:
    over = snapshot(stages=[stage(0, phase="done"), stage(1, phase="done")], state="judged", judged=judged())
    assert kinds(RunFollower(), over) == [
        "run_started", "stage_started", "stage_ended", "stage_started", "stage_ended", "judged",
    ]  # fmt: skip


def test_the_judgement_has_results_and_the_exit_code() -> None:
    stages = [stage(0, phase="done", result="pass"), stage(1, phase="done", result="fail")]
    line = events(RunFollower(), snapshot(stages=stages, state="judged", judged=judged(3, "It held.")))[-1]
    assert (line["event"], line["exit_code"], line["sentence"], line["report"]) == ("judged", 3, "It held.", True)
    assert [(result["stage"], result["result"]) for result in line["results"]] == [(0, "pass"), (1, "fail")]
    assert line["schema"] == SCHEMA


def test_a_run_that_never_began_is_a_failure_with_its_reason() -> None:
    failed = snapshot(state="failed", reason="--rates is missing", run_id=None, stages=[], generation=1)
    (line,) = events(RunFollower(), failed, exit_code=2)
    assert (line["event"], line["run_id"], line["reason"], line["exit_code"]) == (
        "failed",
        None,
        "--rates is missing",
        2,
    )


def test_stopping_is_told_once_and_again_when_it_gets_harder() -> None:
    follower = RunFollower()
    kinds(follower, snapshot(stages=[]))
    assert kinds(follower, snapshot(stages=[], stopping="drain")) == ["stopping"]
    assert kinds(follower, snapshot(stages=[], stopping="drain")) == []
    (line,) = events(follower, snapshot(stages=[], stopping="now", reason="interrupted twice"))
    assert (line["how"], line["reason"]) == ("now", "interrupted twice")


def test_a_second_run_begins_anew() -> None:
    follower = RunFollower()
    kinds(follower, snapshot(stages=[stage(0, phase="done")], state="judged", judged=judged()))
    assert kinds(follower, snapshot(stages=[stage(0)], generation=2)) == ["run_started", "stage_started", "figures"]


def test_figures_say_null_for_what_was_not_measured_and_all_of_what_was() -> None:
    unknown = group(good=None, attainment=None, goodput_rps=None)
    line = events(RunFollower(), snapshot(stages=[stage(0, groups=[unknown])], servers=[]))[-1]
    assert line["event"] == "figures"
    found = line["stage"]
    assert (found["server_waiting"], found["groups"][0]["good"], found["groups"][0]["goodput_rps"]) == (
        None,
        None,
        None,
    )
    assert (found["planned"], found["sent"], found["completed"], found["in_flight"]) == (140, 139, 130, 9)
    assert found["groups"][0]["outcomes"] == {"ok": 96, "timeout": 3, "rejected": 1}
    assert found["groups"][0]["latencies_ms"]["ttft"] == {
        "count": 100, "p50": 120.0, "p95": 240.0, "p99": 360.0, "mean": pytest.approx(132.0), "max": 480.0,
    }  # fmt: skip


def test_every_line_can_be_read_back_by_its_schema() -> None:
    over = snapshot(stages=[stage(0, phase="done")], state="judged", judged=judged())
    lines = RunFollower().look(over) + RunFollower().look(snapshot(stages=[stage(0)]))
    for line in lines:
        assert msgspec.json.decode(msgspec.json.encode(line), type=AnyLine) == line
    assert {type(line) for line in lines} >= {StageEnded, Figures}
    assert len(msgspec.json.schema(AnyLine)["anyOf"]) == 8


# --- where lines go ----------------------------------------------------------------------------------------------------


def test_lines_are_appended_to_a_file_in_order(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    for run in (b"1\n", b"2\n"):
        writer = LineWriter(open_lines(str(file)), str(file))
        writer.write(b"a" + run)
        writer.write(b"b" + run)
        writer.close()
    assert file.read_bytes() == b"a1\nb1\na2\nb2\n"


@pytest.mark.parametrize("file", ["no/such/folder/lines", "."])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"--json-lines {file}: cannot be written"):
        open_lines(file)


def test_a_reader_that_has_gone_ends_the_lines_and_not_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LineWriter(writing, "-")
    writer.write(b"line\n")
    writer.close()
    writer.write(b"another\n")
    assert "WARNING: --json-lines - ends here: Broken pipe; the run goes on" in capsys.readouterr().err


def test_a_reader_that_does_not_read_holds_nobody_up(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    writer = LineWriter(writing, "-")
    line = b"x" * 4095 + b"\n"
    for _ in range(MOST_WAITING + 2):
        writer.write(line)
    turns = 0
    for _ in range(3):  # the loop runs while a thread stands before the full pipe
        gevent.sleep(0)
        turns += 1
    assert turns == 3
    writer.close(timeout_s=0.1)
    assert "lines were not written, since nobody read" in capsys.readouterr().err
    os.close(reading)  # lets the thread go


def test_a_line_longer_than_a_pipe_holds_comes_whole() -> None:
    reading, writing = os.pipe()
    line = b"y" * 300_000 + b"\n"
    writer = LineWriter(writing, "-")
    writer.write(line)
    got = b""
    while len(got) < len(line):
        got += gevent.get_hub().threadpool.apply(os.read, (reading, 65_536))
    writer.close()
    os.close(reading)
    assert got == line
