"""One server for the tests that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_locust.simulator.process import Running, running


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """Quick, with plenty of slots."""
    with running(slots=64, decode_ms=2, prefill_tps=1_000_000, batch_slowdown=0, max_model_len=2048) as it:
        yield it
