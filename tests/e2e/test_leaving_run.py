"""Users who leave, in real runs: the drawn ones and no others, and the server sees them go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_locust.arrivals import leaves
from llm_locust.records.leaving import Leaving
from llm_locust.simulator.process import Running
from tests.e2e.conftest import Locust, processes, truth

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

LOAD = ("--rates", "10", "--stage-time", "4", "--warmup-time", "0", "--cooldown", "2", "--max-tokens", "40")


@pytest.mark.parametrize("workers", [0, 2])
def test_exactly_the_drawn_requests_leave_after_their_tokens_and_free_their_slots(
    locust: Locust, simulator: Simulator, workers: int
) -> None:
    server = simulator(slots=64, decode_ms=25)
    forked = processes(workers) if workers else []
    run = locust.run(*LOAD, *forked, "--host", server.base_url, "--cancel", "share=0.3,tokens=5", "--seed", "7")
    run.assert_ran()
    rows = run.rows()
    run.assert_one_row_for_each_planned_arrival()
    drawn = {k for k in rows["index"] if leaves(Leaving(share=0.3, after_events=5), 7, k)}
    cancelled = rows[rows["outcome"] == "cancelled"]
    assert set(cancelled["index"]) == drawn
    assert set(rows[~rows["index"].isin(drawn)]["outcome"]) == {"ok"}
    assert set(cancelled["error"]) == {"left as --cancel planned, after 5 output events"}
    assert cancelled["output_events"].min() >= 5  # a read may hold more than one
    log = truth(server).set_index("request_id")
    assert set(log[log["outcome"] == "aborted"].index) == set(cancelled["request_id"])
    assert log.loc[list(cancelled["request_id"]), "output_tokens"].max() < 40  # generation stopped
    (stage,) = run.summary.stages
    assert stage.planned_leavings == stage.outcomes["cancelled"] == stage.failed > 0
    assert run.manifest.cancel == "share=0.3,tokens=5"


def test_users_leave_after_a_time_and_do_not_count_as_a_server_that_fails(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=64, decode_ms=100)
    run = locust.run(
        *LOAD, "--host", server.base_url, "--cancel", "share=1,after=0.3s", "--max-failures", "5", timeout_s=60
    )
    run.assert_ran()
    rows = run.rows()
    assert len(rows) > 20  # not ended by --max-failures
    assert set(rows["outcome"]) == {"cancelled"}
    assert ((rows["end_ns"] - rows["sent_ns"]) >= 300_000_000).all()
    assert set(truth(server)["outcome"]) == {"aborted"}
