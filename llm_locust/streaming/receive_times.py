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

from llm_locust.records import Clock

SO_TIMESTAMPNS = 35
"""The option and control-message number of Linux on the usual architectures; ``socket`` has no name for it."""
_TIMESPEC = struct.Struct("@qq")
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_STEP_NS = 1_000_000


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
        self._clock = clock
        self._distance_ns: int | None = None

    def now(self) -> ReceiveTime:
        """User time, for what carries no stamp: a close."""
        return ReceiveTime(self._clock.now_ns(), None)

    def of(self, ancillary: list[tuple[int, int, bytes]]) -> ReceiveTime:
        """The time of a read with this ancillary data."""
        user_ns = self._clock.now_ns()
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(payload) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(payload)
                distance_ns = time.time_ns() - time.monotonic_ns()
                previous_ns, self._distance_ns = self._distance_ns, distance_ns
                if previous_ns is not None and abs(distance_ns - previous_ns) > _STEP_NS:
                    self.clock_steps += 1
                    break
                kernel_ns = seconds * 1_000_000_000 + nanoseconds - distance_ns + self._clock.anchor_ns
                if kernel_ns > user_ns:  # read within the same microsecond; the stamp cannot be later than its reading
                    return ReceiveTime(user_ns, 0)
                return ReceiveTime(kernel_ns, user_ns - kernel_ns)
        return ReceiveTime(user_ns, None)
