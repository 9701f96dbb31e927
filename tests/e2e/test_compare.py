"""Real runs held against each other by the command, and the comparisons that ship as config files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_locust.simulator.process import Running
from tests.e2e.conftest import ROOT, Locust, clean_environment

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

COMPARISONS = ROOT / "locustfiles" / "comparisons"

# A lag bound of 1 % of a minute: a busy test machine does not make these stages invalid.
LOAD = (
    "--rates", "15", "--stage-time", "6", "--warmup-time", "0", "--cooldown", "2", "--max-tokens", "8",
    "--slo", "e2e=60000",
)  # fmt: skip


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llm_locust", "compare", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean_environment() | {"COLUMNS": "160"},
    )


def figure(comparison: dict[str, Any], name: str) -> dict[str, Any]:
    return next(of for of in comparison["points"][0]["parts"][0]["figures"] if of["name"] == name)


def test_one_engine_option_shows_its_difference_and_a_second_setting_is_refused(
    locust: Locust, simulator: Simulator
) -> None:
    quick, slow = simulator(slots=64, decode_ms=60), simulator(slots=64, decode_ms=150)
    a = locust.run(*LOAD, "--host", quick.base_url)
    b = locust.run(*LOAD, "--host", slow.base_url)
    other = locust.run(*LOAD, "--host", slow.base_url, "--max-tokens", "7", "--seed", "2")
    for run in (a, b, other):
        run.assert_ran()
    paths = [str(run.folder.path) for run in (a, b)]

    done = command(*paths, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["compared"].startswith("host: ")
    tpot = figure(found, "tpot_p50_ms")
    (difference,) = tpot["differences"]
    assert difference["shown"] is True
    assert 0 < difference["interval"]["low"] <= difference["difference"] <= difference["interval"]["high"]
    errors = figure(found, "error_rate")["differences"][0]
    assert (errors["difference"], errors["shown"]) == (0.0, False)
    assert any("nothing is said of the quality" in text for text in found["limitations"])

    shown = command(*paths)
    assert shown.returncode == 0
    assert "TPOT P50, ms" in shown.stdout
    assert "no difference shown" in shown.stdout
    assert command(*paths, "--markdown").stdout.startswith("# Comparison\n\n**Compared: host: ")

    paths[1] = str(other.folder.path)
    refused = command(*paths)
    assert refused.returncode == 2
    assert "the runs differ in 2 things" in refused.stderr
    assert "max_tokens: 8 against 7" in refused.stderr
    assert "seed: 1 against 2" in refused.stderr
    allowed = command(*paths, "--allow", "seed", "--json")
    assert allowed.returncode == 0, allowed.stderr
    assert json.loads(allowed.stdout)["compared"].startswith("max_tokens: 8 against 7, beside seed")


def test_what_is_no_merged_run_is_named(tmp_path: Path) -> None:
    refused = command(str(tmp_path), str(tmp_path))
    assert refused.returncode == 2
    assert "is not a run folder" in refused.stderr


CONFIGS = sorted(path.name for path in COMPARISONS.glob("*.conf"))


@pytest.mark.parametrize("config", CONFIGS)
def test_every_shipped_comparison_is_a_config_file_that_can_be_run(config: str) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "locust", "-f", "locustfile.py", "--config", config, "--host", "http://127.0.0.1:9",
            "--tokenizer", "estimate", "--dry-run",
        ],
        cwd=COMPARISONS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    stages = [line for line in done.stdout.splitlines() if "closed C=" in line or ("open " in line and "/s" in line)]
    assert len(stages) >= (4 if config.startswith("batching") else 2)


def test_the_readme_names_each_comparison_and_no_file_that_is_not_there() -> None:
    named = set(re.findall(r"`([a-z0-9-]+\.conf)", (COMPARISONS / "README.md").read_text()))
    assert named <= set(CONFIGS)
    assert {name.replace("-long.conf", "-short.conf") for name in CONFIGS} == named
