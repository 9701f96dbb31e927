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


@pytest.mark.parametrize("module", ["llm_locust", "llm_locust.cli", "llm_locust.cli.merge", "llm_locust.report.run"])
def test_the_command_line_loads_no_locust(module: str) -> None:
    assert not {"locust", "gevent"} & loaded_by(f"import {module}")
