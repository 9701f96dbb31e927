"""What tests of our pages share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A Chromium for the tests of one module (``playwright.sync_api.Browser``)."""
    pytest.importorskip("playwright")
    from tests.web.browser import chromium

    with chromium() as found:
        yield found
