"""A real browser for tests of our pages, and an ear for what it complains of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium, headless. Without one the test is skipped, with the reason."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], headless=True)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One page in a window of its own, in UTC; what it complained of and whom it asked is kept.

    Args:
        options: Of ``browser.new_context``: ``viewport``, ``color_scheme``, ...
    """

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(timezone_id="UTC", locale="en-US", **options)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        """Errors of the console (a breach of the Content-Security-Policy is one) and of scripts."""
        self.strangers: list[str] = []
        """Requests to another host."""
        self._host = urlsplit(url).netloc
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        self.page.goto(url)

    def close(self, *, complaints: int = 0) -> None:
        """Leave; the page must not have complained more often than it had reason to, and asked nobody else."""
        self.context.close()
        assert len(self.complaints) == complaints, self.complaints
        assert self.strangers == []

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != self._host:
            self.strangers.append(request.url)
