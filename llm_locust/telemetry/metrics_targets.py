"""Which pages are read during a run: what ``--metrics`` says, and who of them gets the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llm_locust.records import UsageError
from llm_locust.streaming.target import Target

HOST, OFF = "host", "off"
"""What ``--metrics`` takes beside addresses: the page of the server itself, and none at all."""


class MetricsTarget(NamedTuple):
    """One page to read."""

    base: str
    """The base URL to ask."""
    path: str
    asked_for: bool = True
    """A person named it. The server's own page is tried without being named, and it is no matter if there is none."""

    @property
    def url(self) -> str:
        """The address, as it stands in ``server.csv``."""
        return self.base + self.path


def metrics_targets(given: Sequence[str], host: str) -> list[MetricsTarget]:
    """The pages that are meant; an address without a path means its ``/metrics``.

    Args:
        given: The values of ``--metrics``; none at all means the server's own page, if it has one.
        host: The base URL of the load.

    Raises:
        UsageError: an address that is none, or ``off`` beside others.
    """
    words = list(dict.fromkeys(given))
    if OFF in words:
        if len(words) > 1:
            raise UsageError(f"--metrics {OFF} reads no page at all: leave out the other --metrics, or leave out {OFF}")
        return []
    base = host.strip().rstrip("/").removesuffix("/v1")
    if not words:
        return [MetricsTarget(base, "/metrics", asked_for=False)]
    found = [MetricsTarget(base, "/metrics") if word == HOST else _address(word) for word in words]
    return list(dict.fromkeys(found))


def headers_for(target: MetricsTarget, host: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """What is sent with the page: the headers of the load for the same origin, nothing for any other."""
    one, other = Target.parse(target.base), Target.parse(host)
    same = (one.tls, one.host.lower(), one.port) == (other.tls, other.host.lower(), other.port)
    return headers if same else {}


def _address(word: str) -> MetricsTarget:
    try:
        parsed = Target.parse(word)
    except UsageError as error:
        raise UsageError(
            f"--metrics {error}"
            if "://" in word
            else f"--metrics {word!r}: write an address with http://, {HOST} or {OFF}"
        ) from None
    base = f"{'https' if parsed.tls else 'http'}://{parsed.authority}"
    return MetricsTarget(base, parsed.prefix or "/metrics")
