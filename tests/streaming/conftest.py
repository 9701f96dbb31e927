"""Both ways of reading (the tests that ask for it run once with each), and a certificate of our own."""

from __future__ import annotations

import shutil

import pytest

from llm_locust.streaming import client as client_module
from llm_locust.streaming.reading import has_epoll

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
