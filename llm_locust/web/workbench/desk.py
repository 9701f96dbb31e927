"""A process of its own that computes for the page, so that the one that makes load loads no pandas and does no sums.

It is started at the first question, answers one after another and ends when nobody has asked for a while. A question and an
answer are a message each: its length in four bytes, then MessagePack.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from llm_locust.records import RunFolder

logger = logging.getLogger(__name__)

IDLE_S = 600
LONGEST_S = 60
"""A question that takes longer is given up, and the process with it."""

_LENGTH = struct.Struct(">I")


class Answer(NamedTuple):
    """HTTP status and JSON."""

    status: int
    body: bytes


class Desk:
    """This end of the process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def ask(self, question: str, folder: RunFolder | None = None, body: bytes = b"{}") -> Answer:
        """Ask one question.

        Args:
            question: One of :data:`~llm_locust.web.workbench.answers.ANSWERS`.
            folder: The run that it is about.
            body: What the browser posted, JSON or not.
        """
        message = msgspec.msgpack.encode((question, None if folder is None else str(folder.path.resolve()), body))
        with self._one_at_a_time:
            for _ in range(2):  # it may have ended, with nobody asking, just now
                process = self._running()
                too_late = threading.Timer(LONGEST_S, process.kill)
                too_late.daemon = True
                too_late.start()
                try:
                    reply = _exchange(process, message)
                finally:
                    too_late.cancel()
                if reply is not None:
                    return Answer(*msgspec.msgpack.decode(reply, type=tuple[int, bytes]))
                self._end()
        logger.error("the workbench's process ended while it was asked for %s", question)
        return refusal(500, "it could not be computed; Locust's log says more")

    def close(self) -> None:
        """End the process."""
        with self._one_at_a_time:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "llm_locust.web.workbench.desk"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the load; this one ends with its input
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.kill()
        process.wait()


def refusal(status: int, reason: str) -> Answer:
    """Why a request is not answered, where it is not one field's doing."""
    return Answer(status, msgspec.json.encode({"request": reason}))


def _exchange(process: subprocess.Popen[bytes], message: bytes) -> bytes | None:
    """The reply; ``None`` when the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _write(process.stdin, message)
        return _read(process.stdout)
    except (OSError, ValueError):
        return None


def _write(stream: IO[bytes], message: bytes) -> None:
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[stream.write(rest) or 0 :]


def _read(stream: IO[bytes]) -> bytes | None:
    head = _exactly(stream, _LENGTH.size)
    return None if head is None else _exactly(stream, _LENGTH.unpack(head)[0])


def _exactly(stream: IO[bytes], size: int) -> bytes | None:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def answer(question: str, folder: Path | None, body: bytes) -> Answer:
    """What the process says to one question; it never raises, whatever was posted."""
    from llm_locust.records import UsageError
    from llm_locust.web.workbench.answers import ANSWERS
    from llm_locust.web.workbench.typed import Refused

    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        found: Any = ANSWERS[question](None if folder is None else RunFolder(folder), document)
        return Answer(200, msgspec.json.encode(found))
    except Refused as error:
        return Answer(400, msgspec.json.encode(error.fields))
    except UsageError as error:
        return refusal(400, str(error))
    except RecursionError:
        return refusal(400, "it is nested too deeply")
    except (msgspec.MsgspecError, UnicodeError) as error:
        return refusal(400, f"post a JSON object: {error}")
    except Exception:
        logger.exception("the workbench could not compute %s", question)
        return refusal(500, "it could not be computed; Locust's log says more")


def main() -> None:
    """Answer until the other end closes, or nobody asks any longer."""
    logging.basicConfig()
    questions, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever prints is not to print into an answer
    while select.select([questions], [], [], IDLE_S)[0]:
        message = _read(questions)
        if message is None:
            return
        question, folder, body = msgspec.msgpack.decode(message, type=tuple[str, str | None, bytes])
        _write(answers, msgspec.msgpack.encode(answer(question, None if folder is None else Path(folder), body)))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
