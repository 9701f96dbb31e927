"""A tree of processes, on real processes."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from llm_locust.records import NS_PER_S, UsageError
from llm_locust.telemetry.devices.processes import CpuTimes, ProcessTree, cpu_seconds
from tests.telemetry.devices.actor import Actor

MB = 1_000_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own figures are Linux's")


def test_processor_time_of_a_living_process_is_what_it_used_since() -> None:
    assert cpu_seconds({1: CpuTimes(5.0, 2.0)}, {1: CpuTimes(6.5, 2.0)}) == 1.5


def test_a_child_that_is_new_counts_in_full() -> None:
    assert cpu_seconds({1: CpuTimes(5.0, 0.0)}, {1: CpuTimes(5.0, 0.0), 2: CpuTimes(0.75, 0.25, parent=1)}) == 1.0


def test_a_child_that_ended_counts_once_through_the_parent_that_waited_for_it() -> None:
    before = {1: CpuTimes(5.0, 1.0), 2: CpuTimes(3.0, 0.5, parent=1)}
    # The child used 0.25 s more, then ended: its 3.75 s are now among those that its parent waited for.
    assert cpu_seconds(before, {1: CpuTimes(5.5, 4.75)}) == 0.75


def test_a_child_that_came_and_went_between_two_readings_counts() -> None:
    assert cpu_seconds({1: CpuTimes(5.0, 1.0)}, {1: CpuTimes(5.0, 3.0)}) == 2.0


def test_a_branch_that_ended_counts_through_the_nearest_ancestor_that_lives() -> None:
    before = {1: CpuTimes(1.0, 0.0), 2: CpuTimes(2.0, 0.0, parent=1), 3: CpuTimes(4.0, 0.0, parent=2)}
    assert cpu_seconds(before, {1: CpuTimes(1.0, 6.5)}) == 0.5


def test_a_child_that_nobody_waited_for_takes_nothing_off_the_others() -> None:
    before = {1: CpuTimes(1.0, 0.0), 2: CpuTimes(9.0, 0.0, parent=1), 3: CpuTimes(9.0, 0.0, parent=70)}
    assert cpu_seconds(before, {1: CpuTimes(1.25, 0.0)}) == 0.25


def test_memory_processes_and_threads_of_the_whole_tree() -> None:
    with Actor() as parent:
        tree = ProcessTree(parent.pid)
        alone = tree.sample(1)
        assert alone is not None
        assert (alone.kind, alone.pid, alone.processes, alone.threads) == ("process", parent.pid, 1, 1)
        assert (alone.memory_kind, alone.pss_bytes, alone.cpu_pct) == ("ram", None, None)
        parent.tell(f"hold {60 * MB}")
        children = {int(parent.tell("spawn")), int(parent.tell("spawn"))}
        parent.tell(f"tell 0 hold {50 * MB}")
        parent.tell(f"tell 1 hold {40 * MB}")
        full = tree.sample(2)
        assert full is not None
        assert (full.processes, full.threads) == (3, 3)
        assert full.rss_bytes is not None
        assert alone.rss_bytes is not None
        assert full.rss_bytes - alone.rss_bytes >= 150 * MB
        assert tree.pids == {parent.pid, *children}


def test_a_child_that_ended_is_gone_from_the_next_sample() -> None:
    with Actor() as parent:
        tree = ProcessTree(parent.pid)
        parent.tell("spawn")
        parent.tell(f"tell 0 hold {50 * MB}")
        before = tree.sample(1)
        parent.tell("end_child 0")
        after = tree.sample(2)
        assert before is not None
        assert after is not None
        assert (before.processes, after.processes) == (2, 1)
        assert before.rss_bytes is not None
        assert after.rss_bytes is not None
        assert before.rss_bytes - after.rss_bytes >= 50 * MB


def test_a_child_that_ended_and_was_not_waited_for_holds_nothing() -> None:
    with Actor() as parent:
        tree = ProcessTree(parent.pid)
        parent.tell("spawn")
        parent.tell("end_child_unwaited 0")
        sample = tree.sample(1)
        assert sample is not None
        assert (sample.processes, sample.threads) == (1, 1)


def test_processor_time_holds_that_of_a_child_that_ended_in_between() -> None:
    with Actor() as parent:
        tree = ProcessTree(parent.pid)
        parent.tell("spawn")
        parent.tell("tell 0 burn 0.2")
        tree.sample(NS_PER_S)
        parent.tell("tell 0 burn 0.6")
        used = float(parent.tell("used"))
        waited = float(parent.tell("end_child 0"))
        assert waited >= 0.55  # to the tick
        sample = tree.sample(2 * NS_PER_S)
        assert sample is not None
        assert sample.cpu_pct is not None
        # What the child used by the first sample is not counted twice: 0.4 s and what ending it cost are left.
        assert 36 <= sample.cpu_pct <= 100 * (waited - 0.2 + used) + 5


@linux
def test_the_kernels_peak_remembers_what_was_given_back_before_sampling_began() -> None:
    with Actor() as parent:
        parent.tell(f"hold {120 * MB}")
        parent.tell("drop")
        sample = ProcessTree(parent.pid).sample(1)
        assert sample is not None
        assert sample.rss_bytes is not None
        assert sample.rss_peak_bytes is not None
        assert sample.rss_peak_bytes >= 120 * MB
        assert sample.rss_bytes < 120 * MB


@linux
def test_proportional_memory_is_read_when_asked_for_and_is_no_more_than_resident() -> None:
    with Actor() as parent:
        parent.tell("spawn")
        parent.tell("tell 0 used")
        sample = ProcessTree(parent.pid, pss=True).sample(1)
        assert sample is not None
        assert sample.pss_bytes is not None
        assert sample.rss_bytes is not None
        assert 0 < sample.pss_bytes < sample.rss_bytes  # the two share the interpreter


def test_a_process_whose_parent_left_stays_in_the_tree() -> None:
    with Actor() as parent:
        tree = ProcessTree(parent.pid)
        parent.tell("spawn")
        orphan = int(parent.tell("tell 0 spawn_idle"))
        try:
            tree.sample(1)
            parent.tell("tell 0 leave")
            parent.tell("end_child 0")
            sample = tree.sample(2)
            assert sample is not None
            assert tree.pids == {parent.pid, orphan}
            assert sample.processes == 2
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_the_sampler_itself_is_left_out_of_the_tree() -> None:
    with Actor() as child:
        tree = ProcessTree(os.getpid())
        assert tree.sample(1) is not None
        assert child.pid in tree.pids
        assert os.getpid() not in tree.pids


def test_the_end_of_the_root_is_seen_before_and_after_anybody_takes_notice() -> None:
    with Actor() as parent:
        tree = ProcessTree(parent.pid)
        assert not tree.ended
        parent.end_unwaited()
        assert tree.ended
        parent.end()
        assert tree.ended
        assert tree.sample(1) is None


def test_a_process_that_never_was_or_has_ended_is_a_usage_error() -> None:
    for pid in (2**22 + 1, 2**40):
        with pytest.raises(UsageError, match=f"--pid {pid}: there is no such process on this machine"):
            ProcessTree(pid)
    with Actor() as parent:
        parent.end_unwaited()
        with pytest.raises(UsageError, match=f"--pid {parent.pid}: that process has ended"):
            ProcessTree(parent.pid)
