"""From Locust's web UI: start form, edit, stop, start again; a run folder each time."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
import requests

from llm_locust.records import Manifest
from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, LADDER, Locust, free_port

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]


class WebUI:
    """A locust web UI as a person uses it: start form, edit, stop."""

    def __init__(self, locust: Locust, *arguments: str, files: str = CHAT) -> None:
        self.port = free_port()
        self.process = locust.start("--web-port", str(self.port), "--web-host", "127.0.0.1", *arguments, files=files)
        self.url = f"http://127.0.0.1:{self.port}"
        self._http = requests.Session()
        self._http.trust_env = False
        self.until(lambda: self._http.get(f"{self.url}/stats/requests", timeout=5).status_code == 200)

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
        self.until(lambda: int(self.state()["stats"][-1]["num_requests"]) >= count)  # type: ignore[index]

    def until_users(self, count: int) -> None:
        self.until(lambda: self.state()["user_count"] == count)

    def until_stopped(self) -> None:
        self.until(lambda: self.state()["state"] in ("stopped", "ready"))

    def until(self, true: Callable[[], bool], timeout_s: float = 40) -> None:
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
    ui.until(lambda: len(list((locust.home / "runs").iterdir())) == 2)  # the counts of the last run stand until then
    ui.until_requests(3)
    ui.stop()
    ui.until_stopped()
    stdout, stderr = ui.quit()
    folders = sorted((locust.home / "runs").iterdir())
    assert len(folders) == 2, stderr
    assert all((folder / "report.md").exists() for folder in folders)
    assert all((folder / "summary.json").exists() for folder in folders)
    assert len(re.findall(r"^Report: ", stdout, re.MULTILINE)) == 2


def test_a_ladder_started_from_the_web_form_ends_by_itself_and_can_be_started_again(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=20)
    ui = WebUI(
        locust, "--host", server.base_url, "--rates", "5", "--stage-time", "3", "--warmup-time", "0", "--cooldown", "1",
        "--max-tokens", "4", files=f"{CHAT},{LADDER}",
    )  # fmt: skip
    for rates in ("5", "4,6"):
        before = len(list((locust.home / "runs").glob("*/report.md")))
        ui.start(1, rates=rates)
        ui.until(lambda n=before: len(list((locust.home / "runs").glob("*/report.md"))) > n)
        ui.until_stopped()
    ui.quit()
    manifests = [Manifest.load(path) for path in sorted((locust.home / "runs").glob("*/manifest.json"))]
    assert [[stage.spec.rate_rps for stage in manifest.stages] for manifest in manifests] == [[5.0], [4.0, 6.0]]
    assert {manifest.state for manifest in manifests} == {"complete"}


def test_ctrl_c_at_a_web_ui_judges_the_run_and_then_ends(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=20)
    ui = WebUI(locust, "--host", server.base_url, "--max-tokens", "8")
    ui.start(2)
    ui.until_requests(4)
    stdout, _ = ui.quit()
    (folder,) = (locust.home / "runs").iterdir()
    assert (folder / "report.md").exists()
    assert "Report: " in stdout


def test_one_interrupt_ends_and_judges_a_run_of_autostart_and_then_the_process(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=5)
    ui = WebUI(
        locust, "--autostart", "--host", server.base_url, "--rates", "10", "--stage-time", "60", "--warmup-time", "0",
        "--cooldown", "0", "--max-tokens", "8", "--deadline", "5", files=f"{CHAT},{LADDER}",
    )  # fmt: skip
    ui.until_requests(5)
    ui.quit()
    assert Manifest.load(locust.newest().manifest).state_reason == "interrupted"
    assert locust.newest().summary.exists()
