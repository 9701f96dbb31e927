"""Quality checks beside the load: what a row says of its reply, and that nobody waits for a check."""

from __future__ import annotations

from collections.abc import Callable

import gevent
import pytest
from gevent.event import Event

from llm_locust.dispatch.checking import Checking
from llm_locust.records import Outcome, RequestRecord
from llm_locust.streaming import Reply
from llm_locust.workload import Prompt
from tests.dispatch.fakes import Bench, Builder, burst

Verdict = Callable[[Prompt, Reply], bool | None]


class Judge(Builder):
    """A user with a check of its own."""

    checks = True

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.check = verdict


def qualities(bench: Bench) -> dict[int, str | None]:
    return {record.index: record.quality for record in bench.rows.terminal}


@pytest.mark.parametrize(("said", "quality"), [(True, "pass"), (False, "fail"), (None, None)])
def test_a_row_says_what_the_check_said(said: bool | None, quality: str | None) -> None:
    bench = Bench(burst(1), builder=Judge(lambda prompt, reply: said), at_once=True)
    bench.start()
    bench.await_over()
    assert qualities(bench) == {0: quality}
    assert bench.outcomes() == {0: "ok"}
    assert bench.stage.ok == 1


def test_a_check_that_raises_is_its_own_error_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken(prompt: Prompt, reply: Reply) -> bool:
        raise KeyError("answer")

    bench = Bench(burst(3), builder=Judge(broken), at_once=True)
    bench.start()
    bench.await_over()
    assert qualities(bench) == {0: "error", 1: "error", 2: "error"}
    assert bench.outcomes() == {0: "ok", 1: "ok", 2: "ok"}
    assert bench.stage.error is None  # the generator did its part
    said = [record.getMessage() for record in caplog.records if "quality check" in record.getMessage()]
    assert len(said) == 1
    assert "KeyError: 'answer'" in said[0]


def test_only_ok_replies_are_checked() -> None:
    asked: list[str] = []
    bench = Bench(
        burst(1), builder=Judge(lambda prompt, reply: bool(asked.append(str(reply.outcome)))), deadline_s=0.02
    )
    bench.start()
    bench.await_over()
    assert bench.outcomes() == {0: "timeout"}
    assert asked == []
    assert qualities(bench) == {0: None}


def test_a_check_that_waits_holds_up_no_other_request_and_takes_no_place_under_a_cap() -> None:
    finished = Event()

    def slow(prompt: Prompt, reply: Reply) -> bool:
        return bool(finished.wait(10))

    bench = Bench(burst(3), builder=Judge(slow), at_once=True, cap=1)
    bench.start()
    bench.server.await_requests(3)
    assert bench.rows.terminal == []
    assert not bench.stage.over.is_set()
    finished.set()
    bench.await_over()
    assert qualities(bench) == {0: "pass", 1: "pass", 2: "pass"}


def test_a_closed_loop_goes_on_while_a_reply_is_checked() -> None:
    finished = Event()
    bench = Bench(
        burst(1, mode="closed", rate_rps=None, concurrency=1, window_s=None, requests=3),
        builder=Judge(lambda prompt, reply: bool(finished.wait(10))),
        at_once=True,
    )
    bench.start()
    bench.server.await_requests(3)
    assert bench.rows.terminal == []
    finished.set()
    bench.await_over()
    assert list(qualities(bench).values()) == ["pass"] * 3


def test_the_times_of_a_row_are_those_before_its_check() -> None:
    ended: list[int] = []

    def look(prompt: Prompt, reply: Reply) -> bool:
        gevent.sleep(0.02)
        assert reply.end_ns is not None
        ended.append(reply.end_ns)
        return True

    bench = Bench(burst(1), builder=Judge(look), at_once=True)
    bench.start()
    bench.await_over()
    assert [record.end_ns for record in bench.rows.terminal] == ended


def test_a_check_without_end_is_given_up_after_the_deadline_of_a_request() -> None:
    record, over = (
        RequestRecord(
            run_id="r", stage=0, phase="measure", index=0, request_id="r.0", worker=0, user="U", outcome=Outcome.OK
        ),
        Event(),
    )
    checking = Checking(limit_s=0.02)
    checking.start(
        Judge(lambda prompt, reply: bool(Event().wait())),
        Prompt(index=0, prompt="ask", max_tokens=1),
        Reply(outcome=Outcome.OK),
        record,
        over.set,
    )
    assert over.wait(5)
    assert record.quality == "error"
    assert len(checking) == 0


def test_who_cancels_waits_for_no_check() -> None:
    started = Event()

    def hang(prompt: Prompt, reply: Reply) -> bool:
        started.set()
        return bool(Event().wait())

    bench = Bench(burst(1), builder=Judge(hang), at_once=True)
    bench.start()
    assert started.wait(5)
    bench.stage.cancel()
    bench.await_over()
    assert bench.outcomes() == {0: "ok"}
    assert qualities(bench) == {0: None}
