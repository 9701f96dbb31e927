"""The exporter's own small HTTP server, in the master's event loop: a scrape is a greenlet, not a thread."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gevent.pywsgi import WSGIServer
from prometheus_client import CollectorRegistry, make_wsgi_app

from llm_locust.records import UsageError
from llm_locust.web.exporter.collector import LivePicture, RunCollector

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

PATH = "/metrics"


class ExporterServer:
    """Serves the picture until it is stopped.

    Args:
        live: What is served.
        host: Address to listen on.
        port: Port; 0 takes a free one.

    Raises:
        UsageError: the port is taken, or the address is not one of this machine.
    """

    def __init__(self, live: LivePicture, host: str, port: int) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(RunCollector(live))
        self._page = make_wsgi_app(registry)
        self._server = WSGIServer((host, port), self._answer, log=None, error_log=logger)
        try:
            self._server.start()
        except OSError as error:  # a name that cannot be resolved is one too
            taken = error.errno == errno.EADDRINUSE
            raise UsageError(
                f"--prometheus-port {port}: another program uses it on {host}; choose another port"
                if taken
                else f"--prometheus-host {host}: cannot listen there on port {port} ({error.strerror or error}); "
                "127.0.0.1 is this machine alone, 0.0.0.0 every address of it"
            ) from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}{PATH}"

    def stop(self) -> None:
        """Close the port."""
        self._server.stop(timeout=1)

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == PATH:
            found: Iterable[bytes] = self._page(environ, start_response)
            return found
        headers: list[Any] = [("Content-Type", "text/plain; charset=utf-8")]
        start_response("404 Not Found", headers)
        return [f"metrics are at {PATH}\n".encode()]
