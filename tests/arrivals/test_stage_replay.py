"""The trace of a stage: the file that the stage was planned with or none, and read once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from llm_locust.arrivals import load_trace, plan_of, replay_of
from llm_locust.records import StageSpec, UsageError
from llm_locust.records.run import UserChoice
from llm_locust.records.stage import TraceReplay

ONE = [UserChoice(name="ChatUser", weight=1)]
LINES = [f'{{"timestamp": {at}, "prompt": "ask {at}"}}' for at in (0, 1, 4)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.jsonl", LINES)


def spec(log: Path, **replay: object) -> StageSpec:
    asked: dict[str, object] = {"path": str(log), "format": "jsonl", "sha256": sha256(log), **replay}
    return StageSpec(
        stage=0,
        rate_rps=0.75,
        arrivals="trace",
        replay=TraceReplay(**asked),  # type: ignore[arg-type]
        warmup_s=0.0,
        window_s=4.0,
        cooldown_s=0.0,
        seed=1,
        first_index=0,
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_stage_without_a_trace_replays_none() -> None:
    stage = StageSpec(stage=0, rate_rps=1.0, warmup_s=0, window_s=1, cooldown_s=0, seed=1, first_index=0)
    assert replay_of(stage) is None


def test_the_file_that_was_planned_with_is_replayed(log: Path) -> None:
    found = replay_of(spec(log))
    assert found is not None
    assert found.offset_ns.tolist() == [0, 1_000_000_000, 4_000_000_000]
    assert len(plan_of(spec(log), ONE)) == 3


def test_another_file_at_that_path_is_refused_and_it_is_said_what_to_do(log: Path) -> None:
    asked = spec(log)
    write(log, [*LINES[:2], '{"timestamp": 5, "prompt": "another"}'])
    with pytest.raises(UsageError) as error:
        plan_of(asked, ONE)
    said = str(error.value)
    assert str(log) in said
    assert "not the same here as on the master" in said
    assert "copy the master's file" in said
    assert sha256(log)[:12] in said
    assert asked.replay is not None
    assert asked.replay.sha256[:12] in said


def test_a_file_that_is_not_here_is_named(tmp_path: Path, log: Path) -> None:
    asked = spec(log)
    log.unlink()
    with pytest.raises(UsageError, match=r"log\.jsonl: No such file"):
        replay_of(asked)


def test_a_trace_is_read_once(log: Path) -> None:
    assert load_trace(str(log), "jsonl") is load_trace(str(log), "jsonl")


def test_a_file_that_was_changed_is_read_again(log: Path) -> None:
    before = load_trace(str(log), "jsonl")
    write(log, [*LINES, '{"timestamp": 9, "prompt": "later"}'])
    after = load_trace(str(log), "jsonl")
    assert (before.used, after.used) == (3, 4)
    assert after.sha256 == sha256(log)


def test_a_change_that_keeps_the_length_is_seen_by_the_time_of_it(log: Path) -> None:
    before = load_trace(str(log), "jsonl")
    write(log, [*LINES[:2], LINES[2].replace("4", "6")])
    status = log.stat()
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    after = load_trace(str(log), "jsonl")
    assert (before.end_ns, after.end_ns) == (5_000_000_000, 7_000_000_000)


def test_what_is_asked_of_the_replay_is_done(log: Path) -> None:
    found = replay_of(spec(log, time_scale=2.0, start_s=1.0, end_s=4.5))
    assert found is not None
    assert found.offset_ns.tolist() == [0, 6_000_000_000]
    assert found.row.tolist() == [1, 2]
    assert found.seconds == 7.0


def test_jitter_stays_inside_the_traces_resolution(log: Path) -> None:
    found = replay_of(spec(log, jitter=True))
    assert found is not None
    assert found.jitter_ns == 1_000_000_000  # whole seconds are written
    moved = [int(at) - was for at, was in zip(found.offset_ns, (0, 1_000_000_000, 4_000_000_000), strict=True)]
    assert all(0 <= by < 1_000_000_000 for by in moved)
    assert any(by > 0 for by in moved)
    assert found.seconds == 5.0
