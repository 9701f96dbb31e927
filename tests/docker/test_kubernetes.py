"""The manifests: what they start exists, they find each other, nothing runs as root, no secret is written down."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_locust.cli.simulate import command as simulate
from llm_locust.plugin.options import read_options
from tests.docker.deployment import DOCKER, dockerfile, image_environment, locust_options
from tests.docker.test_dockerfile import copied

FOLDER = DOCKER / "kubernetes"
VARIANTS = ("web", "ci")


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one]


def manifests(*folders: str) -> list[dict[str, Any]]:
    paths = [path for folder in folders for path in sorted((FOLDER / folder).glob("*.yaml"))]
    return [one for path in paths if path.name != "kustomization.yaml" for one in documents(path)]


def named(kind: str, name: str, *folders: str) -> dict[str, Any]:
    (found,) = [one for one in manifests(*folders) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


EVERYTHING = manifests("", "base", *VARIANTS)
CONF: str = named("ConfigMap", "llm-locust", "base")["data"]["locust.conf"]
SERVICE = named("Service", "llm-locust-master", "base")


def pods(*folders: str) -> dict[str, dict[str, Any]]:
    """Pod templates by what they are of."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": one["spec"]["template"]
        for one in manifests(*folders)
        if one["kind"] in ("Deployment", "Job")
    }


