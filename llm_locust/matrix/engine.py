"""A process of an engine: started with its output in a log, seen to be up, ended with everything that it started.

What is ended is the group of processes whose leader we started, nothing else.
"""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from llm_locust.child_processes import tell_group
from llm_locust.matrix.commands import startable
from llm_locust.records.text import one_line

POLL_S = 0.1
ANSWER_S = 2.0
ASKED_S = 180.0
"""How long a version or help command may take: some engines import for a minute."""
LAST_LINES = 3
"""How much of a log is repeated in a reason."""


class NotUp(Exception):
    """The engine did not come up; why, with the end of what it said."""


class Started:
    """A process that leads a group of its own, with its output in a file."""

    def __init__(
        self, words: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        """Start it.

        Raises:
            NotUp: there is no such command, or it may not be run.
        """
        self.words = startable(words)
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            output.write(f"$ {' '.join(words)}\n".encode())
            output.flush()
            try:
                self._process = subprocess.Popen(
                    self.words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise NotUp(f"{words[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """Of the process and its group."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end at most so long; its exit code, or ``None``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Tell the whole group."""
        tell_group(self.pid, number)

    def stop(self, seconds: float) -> int:
        """End the group: SIGTERM, and SIGKILL for what is left after ``seconds``; returns the leader's exit code."""
        if self.code is None:
            self.signal(signal.SIGTERM)
            self.wait(seconds)
        self.signal(signal.SIGKILL)  # the leader if it would not end, and whatever it left behind
        return self._process.wait()

    def last_words(self) -> str:
        """The end of its log, on one line."""
        lines = [line.strip() for line in self.log.read_text("utf-8", "replace").splitlines() if line.strip()]
        said = [line for line in lines[-LAST_LINES:] if not line.startswith("$ ")]
        return one_line(" / ".join(said), 600) if said else "it said nothing"


def await_up(engine: Started, url: str, path: str, seconds: float, stop: threading.Event) -> None:
    """Wait until ``path`` answers with 200.

    Raises:
        NotUp: it ended, time ran out, or somebody wants it all to stop.
    """
    give_up = time.monotonic() + seconds
    while not answers(url, path):
        if engine.code is not None:
            raise NotUp(f"it ended with exit code {engine.code}: {engine.last_words()}")
        if time.monotonic() > give_up:
            raise NotUp(f"{path} did not answer with 200 within {seconds:g} s: {engine.last_words()}")
        if stop.wait(POLL_S):
            raise NotUp("it was stopped while it started")


def answers(url: str, path: str) -> bool:
    """A page is there, straight from the address: a proxy of the environment is no server that is up."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_S)
    try:
        connection.request("GET", f"{parts.path.rstrip('/').removesuffix('/v1')}{path}")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def taken(host: str, port: int) -> bool:
    """Somebody listens there already."""
    with socket.socket() as probe:
        probe.settimeout(ANSWER_S)
        return probe.connect_ex((host, port)) == 0


def output_of(words: Sequence[str], environment: Mapping[str, str], save: Callable[[str], None]) -> str | None:
    """What a command prints, which is also saved; ``None`` when it cannot be run, fails or takes too long."""
    try:
        done = subprocess.run(
            startable(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            timeout=ASKED_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        save(f"$ {' '.join(words)}\n{error}\n")
        return None
    text = done.stdout.decode("utf-8", "replace")
    save(f"$ {' '.join(words)}\n{text}")
    return text if done.returncode == 0 else None


def unknown_flags(words: Sequence[str], help_text: str) -> list[str]:
    """Long flags of a command that a help text does not name."""
    flags = dict.fromkeys(word.partition("=")[0] for word in words if re.match(r"--[a-z]", word))
    return [flag for flag in flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help_text)]
