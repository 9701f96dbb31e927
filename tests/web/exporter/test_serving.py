"""The exporter's port: the page where Prometheus looks for it, on loopback, and a sentence when it cannot be opened."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import gevent
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.records import UsageError
from llm_locust.web.exporter.serving import ExporterServer
from tests.web.exporter.pictures import Picture


@pytest.fixture
def server() -> Iterator[ExporterServer]:
    found = ExporterServer(Picture(), "127.0.0.1", 0)
    yield found
    found.stop()


def fetch(url: str, accept: str = "text/plain") -> tuple[int, str, str]:
    """Status, content type and body; in a thread, since the server answers in this one's event loop."""

    def get() -> tuple[int, str, str]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(url, headers={"Accept": accept}), timeout=5) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    found: tuple[int, str, str] = gevent.get_hub().threadpool.apply(get)
    return found


def test_the_page_is_at_metrics(server: ExporterServer) -> None:
    status, content_type, body = fetch(server.url)
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "llm_locust_run_state" in {family.name for family in text_string_to_metric_families(body)}


def test_prometheus_is_answered_in_openmetrics(server: ExporterServer) -> None:
    _, content_type, body = fetch(server.url, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_another_path_says_where_the_page_is(server: ExporterServer) -> None:
    status, _, body = fetch(server.url.removesuffix("metrics"))
    assert (status, body) == (404, "metrics are at /metrics\n")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"--prometheus-port {port}: another program uses it"):
            ExporterServer(Picture(), "127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_that_is_not_of_this_machine_is_named(host: str) -> None:
    with pytest.raises(
        UsageError, match=f"--prometheus-host {host}: cannot listen there .*127.0.0.1 is this machine alone"
    ):
        ExporterServer(Picture(), host, 0)


def test_the_port_is_free_again_after_the_end() -> None:
    first = ExporterServer(Picture(), "127.0.0.1", 0)
    port = int(first.url.rpartition(":")[2].partition("/")[0])
    first.stop()
    ExporterServer(Picture(), "127.0.0.1", port).stop()
