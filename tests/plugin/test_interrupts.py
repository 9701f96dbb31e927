"""Ctrl-C before there is a run: a sentence and exit code 4, no traceback, nobody left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from llm_locust.child_processes import counted_interrupts, interrupt_for
from llm_locust.plugin.interrupts import BEFORE_LOAD, end_quietly_until_taken_over

EARLY = """
import os, signal, sys
from llm_locust.plugin.interrupts import end_quietly_until_taken_over
end_quietly_until_taken_over()
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os.kill(os.getpid(), signal.SIGINT)
"""


def test_before_anything_took_over_the_first_process_says_it_and_its_workers_are_silent() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (4, "0\n", f"{BEFORE_LOAD}\n")


def test_an_interrupt_that_somebody_else_takes_is_left_to_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        end_quietly_until_taken_over()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# --- what a command starts ------------------------------------------------------------------------------------------


def test_the_third_interrupt_kills() -> None:
    assert [interrupt_for(n) for n in (1, 2, 3)] == [signal.SIGINT, signal.SIGINT, signal.SIGKILL]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupts_are_counted_and_no_longer_so_afterwards(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with counted_interrupts() as seen:
        os.kill(os.getpid(), number)
        assert seen.event.wait(5)
        assert seen.times == 1
    assert signal.getsignal(number) == before


RUNS_A_GROUP = """
import sys
from llm_locust.child_processes import counted_interrupts, run_group
with counted_interrupts() as interrupted:
    sys.exit(run_group(sys.argv[1:], interrupted))
"""


def in_a_group(code: str) -> subprocess.Popen[str]:
    """A process that runs Python code as a group of its own; its output is open as long as one of the group lives."""
    words = [sys.executable, "-c", RUNS_A_GROUP, sys.executable, "-c", code]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_an_interrupt_is_handed_on_and_the_end_is_waited_for() -> None:
    process = in_a_group(
        "import signal, sys\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(4))\nprint('up', flush=True)\nsignal.pause()"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", None)
    assert process.returncode == 4


def test_what_a_command_leaves_behind_is_ended_with_it() -> None:
    process = in_a_group("import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('over', flush=True)")
    assert process.communicate(timeout=30) == ("over\n", None)
    assert process.returncode == 0
