"""What this machine runs out of is nobody else's fault: it is named, with what to do, and passes."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from gevent import subprocess
from gevent.event import Event

from llm_locust.records import Clock, Outcome
from llm_locust.streaming import StreamClient, connection, epoll_reading
from llm_locust.streaming.own_limits import has_family, out_of_ports, out_of_resources
from llm_locust.streaming.reading import has_epoll

from .few_descriptors import ASK, LATER, WAVE
from .responses import PLAIN, response
from .server import Peer, serving

ROOT = Path(__file__).parents[2]
GOOD = response(*PLAIN)
DESCRIPTORS = 60


@pytest.mark.process
@pytest.mark.parametrize("reading", ["epoll", "plain"])
def test_a_process_out_of_descriptors_says_so_and_goes_on_when_there_are_some(reading: str) -> None:
    if reading == "epoll" and not has_epoll():
        pytest.skip("this system has no epoll")
    go_on = Event()

    def script(peer: Peer) -> None:
        while True:
            peer.request()
            go_on.wait()
            peer.send(GOOD)

    with serving(script) as server:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.streaming.few_descriptors", server.url(), str(DESCRIPTORS), reading],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            refused = json.loads(child.stdout.readline())
            go_on.set()
            everything = json.loads(child.stdout.readline())
            assert child.wait() == 0
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    assert list(refused["outcomes"]) == ["generator_error"]
    assert (
        everything["errors"]
        == refused["errors"]
        == [
            f"out of file descriptors: this process may have {DESCRIPTORS} open; raise the limit (ulimit -n), or share the "
            "requests among more workers"
        ]
    )
    outcomes = everything["outcomes"]
    assert set(outcomes) == {"generator_error", "ok"}
    assert sum(outcomes.values()) == WAVE + LATER
    assert WAVE - DESCRIPTORS < outcomes["generator_error"] < WAVE  # some descriptors are the process's own
    assert outcomes["ok"] > LATER


def fails(code: int) -> Any:
    def call(*_: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return call


def ask(url: str) -> tuple[Outcome, str]:
    one = StreamClient(url, Clock())
    reply = one.stream(ASK, deadline_s=10)
    one.close()
    assert reply.sent_ns is not None
    return reply.outcome, reply.error or ""


@pytest.mark.skipif(not has_epoll(), reason="this system has no epoll")
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_descriptor_for_the_epoll_that_is_not_to_be_had_is_ours_too(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with serving(Peer.request) as server:
        monkeypatch.setattr(epoll_reading, "_new_epoll", fails(code))
        outcome, error = ask(server.url())
    assert outcome is Outcome.GENERATOR_ERROR
    assert error == out_of_resources(OSError(code, ""))


@pytest.mark.skipif(not has_epoll(), reason="this system has no epoll")
def test_a_stream_that_the_epoll_does_not_take_is_ours_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        register = staticmethod(fails(errno.ENOSPC))

        def __init__(self, real: Any) -> None:
            self.fileno, self.close = real.fileno, real.close

    real = epoll_reading._new_epoll
    monkeypatch.setattr(epoll_reading, "_new_epoll", lambda: Full(real()))
    with serving(Peer.request) as server:
        found = ask(server.url())
    assert found == (Outcome.GENERATOR_ERROR, "the reply cannot be waited for: No space left on device")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://[::1]:9"])
def test_no_local_port_left_is_ours(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(connection, "_connect_one", fails(errno.EADDRNOTAVAIL))
    monkeypatch.setattr(connection, "has_family", lambda family: True)
    outcome, error = ask(url)
    assert outcome is Outcome.GENERATOR_ERROR
    assert error.startswith("out of local ports: widen net.ipv4.ip_local_port_range")
    assert error.endswith(f"{url.removeprefix('http://')}: Cannot assign requested address")


def test_an_ipv6_address_on_a_machine_without_ipv6_is_no_lack_of_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_connect_one", fails(errno.EADDRNOTAVAIL))
    monkeypatch.setattr(connection, "has_family", lambda family: family != socket.AF_INET6)
    outcome, error = ask("http://[::1]:9")
    assert (outcome, error) == (
        Outcome.CONNECT_ERROR,
        "no connection: [::1]:9: Cannot assign requested address",
    )


def test_every_machine_has_ipv4() -> None:
    assert has_family(socket.AF_INET)


def test_the_words_fit_into_an_error_text() -> None:
    addresses = "[fe80:0000:0000:0000:0000:0000:0000:0001]:65535: Cannot assign requested address"
    assert len(out_of_ports(addresses)) < 300
    for code in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
        said = out_of_resources(OSError(code, os.strerror(code)))
        assert said is not None
        assert len(said) < 300
    assert out_of_resources(OSError(errno.ECONNREFUSED, "")) is None
