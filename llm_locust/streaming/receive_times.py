"""When bytes arrived: the kernel's receive time of a socket read, on the clock of the records.

A user-space stamp is late by however long the event loop was busy; the kernel's is not. It is there on Linux only
(``SO_TIMESTAMPNS``), for plain TCP reads, which is what TLS is decrypted from here too. A read that joins several segments
carries the stamp of the last one.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import NamedTuple

from llm_locust.records import NS_PER_S, Clock

SO_TIMESTAMPNS = 35
"""The option and control-message number of Linux on the usual architectures; ``socket`` has no name for it."""
_TIMESPEC = struct.Struct("@qq")
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_STEP_NS = 1_000_000
_READINGS = 3
"""A process that is put aside between reading one clock and the other sees a step that a second look does not."""


class ReceiveTime(NamedTuple):
    """One read's time, and how much later user space saw it (``None`` without a kernel stamp)."""

    t_ns: int
    lag_ns: int | None


def ask_for_kernel_times(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what this socket receives; ``False`` where it cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


class ReceiveTimes:
    """Puts kernel stamps, which are wall-clock times, on an anchored clock.

    At each wake the distance between the wall clock and the monotonic clock is read; a stamp minus that distance is
    monotonic, whatever the wall clock was stepped to. When the distance itself has moved by more than a millisecond since
    the last wake, the step may lie between stamp and wake, so that wake takes user time.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock_steps = 0
        """Wakes that saw the wall clock stepped."""
        self.anchor_ns = clock.anchor_ns
        """Add it to monotonic nanoseconds for user time."""
        self._clock = clock
        self._distance_ns: int | None = None

    def now(self) -> ReceiveTime:
        """User time, for what carries no stamp: a close."""
        return ReceiveTime(self._clock.now_ns(), None)

    def wake(self) -> int | None:
        """What to add to the kernel stamps seen from now until the next wake; ``None`` when this wake takes user time."""
        previous_ns = self._distance_ns
        for _ in range(_READINGS):
            self._distance_ns = distance_ns = time.time_ns() - time.monotonic_ns()
            if previous_ns is None or abs(distance_ns - previous_ns) <= _STEP_NS:
                return self.anchor_ns - distance_ns
        self.clock_steps += 1
        return None

    def of(self, ancillary: list[tuple[int, int, bytes]]) -> ReceiveTime:
        """The time of a read with this ancillary data, where every read is a wake of its own."""
        user_ns = self._clock.now_ns()
        stamp_ns = kernel_stamp(ancillary)
        if stamp_ns is None or (shift_ns := self.wake()) is None:
            return ReceiveTime(user_ns, None)
        # Read within the same microsecond; the stamp cannot be later than its reading.
        kernel_ns = min(stamp_ns + shift_ns, user_ns)
        return ReceiveTime(kernel_ns, user_ns - kernel_ns)


def kernel_stamp(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """The kernel's stamp in a read's ancillary data, in wall-clock nanoseconds."""
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(payload) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(payload)
            return int(seconds * NS_PER_S + nanoseconds)
    return None
