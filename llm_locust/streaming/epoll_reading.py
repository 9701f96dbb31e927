"""One epoll for all streams, itself watched by the hub: no greenlet switch for a read, only one for a reply.

Strategy: the hub calls :meth:`EpollReading._on_ready` when any stream has bytes; it reads a batch, stamps each read and
keeps it. The greenlet that waits for a reply runs again when the reply needs nothing more. Traps, each met here:

* gevent stops a watcher whose callback raises, and one reset would deafen the worker: every stream is caught alone, and a
  timer looks whether the watcher lives.
* A stream is taken out of the epoll before its socket is closed, or the closed end would wake the hub for ever.
* A descriptor may be closed and given out again while a batch still names it. No greenlet runs during a batch (waiting
  ones are woken after it), so a stream in the table owns its descriptor; should it not be ready, the read says so.
* A batch is bounded and there is one for each turn of the hub, so that dispatch has its turn between two batches.
* Waking costs more than reading. The kernel has stamped what came, so with thousands of reads a second the epoll is not
  watched but looked into every millisecond: a quarter of the work saved is a quarter more that the worker can take.
* A closed loop's replies may end all at once, and each has half a millisecond of work behind it: their greenlets are woken
  a few a turn, or what comes meanwhile would be read late.
* The epoll is made at the first read, in the process that reads: workers fork after locustfiles were imported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
from collections.abc import Callable
from struct import Struct
from time import monotonic_ns
from typing import Any

import gevent
from gevent import monkey
from gevent.hub import Waiter

from llm_locust.records import NS_PER_S, Outcome
from llm_locust.streaming.connection import Connection, NoConnection
from llm_locust.streaming.own_limits import out_of_resources
from llm_locust.streaming.receive_times import ANCILLARY_BYTES, SO_TIMESTAMPNS, ReceiveTimes
from llm_locust.streaming.reception import Reception
from llm_locust.streaming.turns import Turnstile

logger = logging.getLogger(__name__)

READ_BYTES = 16384
"""Enough for many events; what does not fit is read in the next batch."""
BATCH = 64
"""Streams read in one turn of the hub: some 0.8 ms, for so long nothing else is done."""
GATHER_S = 0.001
"""How long to let reads gather when there are many; libev's timers make it a millisecond."""
GATHER_FROM = 5000
"""Reads a second from which they are let gather."""
GATHER_BELOW = 200
"""Reads a second and stream above which they are not: two of one stream would meet, and share the stamp of the later."""
LOOK_S = 0.1
"""How often quiet streams and the watcher are looked after."""
LOOK_READS = 128
"""Reads settled in one look: about a millisecond; what is left is there for the next."""
_READABLE = 1
"""``EPOLLIN``, and what libev calls ``EV_READ``."""

_timespec = Struct("@qq").unpack


class _Stream:
    """A reply that is being read."""

    __slots__ = ("decrypt", "descriptor", "error", "kept", "receive_now", "reception", "waiter")

    def __init__(self, connection: Connection, reception: Reception) -> None:
        self.descriptor = connection.fileno()
        self.receive_now = connection.receive_now
        self.decrypt = connection.decrypt if connection.encrypted else None
        self.reception = reception
        self.kept = 0
        """Reads that were waiting to be settled when it was last looked after."""
        self.waiter: Any = Waiter()
        self.error: BaseException | None = None
        """What the greenlet that waits is to raise."""


