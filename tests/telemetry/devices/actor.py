"""A real process that does as it is told: holds memory, uses the processor, has children, ends.

Commands come as lines on standard input, each is answered by a line on standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType

SCRIPT = """
import os, subprocess, sys, time
held, children = [], []
for line in sys.stdin:
    command, _, value = line.strip().partition(" ")
    answer = "ok"
    if command == "hold":
        held.append(b"x" * int(value))
    elif command == "drop":
        held.clear()
    elif command == "burn":
        while time.process_time() < float(value):
            pass
    elif command == "spawn":
        child = subprocess.Popen([sys.executable, "-c", os.environ["ACTOR"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        children.append(child)
        answer = str(child.pid)
    elif command == "spawn_idle":
        answer = str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL).pid)
    elif command == "tell":
        number, _, words = value.partition(" ")
        print(words, file=children[int(number)].stdin, flush=True)
        answer = children[int(number)].stdout.readline().strip()
    elif command == "end_child":
        children[int(value)].stdin.close()
        children[int(value)].wait()
        answer = "%.2f" % sum(os.times()[2:4])
    elif command == "end_child_unwaited":
        children[int(value)].stdin.close()
        os.waitid(os.P_PID, children[int(value)].pid, os.WEXITED | os.WNOWAIT)
    elif command == "used":
        answer = repr(time.process_time())
    elif command == "leave":
        print("ok", flush=True)
        os._exit(0)
    print(answer, flush=True)
"""


class Actor:
    """The process, while it is entered."""

    def __enter__(self) -> Actor:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"ACTOR": SCRIPT},
        )
        self.pid = self._process.pid
        self.tell("used")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def tell(self, command: str) -> str:
        """Let it do something, and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(command, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the process ended at {command!r}"
        return answer.strip()

    def end(self) -> None:
        """Let it and its children end, and wait for it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        self._process.wait(timeout=20)

    def end_unwaited(self) -> None:
        """It has ended, and nobody has taken notice yet."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
