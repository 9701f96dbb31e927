"""Emptying the server's prefix cache: by the page that it has, or a plain word that it has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from llm_locust.records import UsageError
from llm_locust.simulator.process import running
from llm_locust.telemetry.prefix_cache import reset_prefix_cache
from llm_locust.telemetry.probe import Probe
from tests.telemetry.server import Pages, http


@pytest.fixture
def served() -> Iterator[list[Pages]]:
    started: list[Pages] = []
    yield started
    for pages in started:
        pages.stop()


def test_the_next_request_finds_nothing_of_the_one_before() -> None:
    with running(prefix_caching=True, block_size=16, decode_ms=0) as (base_url, _):

        def cached() -> int:
            ask = {"prompt": "word " * 40, "max_tokens": 1}
            usage = requests.post(f"{base_url}/v1/completions", json=ask, timeout=10).json()["usage"]
            return int(usage["prompt_tokens_details"]["cached_tokens"])

        assert [cached(), cached()] == [0, 32]  # the full blocks of 40 tokens
        reset_prefix_cache(Probe(base_url, {}))
        assert [cached(), cached()] == [0, 32]


def test_sglangs_page_is_taken_where_vllms_is_not(served: list[Pages]) -> None:
    served.append(Pages({"/flush_cache": http(200, "Cache flushed.")}))
    reset_prefix_cache(Probe(served[0].url, {}))
    assert served[0].asked == ["/reset_prefix_cache", "/flush_cache"]


def test_a_server_with_no_such_page_is_said_to_have_none(served: list[Pages]) -> None:
    served.append(Pages({}))
    with pytest.raises(UsageError, match="VLLM_SERVER_DEV_MODE=1"):
        reset_prefix_cache(Probe(served[0].url, {}))


def test_a_server_that_is_still_busy_is_asked_again_and_then_given_up(served: list[Pages]) -> None:
    times = iter(range(1000))
    answers = iter([http(400, {"error": {"message": "busy"}}), http(200)])
    served.append(Pages({"/reset_prefix_cache": lambda: next(answers)}))
    reset_prefix_cache(Probe(served[0].url, {}), sleep=lambda _: None, now=lambda: float(next(times)))
    assert served[0].asked == ["/reset_prefix_cache"] * 2
    served.append(Pages({"/reset_prefix_cache": http(500, {"error": {"message": "broken"}})}))
    with pytest.raises(UsageError, match=r"did not empty its prefix cache .HTTP 500: broken"):
        reset_prefix_cache(Probe(served[1].url, {}), sleep=lambda _: None, now=lambda: float(next(times)))
