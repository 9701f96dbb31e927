"""What a case of the diagnosis sees, and what it finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from llm_locust.streaming.reply import Reply
from llm_locust.streaming.target import Target


class Finding(NamedTuple):
    """What is wrong, as a clause; and what to do, as a sentence or two."""

    cause: str
    remedy: str


class Failed(NamedTuple):
    """A failed reply with all that is known about its request."""

    reply: Reply
    base_url: str
    path: str
    model: str | None
    models: Sequence[str] | None
    key_given: bool

    @property
    def target(self) -> Target:
        """The base URL taken apart."""
        return Target.parse(self.base_url)

    @property
    def root(self) -> str:
        """Scheme, host and port, without a path."""
        return f"{'https' if self.target.tls else 'http'}://{self.target.authority}"

    @property
    def sent_path(self) -> str:
        """The path that was asked for, whatever the base URL put before it included."""
        return self.target.path(self.path)

    @property
    def status(self) -> int:
        """The HTTP status; 0 when there was none."""
        return self.reply.status or 0

    @property
    def text(self) -> str:
        """What the server said, or the client in its place."""
        return self.reply.error or ""

    def says(self, pattern: re.Pattern[str]) -> bool:
        """The text holds a match."""
        return pattern.search(self.text) is not None

    def with_scheme(self, scheme: str) -> str:
        """The base URL with this scheme in place of its own."""
        return urlsplit(self.base_url.strip().rstrip("/"))._replace(scheme=scheme).geturl()


Case = Callable[[Failed], Finding | None]
"""``None`` when it is not this one."""
