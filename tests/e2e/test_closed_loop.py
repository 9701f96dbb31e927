"""Without a shape: Locust's own users are a closed loop that records, merges and reports like a stage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, Locust, processes, truth

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]


def issued_indices(locust: Locust) -> list[int]:
    import pandas as pd

    files = [path for path in locust.newest().issued_files() if ".shipped" not in path.name]
    return sorted(index for path in files for index in pd.read_csv(path)["index"])


@pytest.mark.parametrize("workers", [0, 2])
def test_users_without_a_shape_are_a_closed_loop_of_as_many(locust: Locust, simulator: Simulator, workers: int) -> None:
    server = simulator(slots=8, decode_ms=40)
    forked = processes(workers) if workers else []
    run = locust.run(
        *forked, "-u", "4", "-r", "4", "-t", "5s", "--host", server.base_url, "--max-tokens", "8", files=CHAT
    )
    run.assert_ran()
    (stage,) = run.summary.stages
    assert (stage.mode, stage.concurrency, stage.rate_rps) == ("closed", 4, None)
    assert stage.measured > 0
    assert stage.measured == stage.successful + stage.failed
    assert stage.peak_in_flight == 4
    assert "client_wait_p95_ms" not in stage.percentiles or stage.percentiles["client_wait_p95_ms"].value is None
    rows = run.rows()
    assert rows["planned_ns"].isna().all()
    assert sorted(rows["index"]) == issued_indices(locust)
    assert set(rows["outcome"]) == {"ok"}
    assert "measure" in set(rows["phase"])  # Locust may say that all users are there before the stage waits for it
    assert len(truth(server)) == len(rows)


def test_two_user_classes_share_the_load_by_their_weights(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=16, decode_ms=40)
    own = locust.home / "two.py"
    own.write_text(
        "from llm_locust import OpenAIChatUser, OpenAICompletionUser\n"
        "class Chat(OpenAIChatUser):\n    weight = 3\n"
        "class Completion(OpenAICompletionUser):\n    weight = 1\n"
    )
    run = locust.run("-u", "8", "-r", "8", "-t", "4s", "--host", server.base_url, "--max-tokens", "8", files=str(own))
    run.assert_ran()
    counts = run.rows()["user"].value_counts()
    assert set(counts.index) == {"Chat", "Completion"}
    assert counts["Chat"] == pytest.approx(3 * counts["Completion"], rel=0.35)
