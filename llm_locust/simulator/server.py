"""The process: listen, say so, serve until told to stop, and leave nothing unsaid."""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
from typing import Any

import gevent
from gevent.event import Event
from gevent.server import StreamServer

from llm_locust.records import Clock, UsageError
from llm_locust.simulator.app import App
from llm_locust.simulator.connection import ClientGone, Connection
from llm_locust.simulator.options import READY_PREFIX, Options
from llm_locust.simulator.truth_log import TruthLog

_BACKLOG = 4096
_STOP_SECONDS = 2.0


def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT, then end the streams in flight and return.

    Prints ``listening on http://HOST:PORT`` when it is ready, and nothing else.

    Raises:
        UsageError: the address is taken or cannot be listened on, or the log cannot be written.
    """
    _raise_descriptor_limit()
    stop = Event()
    with TruthLog(options.log) as log:
        app = App(options, log, Clock().anchor_ns)
        server = _listen(options, app)
        watchers = [gevent.signal_handler(number, stop.set) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            host = f"[{options.host}]" if ":" in options.host else options.host
            sys.stdout.write(f"{READY_PREFIX}http://{host}:{server.server_port}\n")
            sys.stdout.flush()
            stop.wait()
        finally:
            server.close()
            app.stop(_STOP_SECONDS)
            server.stop(timeout=_STOP_SECONDS)
            for watcher in watchers:
                watcher.cancel()


def _listen(options: Options, app: App) -> StreamServer:
    def converse(sock: Any, address: Any) -> None:
        with contextlib.suppress(ClientGone, OSError), Connection(sock, options.bandwidth_kbps) as connection:
            for request in connection.requests():
                app.answer(request, connection)

    server = StreamServer((options.host, options.port), converse, backlog=_BACKLOG)
    try:
        server.start()
    except OSError as error:
        raise UsageError(
            f"cannot listen on {options.host} port {options.port}: {error.strerror or error}; "
            "choose another with --port (0 takes a free one) or --host"
        ) from None
    return server


def _raise_descriptor_limit() -> None:
    """As many connections as the system lets this process have, instead of the 1024 of most shells."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses an infinite soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
