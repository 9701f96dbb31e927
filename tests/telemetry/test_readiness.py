"""Waiting for a server. Time is a number that only sleeping moves, except with the synthetic engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gevent.server import StreamServer

from llm_locust.records import UsageError
from llm_locust.simulator.process import running
from llm_locust.telemetry.readiness import await_ready
from llm_locust.telemetry.target import TargetFacts

from .server import Pages, free_port, http, models, never, server_context, serving

OK = http(200)
LOADING = http(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})


class Waiting:
    """A clock that only sleeping moves, what happens while it sleeps, and the lines that were reported."""

    def __init__(self, on_sleep: Callable[[float], object] = lambda now: None) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self._on_sleep = on_sleep

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._on_sleep(self.now)

    def ready(self, base_url: str, *, timeout_s: float = 60, **options: Any) -> TargetFacts:
        clock: dict[str, Any] = {"sleep": self.sleep, "now": lambda: self.now, "report": self.lines.append}
        return await_ready(base_url, options.pop("headers", {}), timeout_s=timeout_s, **clock, **options)


def refused(wait: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        wait()
    return str(caught.value)


# Waiting


def test_a_server_that_is_up_is_not_waited_for() -> None:
    waiting = Waiting()
    with serving({"/health": OK, "/v1/models": models("m", owner="vllm")}) as server:
        assert waiting.ready(server.url, model="m").models == ["m"]
    assert (waiting.now, waiting.lines) == (0.0, [])
    assert server.asked == ["/health", "/v1/models", "/version"]


def test_a_server_that_boots_is_waited_for_until_it_listens() -> None:
    port = free_port()
    servers: list[Pages] = []

    def boot(now: float) -> None:
        if now >= 20 and not servers:
            servers.append(Pages({"/health": OK, "/v1/models": models("m")}, port=port))

    waiting = Waiting(boot)
    try:
        assert waiting.ready(f"http://127.0.0.1:{port}").models == ["m"]
    finally:
        servers[0].stop()
    assert 20 <= waiting.now < 23
    first = f"waiting for http://127.0.0.1:{port}: no connection: 127.0.0.1:{port}: Connection refused (60 s left)"
    assert waiting.lines[0] == first
    assert len(waiting.lines) == 4  # at 0 s, and not before 5, 10 and 15 s


def test_a_new_reason_is_reported_before_the_five_seconds_are_over() -> None:
    answers = iter([LOADING, LOADING, LOADING, http(503, "warming up"), OK])
    waiting = Waiting()
    with serving({"/health": lambda: next(answers), "/v1/models": models("m")}) as server:
        waiting.ready(server.url)
    assert [line.removeprefix(f"waiting for {server.url}: ") for line in waiting.lines] == [
        "HTTP 503: Loading model (60 s left)",
        "HTTP 503: warming up (58 s left)",
    ]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_model_list_that_is_not_there_yet_is_waited_for(status: int) -> None:
    answers = iter([http(status), models("m")])
    waiting = Waiting()
    with serving({"/health": OK, "/v1/models": lambda: next(answers)}) as server:
        assert waiting.ready(server.url).models == ["m"]
    assert waiting.now == 0.25


@pytest.mark.parametrize(
    "pages",
    [
        {"/v1/models": models("llama3.2:latest", owner="library"), "/api/version": http(200, {"version": "0.12.6"})},
        {"/health": OK},
        {"/health": OK, "/v1/models": models()},
        {"/health": http(401), "/v1/models": http(401)},
        {"/health": OK, "/v1/models": http(200, "<html>hello</html>")},
        {},
    ],
    ids=["no health page", "no models page", "no models", "closed", "web page", "nothing but 404"],
)
def test_what_a_server_does_not_offer_is_no_obstacle(pages: dict[str, bytes]) -> None:
    waiting = Waiting()
    with serving(pages) as server:
        waiting.ready(server.url, model="llama3.2")
    assert waiting.now == 0.0


def test_a_gateway_is_waited_for_until_it_lists_the_model() -> None:
    lists = iter([models("small"), models("small"), models("small", "large")])
    waiting = Waiting()
    with serving({"/health": OK, "/v1/models": lambda: next(lists)}) as server:
        assert waiting.ready(server.url, model="large").models == ["small", "large"]
    assert waiting.lines == [f"waiting for {server.url}: it does not list the model 'large', but 'small' (60 s left)"]


def test_a_model_that_stays_unlisted_is_left_to_the_first_request() -> None:
    waiting = Waiting()
    with serving({"/health": OK, "/v1/models": models("small")}) as server:
        assert waiting.ready(server.url, model="alias", timeout_s=10).models == ["small"]
    assert waiting.now == 10


@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp"])
def test_an_engine_whose_list_is_final_is_not_waited_for(owner: str) -> None:
    waiting = Waiting()
    with serving({"/health": OK, "/v1/models": models("small", owner=owner)}) as server:
        waiting.ready(server.url, model="smal")
    assert waiting.now == 0.0


def test_the_time_is_up_and_the_last_thing_seen_is_told() -> None:
    waiting = Waiting()
    with serving({"/health": LOADING}) as server:
        text = refused(lambda: waiting.ready(server.url, timeout_s=30))
    assert text == (
        f"{server.url} was not ready within 30 s: HTTP 503: Loading model. "
        "Wait longer with --ready-timeout, or look into the log of the server."
    )
    assert waiting.now == 30


def test_nobody_listens_until_the_end() -> None:
    port = free_port()
    text = refused(lambda: Waiting().ready(f"http://127.0.0.1:{port}/v1", timeout_s=5))
    assert text == (
        f"http://127.0.0.1:{port}/v1 was not ready within 5 s: nothing listens at 127.0.0.1:{port} "
        f"(http://127.0.0.1:{port}/health: no connection: 127.0.0.1:{port}: Connection refused). Check that the server is "
        f"running and listens on port {port}; for one that boots, raise --ready-timeout. Inside a container, 127.0.0.1 is "
        "the container itself."
    )


def test_without_patience_there_is_one_look() -> None:
    waiting = Waiting()
    with serving({"/health": LOADING}) as server:
        text = refused(lambda: waiting.ready(server.url, timeout_s=0))
    assert "was not ready within 0 s" in text
    assert server.asked == ["/health"]
    assert waiting.now == 0.0


def test_a_page_that_never_comes_ends_with_the_time() -> None:
    with serving({"/health": never}) as server:
        text = refused(lambda: Waiting().ready(server.url, timeout_s=0))
    assert "no answer within 1 s. Wait longer" in text


def test_a_port_that_is_open_before_the_server_is_up_is_waited_for() -> None:
    answers = iter([b"", b"", OK])
    with serving({"/health": lambda: next(answers), "/v1/models": models("m")}) as server:
        waiting = Waiting()
        waiting.ready(server.url)
    assert waiting.lines[0].startswith(f"waiting for {server.url}: the connection was closed without an answer")


def test_an_unknown_name_is_given_a_moment_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> object:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("gevent.socket.getaddrinfo", unknown)
    waiting = Waiting()
    text = refused(lambda: waiting.ready("http://gpu-bxo:8000"))
    assert text == (
        "the host name gpu-bxo has no address here (http://gpu-bxo:8000/health: cannot resolve gpu-bxo: Name or service "
        "not known). Check its spelling in --host, and that this machine knows it (getent hosts gpu-bxo)."
    )
    assert 5 <= waiting.now < 8


def test_a_port_that_does_not_speak_http_is_not_waited_for() -> None:
    waiting = Waiting()
    with serving({"/health": b"SSH-2.0-OpenSSH_9.6\r\n"}) as server:
        text = refused(lambda: waiting.ready(server.url))
    assert text.startswith("what listens on this port does not speak HTTP/1.1")
    assert waiting.now == 0.0


def test_the_key_goes_along_and_never_into_a_line() -> None:
    answers = iter([http(503, "no place for Bearer abcd-1234"), OK])
    waiting = Waiting()
    with serving({"/health": lambda: next(answers), "/v1/models": models("m")}) as server:
        waiting.ready(server.url, headers={"Authorization": "Bearer abcd-1234"})
    assert "abcd-1234" not in waiting.lines[0]
    assert all("Authorization: Bearer abcd-1234" in head for head in server.heads)


def test_a_synthetic_engine_that_loads_is_waited_for() -> None:
    lines: list[str] = []
    with running(loading_seconds=1.0, model="m") as (base_url, _):
        facts = await_ready(base_url, {}, timeout_s=20, model="m", report=lines.append)
    assert (facts.models, facts.synthetic) == (["m"], True)
    assert lines[0] == f"waiting for {base_url}: HTTP 503: Loading model (20 s left)"


def test_no_generation_is_ever_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "truth.csv"
    with running(loading_seconds=0.3, log=log) as (base_url, _):
        await_ready(base_url, {}, timeout_s=20)
    assert len(log.read_text().splitlines()) == 1  # the header


# TLS


def test_a_self_signed_certificate_is_told_at_once_and_can_be_trusted(certificate: Path) -> None:
    waiting = Waiting()
    with serving({"/health": OK, "/v1/models": models("m")}, tls=server_context(certificate)) as server:
        url = f"https://127.0.0.1:{server.port}"
        text = refused(lambda: waiting.ready(url))
        assert waiting.ready(url, ca_file=str(certificate)).models == ["m"]
        assert waiting.ready(url, insecure=True).models == ["m"]
    assert text.startswith(f"the server's certificate is not trusted here ({url}/health: TLS handshake failed")
    assert text.endswith("with --ca-file FILE, or give --insecure to skip the check.")
    assert waiting.now == 0.0


def test_https_to_a_plain_port_is_told_at_once() -> None:
    waiting = Waiting()

    def answer(sock: Any, _address: object) -> None:
        sock.recv(10)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    plain = StreamServer(("127.0.0.1", 0), answer)
    plain.start()
    try:
        text = refused(lambda: waiting.ready(f"https://127.0.0.1:{plain.server_port}/v1"))
    finally:
        plain.stop(timeout=1)
    assert text.startswith("the server speaks plain HTTP on this port, not TLS")
    assert text.endswith(f"Begin the base URL with http://: --host http://127.0.0.1:{plain.server_port}")
    assert waiting.now == 0.0


def test_a_plain_server_that_waits_out_the_handshake_is_told_in_the_end() -> None:
    silent = StreamServer(("127.0.0.1", 0), lambda _sock, _address: never())
    silent.start()
    url = f"https://127.0.0.1:{silent.server_port}"
    try:
        text = refused(lambda: Waiting().ready(url, timeout_s=0))
    finally:
        silent.stop(timeout=1)
    assert f"the server does not agree on TLS ({url}/health: no TLS handshake within 1 s)" in text
    assert text.endswith(f"if it speaks plain HTTP: --host http://127.0.0.1:{silent.server_port}")
