"""Both ways of reading: the tests that ask for it run once with each."""

from __future__ import annotations

import pytest

from llm_locust.streaming import client as client_module
from llm_locust.streaming.reading import has_epoll


@pytest.fixture(params=["epoll", "plain"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How clients read their replies in this test."""
    if request.param == "epoll" and not has_epoll():
        pytest.skip("this system has no epoll")
    monkeypatch.setattr(client_module, "has_epoll", lambda: request.param == "epoll")
    return str(request.param)
