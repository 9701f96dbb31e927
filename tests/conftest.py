"""Settings of the whole suite."""

import os
from collections.abc import Iterator

import pytest

# Importing Locust patches the standard library for gevent. The tests' own threads and clocks are to stay what they are;
# processes that tests start are patched as a user's are (their environment does not have this).
os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"


@pytest.fixture
def own_dialects() -> Iterator[None]:
    """What the test registers is gone after it."""
    from llm_locust.streaming.dialects import registered

    before = dict(registered._registered)
    yield
    registered._registered.clear()
    registered._registered.update(before)