class EpollReading:
    """Reads all replies of one process from the hub."""

    def __init__(self, times: ReceiveTimes) -> None:
        self._times = times
        self._streams: dict[int, _Stream] = {}
        self._epoll: Any = None
        self._watcher: Any = None
        self._look: Any = None
        self._pause: Any = None
        self._ended = Turnstile()
        self._gathering = False
        self._reads = 0
        """Since the last look."""
        self._hub: Any = None
        self._process = 0
        self._closed = False

    def read(self, connection: Connection, reception: Reception) -> None:
        """Read until the reply needs nothing more; switches away once."""
        stream = _Stream(connection, reception)
        self._add(stream)
        try:
            stream.waiter.get()
        finally:
            self._remove(stream)
        if stream.error is not None:
            raise stream.error

    def close(self) -> None:
        """Close the epoll, as soon as nothing is read any longer."""
        self._closed = True
        if not self._streams:
            self._close_epoll()

    # In the hub's own greenlet: nothing here may wait, and nothing may raise.

    def _on_ready(self) -> None:
        try:
            count = self._read_batch()
            if self._streams:
                self._watch(gather=self._gathering and count < BATCH)
        except Exception as error:  # not of one stream: every request says so, and the next one begins anew
            for stream in list(self._streams.values()):
                self._fail(stream, error)
            self._close_epoll()

    def _read_batch(self) -> int:
        """Read what is ready, at most :data:`BATCH`, and say how many that were.

        The hot path, a few microseconds for each read: hence inline what reads better elsewhere.
        """
        shift_ns = self._times.wake()
        anchor_ns = self._times.anchor_ns
        streams = self._streams
        ready = self._epoll.poll(0, BATCH)
        self._reads += len(ready)
        for descriptor, _ in ready:
            stream = streams.get(descriptor)
            if stream is None:
                continue
            try:
                data, ancillary, _, _ = stream.receive_now(READ_BYTES, ANCILLARY_BYTES)
                user_ns = monotonic_ns() + anchor_ns
                ended = not data
                if stream.decrypt is not None:
                    data, ended = stream.decrypt(data)
                if data:
                    reception = stream.reception
                    if shift_ns is not None and ancillary and ancillary[0][1] == SO_TIMESTAMPNS:
                        seconds, nanoseconds = _timespec(ancillary[0][2])
                        t_ns = seconds * NS_PER_S + nanoseconds + shift_ns
                        if t_ns > user_ns:
                            t_ns = user_ns
                        if user_ns - t_ns > reception.read_lag_ns:
                            reception.read_lag_ns = user_ns - t_ns
                    else:
                        t_ns = user_ns
                        reception.user_reads += 1
                    reception.reads.append(data)
                    reception.times.append(t_ns)
                    if not (reception.due(data) and reception.settle()) and not ended:
                        continue
                elif not ended:
                    continue
                self._end(stream, user_ns)
            except BlockingIOError:
                continue
            except Exception as error:
                self._fail(stream, error)
        return len(ready)

    def _on_look(self) -> None:
        """Settle what streams that have gone quiet left unsettled, and see that the watcher lives."""
        settled = 0
        for stream in list(self._streams.values()):
            reads = stream.reception.reads
            if reads and len(reads) == stream.kept:
                if settled > LOOK_READS:  # after a stall all streams look quiet, and this would be the next stall
                    break
                settled += len(reads)
                try:
                    if stream.reception.settle():
                        self._wake(stream)
                except Exception as error:
                    self._fail(stream, error)
            stream.kept = len(reads)
        rate, self._reads = self._reads / LOOK_S, 0
        self._gathering = rate > GATHER_FROM and rate < GATHER_BELOW * len(self._streams)
        if self._streams and not self._watcher.active and not self._pause.active:
            logger.error("the hub had stopped watching the streams; watching them again")
            self._watcher.start(self._on_ready)

    def _end(self, stream: _Stream, t_ns: int) -> None:
        """The reply needs nothing more, or the peer has closed at ``t_ns``."""
        stream.reception.settle()
        stream.reception.decoder.close(t_ns)
        self._wake(stream)

    def _fail(self, stream: _Stream, error: Exception) -> None:
        stream.error = error
        self._wake(stream)

    def _wake(self, stream: _Stream) -> None:
        self._remove(stream)
        self._ended.call(stream.waiter.switch)

    # The table, the epoll and the watcher.

    def _watch(self, *, gather: bool) -> None:
        """Be called when the next read is there, or after a pause in which reads gather."""
        if gather == self._pause.active:
            return
        if gather:
            self._watcher.stop()
            self._pause.again(self._on_ready, update=True)  # start() would go on with what was left of the last pause
        else:
            self._pause.stop()
            self._watcher.start(self._on_ready)

    def _add(self, stream: _Stream) -> None:
        try:
            if self._process != os.getpid():
                self._open()
            self._epoll.register(stream.descriptor, _READABLE)
        except OSError as error:  # not of the connection
            text = out_of_resources(error) or f"the reply cannot be waited for: {error.strerror or error}"
            raise NoConnection(Outcome.GENERATOR_ERROR, text) from None
        self._streams[stream.descriptor] = stream
        if len(self._streams) == 1:
            self._watcher.start(self._on_ready)
            self._look.start(self._on_look, update=True)

    def _remove(self, stream: _Stream) -> None:
        """Forget the stream, if it is still known."""
        if self._streams.get(stream.descriptor) is not stream:
            return
        del self._streams[stream.descriptor]
        with contextlib.suppress(OSError, ValueError):
            self._epoll.unregister(stream.descriptor)
        if not self._streams:
            # A watcher that waits for nothing would keep the hub from seeing that nothing is left to wait for.
            self._watcher.stop()
            self._pause.stop()
            self._look.stop()
            if self._closed:
                self._close_epoll()

    def _open(self) -> None:
        self._streams.clear()
        self._epoll = _new_epoll()
        self._process = os.getpid()
        self._hub = gevent.get_hub()
        self._watcher = self._hub.loop.io(self._epoll.fileno(), _READABLE)
        self._look = self._hub.loop.timer(LOOK_S, LOOK_S)
        self._pause = self._hub.loop.timer(GATHER_S, GATHER_S)
        self._gathering = False

    def _close_epoll(self) -> None:
        if self._epoll is not None and self._process == os.getpid():
            self._watcher.close()
            self._look.close()
            self._pause.close()
            self._epoll.close()
        self._epoll = None
        self._process = 0


def _new_epoll() -> Any:
    # gevent takes epoll out of the select module when it patches it.
    make: Callable[[], Any] = select.epoll if hasattr(select, "epoll") else monkey.get_original("select", "epoll")
    return make()
