"""Replies longer than the 60 s after which Locust gives its workers up: every way to end a run waits for them.

The runs of this file go on side by side, since all they do is wait.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pandas as pd
import pytest
import requests

from llm_locust.simulator.process import Running, running
from tests.e2e.conftest import CHAT, LADDER, Locust, Run, processes, truth
from tests.e2e.test_web_ui import WebUI
from tests.e2e.waiting import running_stage, until

pytestmark = [pytest.mark.process, pytest.mark.long]

TOKENS = 72
"""One a second: 71 s from the first to the last."""
BURST = [
    "--arrivals", "constant", "--rates", "4", "--stage-time", "1", "--warmup-time", "0", "--cooldown", "0",
]  # fmt: skip
SENT = 4


@dataclass
class Long:
    """What became of the four runs, and the server that they shared."""

    server: Running
    undisturbed: Run
    interrupted: Run
    stopped_ladder: Run
    stopped_users: Run

    def requests_of(self, run: Run) -> pd.DataFrame:
        """The server's own rows of one of them."""
        log = truth(self.server)
        return log[log["request_id"].str.startswith(run.folder.run_id)]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Long]:
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    # The last is the prompt of the one request before load, which need not take so long.
    prompts.write_text(
        f'{{"prompt": "a long story", "max_tokens": {TOKENS}}}\n' * 9 + '{"prompt": "hi", "max_tokens": 1}\n'
    )
    places = {name: Locust(tmp_path_factory.mktemp(name)) for name in ("undisturbed", "interrupted", "ladder", "users")}
    with running(slots=64, decode_ms=1000, batch_slowdown=0, prefill_tps=1e9) as server:
        common = ["--host", server.base_url, "--prompts", str(prompts), "--deadline", "110"]
        try:
            yield _run_all(places, common, server)
        finally:
            for place in places.values():
                place.kill_leftovers()


def _run_all(places: dict[str, Locust], common: list[str], server: Running) -> Long:
    ladder = [*common, *BURST]
    undisturbed = places["undisturbed"].start("--headless", *processes(2), *ladder)
    interrupted = places["interrupted"].start("--headless", *ladder)
    of_ladder = WebUI(places["ladder"], *processes(2), *ladder, files=f"{CHAT},{LADDER}")
    of_users = WebUI(places["users"], *common)
    of_ladder.start(1)
    of_users.start(SENT)
    until(lambda: draining(places["interrupted"]), "the drain")
    os.killpg(interrupted.pid, signal.SIGINT)
    with ThreadPoolExecutor() as pool:
        until(lambda: draining(places["ladder"]), "the drain")
        stops: list[Future[int]] = [pool.submit(stop, of_ladder)]
        until(lambda: in_flight(places["users"]) == SENT, "users at work")
        stops.append(pool.submit(stop, of_users))
        assert [stopped.result(timeout=150) for stopped in stops] == [200, 200]
    runs = [places["undisturbed"].finish(undisturbed), places["interrupted"].finish(interrupted)]
    for ui, name in ((of_ladder, "ladder"), (of_users, "users")):
        ui.until_stopped()
        stdout, stderr = ui.quit()
        runs.append(Run(ui.process.returncode, stdout, stderr, places[name].newest()))
    return Long(server, *runs)


def stop(ui: WebUI) -> int:
    """The stop button; the answer comes when the test has stopped."""
    with requests.Session() as http:
        http.trust_env = False
        return http.post(f"{ui.url}/stop", timeout=150).status_code


def last_reports(place: Locust) -> pd.DataFrame:
    """The last word of each worker about itself."""
    path = place.newest().generator
    return pd.read_csv(path).groupby("worker").last() if path.exists() else pd.DataFrame(columns=["in_flight", "at_ns"])


def in_flight(place: Locust) -> int:
    return int(last_reports(place)["in_flight"].sum())


def draining(place: Locust) -> bool:
    """Everything was sent, and the workers have told so since the window ended; nothing has come back."""
    end_ns = running_stage(place).window_end_ns
    assert end_ns is not None
    return bool((last_reports(place)["at_ns"] > end_ns).all()) and in_flight(place) == SENT


@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("undisturbed", "complete", None),
        ("interrupted", "interrupted", "interrupted"),
        ("stopped_ladder", "interrupted", "stopped from the web page"),
        ("stopped_users", "complete", None),  # a closed loop without a set time is ended by hand
    ],
)
def test_what_is_in_flight_is_waited_for_however_the_run_ends(
    long: Long, name: str, state: str, why: str | None
) -> None:
    run: Run = getattr(long, name)
    assert (run.manifest.state, run.manifest.state_reason) == (state, why)
    rows, log = run.rows(), long.requests_of(run)
    assert rows["outcome"].tolist() == ["ok"] * SENT
    assert sorted(rows["request_id"]) == sorted(log["request_id"])
    assert set(log["outcome"]) == {"ok"}
    assert set(rows["output_tokens"]) == set(log["output_tokens"]) == {TOKENS}
    assert (rows["complete_ns"] - rows["sent_ns"] > 70e9).all()
    (stage,) = run.summary.stages
    assert (stage.planned, stage.attempted, stage.not_sent, stage.lost) == (SENT, SENT, 0, 0)
    assert stage.interrupted is None  # all that was due was sent, and ended: there is nothing missing to be judged by
    assert stage.generator.lost_workers == []
    if stage.mode == "open":  # four requests are too few to tell a trend
        assert (run.code, stage.verdict.result) == (4, "undetermined")
    else:  # a closed loop has none, and no limits were chosen
        assert (run.code, stage.verdict.result) == (0, "pass")


def test_ctrl_c_in_the_drain_says_that_what_is_in_flight_goes_on(long: Long) -> None:
    assert "stopping: nothing more is sent, what is in flight goes on" in long.interrupted.stderr
