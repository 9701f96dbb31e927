"""Without a shape: Locust's own users are a closed loop that records, merges and reports like a stage."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
import requests

from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, Locust, free_port, processes, truth

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]


def issued_indices(locust: Locust) -> list[int]:
    import pandas as pd

    files = [path for path in locust.newest().issued_files() if ".shipped" not in path.name]
    return sorted(index for path in files for index in pd.read_csv(path)["index"])


@pytest.mark.parametrize("workers", [0, 2])
def test_users_without_a_shape_are_a_closed_loop_of_as_many(locust: Locust, simulator: Simulator, workers: int) -> None:
    server = simulator(slots=8, decode_ms=20)
    forked = processes(workers) if workers else []
    run = locust.run(
        *forked, "-u", "4", "-r", "4", "-t", "5s", "--host", server.base_url, "--max-tokens", "8", files=CHAT
    )
    assert run.code == 0, run.stderr
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
    assert len(truth(server)) == len(rows) + 1  # and the one checked request before load


def test_two_user_classes_share_the_load_by_their_weights(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=16, decode_ms=20)
    own = locust.home / "two.py"
    own.write_text(
        "from llm_locust import OpenAIChatUser, OpenAICompletionUser\n"
        "class Chat(OpenAIChatUser):\n    weight = 3\n"
        "class Completion(OpenAICompletionUser):\n    weight = 1\n"
    )
    run = locust.run("-u", "8", "-r", "8", "-t", "4s", "--host", server.base_url, "--max-tokens", "8", files=str(own))
    assert run.code == 0, run.stderr
    counts = run.rows()["user"].value_counts()
    assert set(counts.index) == {"Chat", "Completion"}
    assert counts["Chat"] == pytest.approx(3 * counts["Completion"], rel=0.35)


class WebUI:
    """A locust web UI as a person uses it: start form, edit, stop."""

    def __init__(self, locust: Locust, *arguments: str, files: str = CHAT) -> None:
        self.port = free_port()
        self.process = locust.start("--web-port", str(self.port), "--web-host", "127.0.0.1", *arguments, files=files)
        self.url = f"http://127.0.0.1:{self.port}"
        self._http = requests.Session()
        self._http.trust_env = False
        self._until(lambda: self._http.get(f"{self.url}/stats/requests", timeout=5).status_code == 200)

    def start(self, users: int, **options: str) -> None:
        form = {"user_count": users, "spawn_rate": users, **options}
        reply = self._http.post(f"{self.url}/swarm", data=form, timeout=30).json()
        assert reply["success"], reply

    def stop(self) -> None:
        assert self._http.post(f"{self.url}/stop", timeout=60).status_code == 200

    def state(self) -> dict[str, object]:
        found: dict[str, object] = self._http.get(f"{self.url}/stats/requests", timeout=10).json()
        return found

    def until_requests(self, count: int) -> None:
        self._until(lambda: int(self.state()["stats"][-1]["num_requests"]) >= count)  # type: ignore[index]

    def until_users(self, count: int) -> None:
        self._until(lambda: self.state()["user_count"] == count)

    def until_stopped(self) -> None:
        self._until(lambda: self.state()["state"] in ("stopped", "ready"))

    def _until(self, true: Callable[[], bool], timeout_s: float = 40) -> None:
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up:
            try:
                if true():
                    return
            except (requests.RequestException, ValueError):
                pass
            select.select([], [], [], 0.1)
        pytest.fail(f"it did not come to pass; locust {'ended' if self.process.poll() is not None else 'runs'}")

    def quit(self) -> tuple[str, str]:
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def test_the_web_form_starts_edits_stops_and_starts_again_with_a_run_folder_each(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=20)
    ui = WebUI(locust, "--host", server.base_url, "--max-tokens", "8")
    ui.start(2)
    ui.until_requests(4)
    ui.start(5)  # "Edit users" posts the same form again
    ui.until_users(5)
    ui.stop()
    ui.until_stopped()
    ui.start(3)
    ui.until_requests(3)
    ui.stop()
    ui.until_stopped()
    stdout, stderr = ui.quit()
    folders = sorted((locust.home / "runs").iterdir())
    assert len(folders) == 2, stderr
    assert all((folder / "report.md").exists() for folder in folders)
    assert all((folder / "summary.json").exists() for folder in folders)
    assert len(re.findall(r"^Report: ", stdout, re.MULTILINE)) == 2


def test_the_web_form_knows_our_options_and_a_wrong_value_is_named(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=20)
    ui = WebUI(locust, "--host", server.base_url)
    page = requests.get(ui.url, timeout=10).text
    assert "max_in_flight" in page
    ui.start(2, max_in_flight="none")
    ui.until_stopped()
    ui.start(2, max_in_flight="", max_tokens="4", slo="ttft=2000")
    ui.until_requests(3)
    ui.stop()
    ui.until_stopped()
    _, stderr = ui.quit()
    assert "--max-in-flight 'none': must be a whole number" in stderr
    (folder,) = (locust.home / "runs").iterdir()
    assert '"ttft": 2000.0' in (folder / "manifest.json").read_text()
