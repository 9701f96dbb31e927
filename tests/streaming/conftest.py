"""Both ways of reading (the tests that ask for it run once with each), and a certificate of our own."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator

import pytest

from llm_locust.streaming import client as client_module
from llm_locust.streaming.reading import has_epoll
from llm_locust.streaming.receive_times import SO_TIMESTAMPNS

from .certificate import SelfMade, make_certificate


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> SelfMade:
    """A certificate for loopback that nobody but the test trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=["epoll", "plain"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How clients read their replies in this test."""
    if request.param == "epoll" and not has_epoll():
        pytest.skip("this system has no epoll")
    monkeypatch.setattr(client_module, "has_epoll", lambda: request.param == "epoll")
    return str(request.param)


@pytest.fixture(scope="session", autouse=True)
def stamping_kernel() -> Iterator[None]:
    """Keeps the kernel stamping what it receives.

    It begins to when the first socket asks for it, a moment later, and ends with the last: a first read may have no stamp.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        keeper.bind(("127.0.0.1", 0))
        keeper.settimeout(5)
        for _ in range(1000):
            keeper.sendto(b"x", keeper.getsockname())
            if keeper.recvmsg(1, 64)[1]:
                break
        yield
