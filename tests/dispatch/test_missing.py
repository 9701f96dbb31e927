"""Which workers of a stage are lost, and which only make a pause."""

from __future__ import annotations

from llm_locust.dispatch.missing import MISSING_S, Missing
from llm_locust.records import NS_PER_S
from llm_locust.records.manifest import StageWorker


def workers() -> dict[str, StageWorker]:
    return {f"c{k}": StageWorker(worker=k, client_id=f"c{k}", rank=k, host="load-1", pid=1 + k) for k in range(2)}


def look(
    of: Missing,
    at_work: dict[str, StageWorker],
    connected: set[str],
    at_s: float,
    *,
    cancelled: bool = False,
    give_up_s: float | None = None,
) -> list[str | None]:
    give_up_ns = None if give_up_s is None else round(give_up_s * NS_PER_S)
    of.look(at_work, connected, round(at_s * NS_PER_S), cancelled=cancelled, give_up_ns=give_up_ns)
    return [worker.lost_reason for worker in at_work.values()]


def test_a_worker_is_lost_when_it_was_silent_for_longer_than_a_pause() -> None:
    of, at_work = Missing(), workers()
    assert look(of, at_work, {"c0"}, 100) == [None, None]
    assert look(of, at_work, {"c0"}, 100 + MISSING_S) == [None, None]
    assert look(of, at_work, {"c0"}, 101 + MISSING_S) == [None, "no sign of life for 16 s"]
    assert look(of, at_work, {"c0", "c1"}, 200) == [None, "no sign of life for 16 s"]  # it does not come back


def test_a_pause_that_ended_is_forgotten() -> None:
    of, at_work = Missing(), workers()
    look(of, at_work, set(), 100)
    look(of, at_work, {"c0", "c1"}, 110)
    assert look(of, at_work, set(), 120) == [None, None]
    assert look(of, at_work, set(), 134) == [None, None]


def test_nobody_waits_for_a_missing_one_when_all_is_cancelled() -> None:
    of, at_work = Missing(), workers()
    look(of, at_work, {"c0"}, 100)
    assert look(of, at_work, {"c0"}, 101, cancelled=True) == [None, "no sign of life for 1 s"]


def test_a_worker_that_is_there_and_never_done_is_given_up() -> None:
    of, at_work = Missing(), workers()
    assert look(of, at_work, {"c0", "c1"}, 100, give_up_s=100) == [None, None]
    assert look(of, at_work, {"c0", "c1"}, 101, give_up_s=100) == ["did not finish the stage in time"] * 2
