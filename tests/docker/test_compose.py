"""compose.yml: its commands, ports, variables, mounts and health checks are those of the code; then its services for real.

No container engine is needed: the image's services run as processes on loopback, with the command, the variables and the
health check that the file gives them; only names, ports and folders are put where this machine has them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from llm_locust.cli.simulate import command as simulate
from llm_locust.plugin.options import read_options
from llm_locust.records import Manifest
from tests.docker.deployment import (
    DOCKER,
    ROOT,
    compose,
    dockerfile,
    env_example,
    image_environment,
    locust_options,
    variables_in,
)
from tests.docker.test_dockerfile import copied
from tests.e2e.conftest import clean_environment, free_port
from tests.e2e.waiting import until

TEXT = (DOCKER / "compose.yml").read_text("utf-8")
FILE = compose()
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = ("master", "worker", "simulator")
ENGINES = ("simulator", "ollama", "vllm")
CONF = (DOCKER / "locust.conf").read_text("utf-8")


def settings(service: str) -> dict[str, str]:
    """The variables that a container of this service has, without those that are passed through."""
    own = {name: value for name, value in SERVICES[service].get("environment", {}).items() if value is not None}
    return (image_environment() if service in OURS else {}) | own


def mounts(service: str) -> dict[str, tuple[str, str]]:
    """Target -> (source, mode)."""
    found = {}
    for text in SERVICES[service].get("volumes", []):
        source, target, *mode = text.split(":")
        found[target] = (source, mode[0] if mode else "rw")
    return found


def published(service: str) -> list[tuple[str, str]]:
    """(Port on the host, port in the container); only loopback is allowed."""
    found = []
    for text in SERVICES[service].get("ports", []):
        address, outer, inner = text.split(":")
        assert address == "127.0.0.1", text
        found.append((outer, inner))
    return found


class TestCommands:
    def test_master_and_worker_are_given_options_that_exist(self) -> None:
        master = locust_options(SERVICES["master"]["command"], settings("master"), CONF)
        assert master.master
        assert (master.host, master.run_dir) == ("http://server:8000", "/runs")
        worker = locust_options(SERVICES["worker"]["command"], settings("worker"))
        assert worker.worker
        assert worker.master_host == "master"
        assert worker.master_port == master.master_bind_port

    def test_the_load_of_locust_conf_can_be_run(self) -> None:
        options = read_options(locust_options([], {}, CONF))
        assert list(options.rates_rps or []) == [2.0, 6.0, 14.0]

    def test_what_is_commented_out_in_locust_conf_exists_too(self) -> None:
        lines = [re.sub(r"^# (?=[a-z-]+ = )", "", line) for line in CONF.splitlines()]
        options = locust_options([], {}, "\n".join(lines))
        assert (options.headless, options.expect_workers) == (True, 4)
        assert options.prompts.startswith("/files/")

    def test_the_simulator_is_given_options_that_exist(self) -> None:
        service = SERVICES["simulator"]
        assert service["entrypoint"] == ["llm-locust"]
        name, *arguments = service["command"]
        assert name == "simulate"
        options = simulate.make_context(name, arguments).params
        assert (options["host"], options["port"]) == ("0.0.0.0", 8000)

    def test_vllm_is_given_what_was_looked_up_in_its_source(self) -> None:
        known = (ROOT / "llm_locust" / "matrix" / "configs" / "vllm.toml").read_text("utf-8")
        assert SERVICES["vllm"]["image"] == "vllm/vllm-openai:v" + re.findall(r'^version = "(.+)"', known, re.M)[0]
        model, *options = SERVICES["vllm"]["command"]
        assert model == "set-VLLM_MODEL-in-docker/.env"
        assert {"--no-enable-prefix-caching", "--host=0.0.0.0", "--port=8000"} <= set(options)
        for option in options:
            assert f'"{option.split("=")[0]}"' in known


class TestNetwork:
    def test_every_published_port_is_on_loopback_and_is_the_one_that_is_listened_on(self) -> None:
        found = {service: published(service) for service in SERVICES}
        values = env_example()
        assert {service: ports for service, ports in found.items() if ports} == {
            "master": [(values["WEB_PORT"], "8089")],
            "prometheus": [(values["PROMETHEUS_PORT"], "9090")],
            "grafana": [(values["GRAFANA_PORT"], "3000")],
        }
        master = locust_options(SERVICES["master"]["command"])
        assert (master.web_host, master.web_port) == ("0.0.0.0", 8089)

    def test_workers_can_be_scaled(self) -> None:
        assert {"ports", "container_name", "hostname"}.isdisjoint(SERVICES["worker"])
        assert all("container_name" not in service for service in SERVICES.values())

    def test_each_engine_is_server_on_port_8000_and_only_one_is_started(self) -> None:
        for engine in ENGINES:
            assert SERVICES[engine]["networks"]["default"]["aliases"] == ["server"]
            assert SERVICES[engine]["profiles"] == [engine]
        assert SERVICES["ollama"]["environment"]["OLLAMA_HOST"].endswith(":8000")
        assert env_example()["COMPOSE_PROFILES"] == "simulator"
        assert all("profiles" not in SERVICES[name] for name in SERVICES if name not in ENGINES)

    def test_prometheus_reads_what_the_master_and_the_engine_serve(self) -> None:
        config = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text("utf-8"))
        targets = [
            one for job in config["scrape_configs"] for part in job.get("static_configs", []) for one in part["targets"]
        ]
        master = locust_options(SERVICES["master"]["command"])
        assert master.prometheus_host == "0.0.0.0"
        assert targets == [f"master:{master.prometheus_port}", "server:8000"]

    def test_grafana_reads_prometheus(self) -> None:
        source = yaml.safe_load((DOCKER / "grafana/provisioning/datasources/prometheus.yml").read_text("utf-8"))
        assert [one["url"] for one in source["datasources"]] == ["http://prometheus:9090"]
        assert "prometheus" in SERVICES


class TestVariables:
    def test_every_variable_is_explained_in_the_example_and_none_there_is_unused(self) -> None:
        assert variables_in(TEXT) == set(env_example()) - {"COMPOSE_PROFILES"}

    def test_the_defaults_are_those_of_the_example(self) -> None:
        assert compose({"LLM_LOCUST_HOST": env_example()["LLM_LOCUST_HOST"]}) == FILE

    def test_without_the_file_that_is_made_from_the_example_it_says_how_to_make_it(self) -> None:
        with pytest.raises(KeyError, match=r"cp \.env\.example \.env"):
            compose({})

    def test_keys_are_passed_through_and_written_nowhere(self) -> None:
        for service in ("master", "worker"):
            assert SERVICES[service]["environment"]["LLM_LOCUST_API_KEY"] is None
        assert SERVICES["vllm"]["environment"]["HF_TOKEN"] is None
        for text in (TEXT, (DOCKER / ".env.example").read_text("utf-8")):
            assert not re.search(r"(?i)(password|api_key|token) *[:=] *[^\s#]", text)
        assert SERVICES["grafana"]["environment"]["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
        assert ".env" in (DOCKER / ".gitignore").read_text("utf-8").splitlines()

    def test_users_and_shapes_of_the_example_are_there(self) -> None:
        at = {target: (DOCKER / source).resolve() for target, (source, _) in mounts("worker").items()}
        for name in settings("worker")["LOCUST_LOCUSTFILE"].split(","):
            assert (at[str(Path(name).parent)] / Path(name).name).is_file()
        assert settings("worker")["LOCUST_LOCUSTFILE"] == settings("master")["LOCUST_LOCUSTFILE"]


class TestMounts:
    def test_every_folder_and_file_that_is_mounted_exists_and_cannot_be_written_to(self) -> None:
        for service in SERVICES:
            for target, (source, mode) in mounts(service).items():
                if source.startswith("."):
                    assert (DOCKER / source).exists(), source
                    assert mode == "ro", target
                else:
                    assert source in FILE["volumes"]

    def test_the_configuration_is_mounted_where_it_is_looked_for(self) -> None:
        (conf,) = SERVICES["master"]["configs"]
        home = next(one.rest for one in dockerfile() if one.word == "WORKDIR" and one.rest != "/build")
        assert conf["target"] == f"{home}/locust.conf"
        assert (DOCKER / FILE["configs"][conf["source"]]["file"]).is_file()
        (config,) = [word for word in SERVICES["prometheus"]["command"] if word.startswith("--config.file=")]
        folder, name = config.removeprefix("--config.file=").rsplit("/", 1)
        assert (DOCKER / mounts("prometheus")[folder][0] / name).is_file()
        home_dashboard = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
        provider = yaml.safe_load((DOCKER / "grafana/provisioning/dashboards/llm_locust.yml").read_text("utf-8"))
        assert provider["providers"][0]["options"]["path"] == str(home_dashboard.parent)
        assert (DOCKER / mounts("grafana")[str(home_dashboard.parent)][0] / home_dashboard.name).is_file()

    def test_runs_of_master_and_workers_land_in_one_place(self) -> None:
        assert mounts("master")["/runs"] == mounts("worker")["/runs"] == ("runs", "rw")
        assert mounts("master") == mounts("worker")


class TestHardening:
    @pytest.mark.parametrize("service", OURS)
    def test_our_services_may_do_nothing_but_their_work(self, service: str) -> None:
        found = SERVICES[service]
        assert found["read_only"] is True
        assert found["cap_drop"] == ["ALL"]
        assert found["security_opt"] == ["no-new-privileges:true"]
        assert found["build"] == {"context": "..", "dockerfile": "docker/Dockerfile"}
        assert (DOCKER / found["build"]["context"] / found["build"]["dockerfile"]).is_file()

    def test_images_are_pinned(self) -> None:
        for name, service in SERVICES.items():
            if name not in OURS:
                assert re.fullmatch(r"[\w.-]+/[\w.-]+:v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?", service["image"]), name
        assert {SERVICES[name]["image"] for name in OURS} == {"llm-locust:local"}

    def test_whoever_waits_for_a_healthy_service_waits_for_one_with_a_health_check(self) -> None:
        for service in SERVICES.values():
            assert service["healthcheck"]["test"][0] == "CMD"
            for name, how in service.get("depends_on", {}).items():
                assert how["condition"] == "service_healthy"
                assert how.get("required", True) is (name not in ENGINES)
        assert set(SERVICES["master"]["depends_on"]) == set(ENGINES)


# --- the services themselves -----------------------------------------------------------------------------------------


class Machine:
    """This machine in the place of the containers' network: what they call by a name is a port on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.ports = {port: str(free_port()) for port in ("5557", "8000", "8089", "9646")}
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        files = {str(target): str(source) for target, source in copied().items()}
        # The charts' fonts are listed once per machine; a list of this test's own would take seconds.
        fonts = str(Path.home() / ".cache" / "matplotlib")
        self._places = files | {"/runs": str(self.runs), image_environment()["MPLCONFIGDIR"]: fonts}

    def here(self, text: str) -> str:
        """A word of a command or a variable, with its names, ports and folders replaced."""
        places = "|".join(map(re.escape, self._places))
        text = re.sub(rf"(?<![\w./-])({places})(?=/|,|$)", lambda found: self._places[found[1]], text)
        text = re.sub(r"^(0\.0\.0\.0|master)$|(?<=://)server(?=:)", "127.0.0.1", text)
        return re.sub(r"(?<![\w./-])(5557|8000|8089|9646)(?!\w)", lambda found: self.ports[found[1]], text)

    def start(self, service: str, *more: str) -> None:
        found = SERVICES[service]
        entrypoint = {"locust": "locust", "llm-locust": "llm_locust"}[found.get("entrypoint", ["locust"])[0]]
        home = self.folder / service
        home.mkdir()
        if "configs" in found:  # in its home, as the file has it; a run's own values come from the form
            shutil.copy(DOCKER / "locust.conf", home / "locust.conf")
        with (self.folder / f"{service}.log").open("wb") as log:
            self.started[service] = subprocess.Popen(
                [sys.executable, "-m", entrypoint, *map(self.here, found["command"]), *more],
                cwd=home,
                env=clean_environment() | {name: self.here(value) for name, value in settings(service).items()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text(errors="replace")

    def is_healthy(self, service: str) -> bool:
        """What the service's health check says; its own command, run."""
        _, program, *words = SERVICES[service]["healthcheck"]["test"]
        assert program == "python"
        done = subprocess.run([sys.executable, *map(self.here, words)], capture_output=True, check=False, timeout=20)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode == 0

    def until_healthy(self, service: str) -> None:
        def healthy() -> bool:
            assert self.started[service].poll() is None, self.said(service)
            return self.is_healthy(service)

        until(healthy, f"{service} is healthy")

    def read(self, address: str) -> str:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.here(address), timeout=10) as reply:
            return str(reply.read().decode())

    def end(self, service: str) -> int:
        """As docker stop does; its exit code."""
        self.started[service].send_signal(signal.SIGTERM)
        return self.started[service].wait(30)

    def kill_leftovers(self) -> None:
        for process in self.started.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


FORM = {
    "user_count": "1", "spawn_rate": "1", "rates": "10", "stage_time": "1", "warmup_time": "0.5", "cooldown": "0.5",
    "max_tokens": "4",
}  # fmt: skip
"""A shorter run than that of locust.conf, as a person would type it into the form."""


class Ran:
    """One run, from the first health check to the last exit code."""

    def __init__(self, machine: Machine) -> None:
        self.healthy: dict[str, list[bool]] = {}
        for service in OURS:
            self.healthy[service] = [machine.is_healthy(service)]
        machine.start("simulator")
        machine.until_healthy("simulator")
        machine.start("master", "--web-port", machine.ports["8089"], "--master-bind-port", machine.ports["5557"])
        machine.until_healthy("master")
        self.healthy["worker"].append(machine.is_healthy("worker"))
        machine.start("worker", "--master-port", machine.ports["5557"])
        machine.until_healthy("worker")
        http = requests.Session()
        http.trust_env = False
        web = machine.here("http://127.0.0.1:8089")
        until(lambda: len(http.get(f"{web}/stats/requests", timeout=10).json()["workers"]) == 1, "the worker is ready")
        self.form = http.get(web, timeout=10).text
        reply = http.post(f"{web}/swarm", data=FORM, timeout=30).json()
        assert reply["success"], reply
        until(lambda: 'run_state{state="running"} 1.0' in machine.read("http://127.0.0.1:9646/metrics"), "a run")
        until(lambda: "For a browser: " in machine.said("master"), "it is judged and reported")
        self.page = machine.read("http://127.0.0.1:9646/metrics")
        self.engine_page = machine.read("http://127.0.0.1:8000/metrics")
        (self.folder,) = machine.runs.iterdir()
        self.codes = {"master": machine.end("master")}
        self.codes["worker"] = machine.started["worker"].wait(30)
        self.codes["simulator"] = machine.end("simulator")
        for service in OURS:
            self.healthy[service].append(machine.is_healthy(service))
        self.said = {service: machine.said(service) for service in OURS}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    begun = time.monotonic()
    try:
        yield Ran(machine)
    finally:
        machine.kill_leftovers()
        print(f"services ran for {time.monotonic() - begun:.1f} s")


@pytest.mark.process
class TestServices:
    def test_health_checks_tell_a_service_that_works_from_one_that_does_not(self, ran: Ran) -> None:
        # Before it was started, and after it had ended; in between each was waited for until it was healthy. The worker's
        # was asked once more when its master was there already.
        assert ran.healthy == {"simulator": [False, False], "master": [False, False], "worker": [False, False, False]}

    def test_the_run_lands_in_the_volume_with_the_workers_rows_and_the_options_of_the_form_and_the_file(
        self, ran: Ran
    ) -> None:
        manifest = Manifest.load(ran.folder / "manifest.json")
        assert manifest.state == "complete", ran.said["master"]
        assert [stage.rate_rps for stage in (each.spec for each in manifest.stages)] == [10.0]
        assert list(ran.folder.glob("requests/worker-*.csv"))
        assert (ran.folder / "report.html").is_file()
        text = (ran.folder / "manifest.json").read_text("utf-8")
        assert '"deadline": "15"' in text or '"deadline":"15"' in text  # of locust.conf; the form did not say

    def test_prometheus_finds_the_run_on_the_masters_page_and_the_engine_on_its_own(self, ran: Ran) -> None:
        assert f'run_id="{ran.folder.name}"' in ran.page
        assert "llm_locust_arrivals_planned_total" in ran.page
        assert "vllm:num_requests_running" in ran.engine_page

    def test_stopping_the_master_ends_its_workers_and_everybody_ends_in_order(self, ran: Ran) -> None:
        assert ran.codes["worker"] == 0, ran.said["worker"]
        assert ran.codes["simulator"] == 0, ran.said["simulator"]
        assert ran.codes["master"] in (0, 4), ran.said["master"]  # a busy test machine may void any stage
        assert "Traceback" not in "".join(ran.said.values())
