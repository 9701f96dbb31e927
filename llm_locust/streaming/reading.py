"""How a greenlet reads its reply: the plain way, waiting on its own socket for each read.

It works everywhere. Where there is an epoll, :mod:`~llm_locust.streaming.epoll_reading` does the same without a greenlet
switch for each read.
"""

from __future__ import annotations

import select
import socket
import sys
from typing import Protocol

import gevent
from gevent import monkey

from llm_locust.streaming.connection import READ_BYTES, Connection
from llm_locust.streaming.reception import Reception

_READS_PER_TURN = 16
"""A socket that always has bytes ready never waits, so it hands the loop back by itself after this many reads."""


class Reading(Protocol):
    """Reads replies, any number at once."""

    def read(self, connection: Connection, reception: Reception) -> None:
        """Return when the reply needs nothing more, or the peer has closed.

        Whatever ends it earlier (a timeout, a kill) is raised in the calling greenlet, and nothing reads from the
        connection any longer.

        Raises:
            OSError: the connection broke.
            OutOfTime: the deadline passed although there was always something to read.
        """

    def close(self) -> None:
        """Nothing more will be read, but for what is under way."""


class PlainReading:
    """A greenlet switch for each read."""

    def read(self, connection: Connection, reception: Reception) -> None:
        """Read until the reply needs nothing more."""
        reads = 0
        done = False
        while not done:
            data, time = connection.receive()
            if not data:
                reception.decoder.close(time.t_ns)
                return
            if time.lag_ns is None:
                reception.user_reads += 1
            elif time.lag_ns > reception.read_lag_ns:
                reception.read_lag_ns = time.lag_ns
            reception.reads.append(data)
            reception.times.append(time.t_ns)
            done = reception.settle()
            reads += 1
            if not done and (reads % _READS_PER_TURN == 0 or len(data) == READ_BYTES):
                gevent.sleep(0)

    def close(self) -> None:
        """Nothing to do: every reader waits on its own socket."""


def has_epoll() -> bool:
    """Whether this system has what reading through one epoll needs."""
    return (
        sys.platform.startswith("linux")
        and hasattr(socket.socket, "recvmsg")
        and (hasattr(select, "epoll") or monkey.is_object_patched("select", "epoll"))
    )