def containers(*folders: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for pod in pods(*folders).values():
        for container in pod["spec"]["containers"]:
            yield pod, container


def container(variant: str, name: str) -> dict[str, Any]:
    (found,) = [one for _, one in containers(variant) if one["name"] == name]
    return found


def environment(of: dict[str, Any]) -> dict[str, str]:
    return image_environment() | {one["name"]: one["value"] for one in of.get("env", []) if "value" in one}


def locustfiles_of(of: dict[str, Any]) -> None:
    locations = copied()
    for name in environment(of)["LOCUST_LOCUSTFILE"].split(","):
        assert (locations[Path(name).parent] / Path(name).name).is_file(), name


@pytest.mark.parametrize("variant", VARIANTS)
def test_master_and_workers_are_given_options_that_exist(variant: str) -> None:
    for name in ("master", "worker"):
        one = container(variant, name)
        options = locust_options(one["args"], environment(one), CONF if name == "master" else None)
        assert options.run_dir == "/runs"
        assert getattr(options, name)
        locustfiles_of(one)
    master = locust_options(container(variant, "master")["args"], {}, CONF)
    read_options(master)
    assert (master.prometheus_host, master.prometheus_port) == ("0.0.0.0", "9646")
    assert master.headless is (variant == "ci")


def test_the_web_ui_is_reached_through_kubectl_alone() -> None:
    assert locust_options(container("web", "master")["args"]).web_host == "127.0.0.1"
    assert [port["port"] for port in SERVICE["spec"]["ports"]] == [5557]


def test_a_headless_run_waits_for_as_many_workers_as_there_are_and_is_never_tried_again() -> None:
    worker = named("Job", "llm-locust-worker", "ci")["spec"]
    expected = locust_options(container("ci", "master")["args"]).expect_workers
    assert worker["parallelism"] == worker["completions"] == expected
    for job in (worker, named("Job", "llm-locust-master", "ci")["spec"]):
        assert job["backoffLimit"] == 0
        assert job["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize("variant", VARIANTS)
def test_workers_find_the_master_and_probes_the_ports_that_it_opens(variant: str) -> None:
    worker = locust_options(container(variant, "worker")["args"])
    assert worker.master_host == SERVICE["metadata"]["name"]
    (port,) = SERVICE["spec"]["ports"]
    assert port["port"] == worker.master_port
    master = container(variant, "master")
    ports = {one["name"]: one["containerPort"] for one in master["ports"]}
    options = locust_options(master["args"])
    assert ports == {"workers": options.master_bind_port, "metrics": int(options.prometheus_port)}
    assert port["targetPort"] in ports
    (labels,) = [pod["metadata"]["labels"] for pod, one in containers(variant) if one["name"] == "master"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    for probe in ("startupProbe", "readinessProbe"):
        assert master[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}
        words = container(variant, "worker")[probe]["exec"]["command"]
        assert words == ["python", "/opt/llm-locust/health.py", "connected", str(port["port"])]
        assert copied()[Path(words[1])].is_file()


def test_a_busy_process_is_never_restarted_or_throttled() -> None:
    for _, one in containers("", *VARIANTS):
        assert "livenessProbe" not in one
        assert set(one["resources"]["limits"]) == {"memory"}
        assert set(one["resources"]["requests"]) == {"cpu", "memory"}


def test_nothing_runs_as_root_or_writes_to_its_image() -> None:
    user, group = map(int, [one.rest for one in dockerfile() if one.word == "USER"][-1].split(":"))
    for pod, one in containers("", *VARIANTS):
        of_pod, of_container = pod["spec"]["securityContext"], one["securityContext"]
        assert of_pod["runAsNonRoot"] is True
        assert (of_pod["runAsUser"], of_pod["runAsGroup"]) == (user, group)
        assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert of_container == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["enableServiceLinks"] is False  # they would set LOCUST_* variables


def test_the_key_comes_from_a_secret_and_no_secret_is_written_down() -> None:
    assert [one["kind"] for one in EVERYTHING if one["kind"] == "Secret"] == []
    for variant in VARIANTS:
        for name in ("master", "worker"):
            (key,) = [one for one in container(variant, name)["env"] if one["name"] == "LLM_LOCUST_API_KEY"]
            assert key["valueFrom"] == {"secretKeyRef": {"name": "llm-locust", "key": "api-key", "optional": True}}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_mounted_is_there_and_runs_are_kept(variant: str) -> None:
    for pod, one in containers(variant):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount for mount in one["volumeMounts"]}
        assert set(volumes) == {mount["name"] for mount in mounts.values()}
        assert {"/runs", "/tmp", "/files"} <= set(mounts)
        assert volumes["files"]["configMap"]["name"] == "llm-locust"
        assert environment(one)["MPLCONFIGDIR"].startswith("/tmp/")
        if one["name"] == "master":
            claim = volumes["runs"]["persistentVolumeClaim"]["claimName"]
            assert named("PersistentVolumeClaim", claim, "base")["spec"]["accessModes"] == ["ReadWriteOnce"]
            assert mounts["/home/locust/locust.conf"]["subPath"] == "locust.conf"


def test_selectors_select_their_own_pods() -> None:
    for one in EVERYTHING:
        if one["kind"] == "Deployment":
            assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
    assert named("Deployment", "llm-locust-master", "web")["spec"]["replicas"] == 1
    assert named("Deployment", "llm-locust-master", "web")["spec"]["strategy"] == {"type": "Recreate"}


def test_the_simulator_is_the_server_that_the_load_goes_to() -> None:
    (pod,) = pods("").values()
    (one,) = pod["spec"]["containers"]
    assert one["command"] == ["llm-locust"]
    assert one["args"][0] == "simulate"
    options = simulate.make_context("simulate", list(one["args"][1:])).params
    (port,) = one["ports"]
    service = named("Service", "server", "")
    assert (options["host"], options["port"]) == ("0.0.0.0", port["containerPort"])
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert locust_options([], {}, CONF).host == f"http://server:{service['spec']['ports'][0]['port']}"
    assert one["readinessProbe"]["httpGet"] == {"path": "/health", "port": port["name"]}


def test_the_pod_monitor_reads_the_masters_metrics() -> None:
    monitor = named("PodMonitor", "llm-locust", "")["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    for variant in VARIANTS:
        (labels,) = [pod["metadata"]["labels"] for pod, one in containers(variant) if one["name"] == "master"]
        assert monitor["selector"]["matchLabels"] == labels
        assert endpoint["port"] in {port["name"] for port in container(variant, "master")["ports"]}


def test_no_manifest_chooses_a_namespace() -> None:
    assert all("namespace" not in one["metadata"] for one in EVERYTHING)


class TestLocustTest:
    """For Locust's operator: apiVersion, kind and fields as its CustomResourceDefinition 0.1.6 has them."""

    resource = named("LocustTest", "llm-locust", "")
    spec: dict[str, Any] = resource["spec"]

    def test_it_says_that_it_was_not_run(self) -> None:
        assert (FOLDER / "locusttest.yaml").read_text("utf-8").startswith("# Not run here")

    def test_it_has_fields_that_the_definition_has(self) -> None:
        assert (self.resource["apiVersion"], self.resource["kind"]) == ("locust.io/v1", "LocustTest")
        assert set(self.spec) <= {
            "annotations", "labels", "image", "imagePullPolicy", "imagePullSecrets", "workers", "args", "env", "master",
            "worker", "locustfile", "metrics",
        }  # fmt: skip
        assert type(self.spec["args"]) is str
        assert type(self.spec["workers"]) is int
        assert set(self.spec["locustfile"]) == {"configMap"}  # or content, never both
        for role in ("master", "worker"):
            assert set(self.spec[role]) <= {"labels", "annotations", "resources"}

    @pytest.mark.parametrize("prefix", [["--master"], ["--worker", "--master-host", "llm-locust-master"]])
    def test_its_arguments_suit_master_and_worker_alike(self, prefix: list[str]) -> None:
        assert self.spec["locustfile"]["configMap"]["name"] == "llm-locust"
        options = locust_options([*prefix, *shlex.split(self.spec["args"])], image_environment(), CONF)
        assert (options.headless, options.autostart) == (False, False)
        assert options.web_host == "0.0.0.0"
        for name in options.locustfile.split(","):
            assert (copied()[Path(name).parent] / Path(name).name).is_file()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("variant", VARIANTS)
def test_kustomize_puts_each_variant_together(variant: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / variant)], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    kind = "Deployment" if variant == "web" else "Job"
    found = sorted(f"{one['kind']}/{one['metadata']['name']}" for one in yaml.safe_load_all(done.stdout))
    assert found == sorted([
        "ConfigMap/llm-locust", "PersistentVolumeClaim/llm-locust-runs", "Service/llm-locust-master",
        f"{kind}/llm-locust-master", f"{kind}/llm-locust-worker",
    ])  # fmt: skip


def test_nothing_looks_like_a_literal_secret() -> None:
    assert not re.search(r'"(?:sk-|hf_|Bearer )', json.dumps(EVERYTHING))
