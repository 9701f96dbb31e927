"""Waiting for an instant, precisely: an absolute timerfd watched by the hub.

A plain sleep is 0.7 ms late and spinning burns a third of a core; a timerfd is 50 microseconds late (P50) for a few
percent of one. Where there is none (it is Linux's), the plain sleep does, and dispatch lag says how late it is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from typing import Any, Protocol

import gevent
from gevent.event import Event
from gevent.hub import Waiter

from llm_locust.records import NS_PER_S

_READABLE = 1
_TFD_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_TFD_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_TFD_TIMER_ABSTIME = 1


class Pacer:
    """Waits until instants of the monotonic clock, for one greenlet. Make it in the process that uses it.

    Args:
        plain: sleep instead of using a timerfd; ``None`` for that only where the system has none.
    """

    def __init__(self, *, plain: bool | None = None) -> None:
        timer = None if plain else new_timer()
        if plain is False and timer is None:
            raise OSError(errno.ENOSYS, "this system has no timerfd")
        self._alarm = None if timer is None else _Alarm(timer)

    def wait_until(self, at_ns: int, interrupt: Event) -> None:
        """Return at ``at_ns`` (of :func:`time.monotonic_ns`) or as soon as ``interrupt`` is set; at once if that was before.

        It never returns early otherwise.
        """
        while (ahead_ns := at_ns - time.monotonic_ns()) > 0 and not interrupt.is_set():
            if self._alarm is None:
                interrupt.wait(ahead_ns / NS_PER_S)
            else:
                self._alarm.wait(at_ns, interrupt)

    def close(self) -> None:
        """Give the timer back; a closed pacer waits the plain way."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.close()


class Timer(Protocol):
    """A timerfd."""

    descriptor: int

    def set(self, at_ns: int) -> None:
        """Become readable at this instant of the monotonic clock, instead of any other; never, for 0."""


class _Alarm:
    """A timer and its watcher."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._watcher: Any = gevent.get_hub().loop.io(timer.descriptor, _READABLE)

    def wait(self, at_ns: int, interrupt: Event) -> None:
        waiter: Any = Waiter()

        def wake(*_: object) -> None:
            waiter.switch(None)

        self._timer.set(at_ns)
        self._watcher.start(wake)
        interrupt.rawlink(wake)
        try:
            waiter.get()
        finally:
            interrupt.unlink(wake)
            self._watcher.stop()
            self._timer.set(0)  # a timer set anew, or never, is not readable: there is nothing to be read from it

    def close(self) -> None:
        self._watcher.close()
        os.close(self._timer.descriptor)


def new_timer() -> Timer | None:
    """A timerfd: through ``os`` where it has them (Python 3.13), else through the C library; ``None`` without either."""
    if not sys.platform.startswith("linux"):
        return None
    if sys.version_info >= (3, 13) and hasattr(os, "timerfd_create"):
        return _OsTimer()
    try:
        return LibcTimer()
    except (OSError, AttributeError):  # a C library without it, or a kernel that refuses
        return None


if sys.version_info >= (3, 13):

    class _OsTimer:
        """Through :mod:`os`."""

        def __init__(self) -> None:
            self.descriptor = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

        def set(self, at_ns: int) -> None:
            os.timerfd_settime_ns(self.descriptor, flags=os.TFD_TIMER_ABSTIME, initial=at_ns, interval=0)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class LibcTimer:
    """Through the C library.

    Raises:
        AttributeError: the C library has no timerfd.
        OSError: the kernel gives none.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._set = self._libc.timerfd_settime
        self._specification = _Itimerspec()
        self.descriptor = int(self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC))
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def set(self, at_ns: int) -> None:
        """Become readable at this instant of the monotonic clock, instead of any other; never, for 0."""
        value = self._specification.value
        value.seconds, value.nanoseconds = divmod(at_ns, NS_PER_S)
        if self._set(self.descriptor, _TFD_TIMER_ABSTIME, ctypes.byref(self._specification), None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
