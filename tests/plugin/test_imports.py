"""What is loaded when: a worker has no pandas, and the judging command is not patched for gevent."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_a_locustfile_loads_no_pandas_and_no_scipy() -> None:
    loaded = loaded_by("from llm_locust import OpenAIChatUser, StageShape")
    assert "llm_locust.dispatch" in loaded
    assert not {"pandas", "scipy", "prometheus_client"} & loaded
    assert not {name for name in loaded if name.startswith("llm_locust.web")}


def test_pages_load_no_pandas_and_no_scipy_into_the_process_that_makes_load() -> None:
    loaded = loaded_by("import locust, llm_locust.web.wiring")
    assert "llm_locust.web.live_page" in loaded
    assert not {"pandas", "scipy", "matplotlib"} & loaded


@pytest.mark.parametrize("module", ["llm_locust", "llm_locust.cli", "llm_locust.cli.merge", "llm_locust.report.run"])
def test_the_command_line_loads_no_locust(module: str) -> None:
    assert not {"locust", "gevent"} & loaded_by(f"import {module}")
