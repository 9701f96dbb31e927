"""An engine's process: what it says is kept, and it is ended with what it started."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest

from llm_locust.matrix.engine import NotUp, Started, await_up, output_of, unknown_flags
from llm_locust.ports import free_port


def test_flags_that_a_help_text_does_not_name_are_told() -> None:
    usage = "  --enable-prefix-caching, --no-enable-prefix-caching\n  --port PORT\n  --max-model-len-of-all N\n"
    words = ["serve", "--port", "1", "--no-enable-prefix-caching", "--max-model-len", "9", "--seed=0", "-x", "--seed=1"]
    assert unknown_flags(words, usage) == ["--max-model-len", "--seed"]


def test_an_engine_that_ends_at_once_is_not_up_and_its_last_words_are_told(tmp_path: Path) -> None:
    engine = Started(["sh", "-c", "echo no such model >&2; exit 3"], tmp_path / "engine.log", os.environ)
    with pytest.raises(NotUp, match="it ended with exit code 3: no such model"):
        await_up(engine, f"http://127.0.0.1:{free_port()}", "/health", 30, threading.Event())
    assert engine.stop(1) == 3
    assert (tmp_path / "engine.log").read_text() == "$ sh -c echo no such model >&2; exit 3\nno such model\n"


def test_a_command_that_is_not_there_is_not_up(tmp_path: Path) -> None:
    with pytest.raises(NotUp, match="no-such-engine: No such file"):
        Started(["no-such-engine"], tmp_path / "engine.log", os.environ)


def test_waiting_ends_when_somebody_wants_it_all_to_stop(tmp_path: Path) -> None:
    engine = Started(["sleep", "60"], tmp_path / "engine.log", os.environ)
    stop = threading.Event()
    stop.set()
    with pytest.raises(NotUp, match="stopped while it started"):
        await_up(engine, f"http://127.0.0.1:{free_port()}", "/health", 30, stop)
    assert engine.stop(10) == -15


def test_an_engine_is_ended_with_the_processes_that_it_started_even_if_they_would_not(tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; wait"
    engine = Started(["sh", "-c", script], tmp_path / "engine.log", os.environ)
    child = tmp_path / "child"
    give_up = threading.Event()
    while not (child.exists() and child.read_text().strip()):
        give_up.wait(0.01)
    process = psutil.Process(int(child.read_text()))
    assert engine.stop(0.2) == -9
    process.wait(10)
    assert not process.is_running()


def test_what_an_engine_says_of_its_version_is_kept() -> None:
    kept: list[str] = []
    assert output_of(["sh", "-c", "echo 1.2.3"], os.environ, kept.append) == "1.2.3\n"
    assert kept == ["$ sh -c echo 1.2.3\n1.2.3\n"]
    assert output_of(["sh", "-c", "echo oh; exit 1"], os.environ, kept.append) is None
    assert output_of(["no-such-engine"], os.environ, kept.append) is None
    assert "No such file" in kept[-1]
