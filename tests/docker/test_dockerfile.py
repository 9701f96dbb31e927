"""The image: on Locust's own of the locked version, what the lock file names, nobody's secrets, not root."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docker.deployment import DOCKER, ROOT, dockerfile, image_environment, locust_options

INSTRUCTIONS = dockerfile()
LAST = max(one.stage for one in INSTRUCTIONS)
IN_IMAGE = Path("/opt/llm-locust")


def of(word: str, stage: int | None = None) -> list[str]:
    return [one.rest for one in INSTRUCTIONS if one.word == word and stage in (None, one.stage)]


def copied() -> dict[Path, Path]:
    """Where files of the checkout are in the image."""
    found = {}
    for source, target in (words.split() for words in of("COPY", LAST)):
        found[Path(target)] = ROOT / source
    return found


def test_the_base_is_locusts_image_of_the_locked_version() -> None:
    (base,) = [found[1] for rest in of("ARG") if (found := re.fullmatch(r"LOCUST_IMAGE=(.+)", rest))]
    locked = re.search(r"^locust==(\S+)", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    assert locked is not None
    assert base == f"locustio/locust:{locked[1]}"
    assert [rest.split()[0] for rest in of("FROM")] == ["${LOCUST_IMAGE}"] * (LAST + 1)


def test_it_installs_what_the_lock_file_names_with_hashes_and_this_checkouts_wheel_without_more() -> None:
    (installed,) = [rest for rest in of("RUN", LAST) if "pip install" in rest]
    assert "--require-hashes -r /build/requirements.lock" in installed
    assert "--no-deps /wheels/*.whl" in installed
    assert all("--no-cache-dir" in part for rest in of("RUN") for part in rest.split("&&") if "pip install" in part)


def test_every_package_that_is_installed_by_name_is_pinned() -> None:
    for rest in of("RUN"):
        for name in re.findall(r"pip install (?:--\S+ )*([a-z][^\s/]*)", rest):
            assert "==" in name, rest


def test_the_wheel_is_made_from_what_hatchling_reads() -> None:
    sources = {source for rest in of("COPY", 0) for source in rest.split()[:-1]}
    assert sources >= {"pyproject.toml", "README.md", "LICENSE", "llm_locust", "locustfiles", "shapes"}


def test_every_copied_source_exists_and_is_let_through_by_dockerignore() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] not in ("", "#")]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    mounted = {found for rest in of("RUN") for found in re.findall(r"type=bind,source=([^,\s]+)", rest)}
    sources = {source for rest in of("COPY") for source in rest.split()[:-1]} | mounted
    assert sources == allowed
    for source in sources:
        assert (ROOT / source).exists(), source


def test_it_does_not_run_as_root_and_says_so_with_a_number() -> None:
    assert of("USER", LAST)[-1] == "1000:1000"
    assert of("USER", 0) == []
    assert any('test "$(id -u locust):$(id -g locust)" = 1000:1000' in rest for rest in of("RUN", LAST))


def test_runs_land_in_a_volume_that_its_user_may_write_to() -> None:
    assert of("VOLUME") == ['["/runs"]']
    assert image_environment()["LOCUST_LLM_RUN_DIR"] == "/runs"
    assert any("install -d -o locust -g locust /runs" in rest for rest in of("RUN", LAST))
    assert locust_options([], image_environment()).run_dir == "/runs"


def test_the_locustfiles_that_it_names_are_in_it() -> None:
    locations = copied()
    for name in image_environment()["LOCUST_LOCUSTFILE"].split(","):
        folder = Path(name).parent
        assert (locations[folder] / Path(name).name).is_file()


def test_nothing_in_it_is_a_secret() -> None:
    text = (DOCKER / "Dockerfile").read_text("utf-8")
    assert not re.search(r"(?i)(api_?key|token|password|secret)\s*=", text)
    assert ".env" not in {source for rest in of("COPY") for source in rest.split()}


def test_it_starts_locust_as_the_base_image_does() -> None:
    assert of("ENTRYPOINT") == ['["locust"]']
    exposed = {word for rest in of("EXPOSE") for word in rest.split()}
    options = locust_options([])
    assert exposed == {"8089", str(options.master_bind_port), "9646"}


def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health", DOCKER / "health.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("words", ["", "answers", "answers file:///etc/passwd", "connected", "connected x", "other 1"])
def test_a_health_check_that_is_put_wrongly_is_neither_healthy_nor_unhealthy(words: str) -> None:
    assert health().main(shlex.split(words)) == 2


def test_a_health_check_says_what_is_wrong() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCKER / "health.py"), "answers", "http://127.0.0.1:9/health"],
        capture_output=True,
        text=True,
        check=False,
        env={"HTTP_PROXY": "http://127.0.0.1:1", "PATH": ""},
    )
    assert done.returncode == 1
    assert done.stdout.startswith("http://127.0.0.1:9/health: ")
    assert "refused" in done.stdout
