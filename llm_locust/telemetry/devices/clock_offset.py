"""Samples of another process onto the master's clock, with how far the two clocks are apart and how that is known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from llm_locust.records import ClockSample
from llm_locust.records.device_sample import DeviceSample, TelemetryClock


class ClockOffset(NamedTuple):
    """The sampler's clock minus the master's."""

    offset_ns: int
    uncertainty_ns: int | None
    """``None``: not known."""
    how: str
    """Where it comes from, in words."""


def boot_id() -> str | None:
    """Names this boot of this machine; ``None`` where the system has no such name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def clock_offset(
    clock: TelemetryClock,
    *,
    master_anchor_ns: int | None = None,
    master_boot_id: str | None = None,
    scraped: ClockSample | None = None,
    given_ns: int | None = None,
) -> ClockOffset:
    """How far a sampler's clock is ahead of the master's, by the best that is known.

    A person's word comes first. On one boot of one machine both clocks run on the same monotonic clock, so that their
    anchors tell it exactly. Else the master measured it when it read the sampler's page. Else it is assumed to be 0.

    Args:
        clock: the sampler's.
        master_anchor_ns: the anchor of the master's clock.
        master_boot_id: the :func:`boot_id` of the master's machine.
        scraped: what :func:`offset_of_page` found.
        given_ns: what a person stated.
    """
    if given_ns is not None:
        return ClockOffset(given_ns, None, "as given")
    if master_anchor_ns is not None and master_boot_id is not None and clock.boot_id == master_boot_id:
        return ClockOffset(clock.anchor_ns - master_anchor_ns, 0, "same machine, same monotonic clock")
    if scraped is not None:
        return ClockOffset(scraped.offset_ns, scraped.uncertainty_ns, "measured when the page was read")
    return ClockOffset(
        0, None, "not known, assumed to be 0: nobody measured the two machines' clocks against each other"
    )


def offset_of_page(page_clock_ns: int, sent_ns: int, received_ns: int) -> ClockSample:
    """The offset that one page shows: the sampler read its clock somewhere between question and answer.

    Args:
        page_clock_ns: what the page says its clock was, see ``TelemetryPage.clock_ns``.
        sent_ns: when the page was asked for, on the master's clock.
        received_ns: when its first byte came.
    """
    middle = (sent_ns + received_ns) // 2
    half = -(-(received_ns - sent_ns) // 2)
    return ClockSample(at_ns=middle, offset_ns=page_clock_ns - middle, uncertainty_ns=half)


class PageClock:
    """One sampler's clock against the master's, by all of its pages that were read.

    The page with the shortest round trip tells it best. How far the clocks moved apart meanwhile adds to its uncertainty:
    50 ppm is 180 ms an hour.
    """

    def __init__(self) -> None:
        self._best: ClockSample | None = None
        self._least_ns: int | None = None
        """No page allows all of the offsets above this one ..."""
        self._most_ns: int | None = None
        """... and none all of those below this one; without drift, all pages allow what lies between."""

    def add(self, page: ClockSample) -> None:
        """One more page."""
        low, high = page.offset_ns - page.uncertainty_ns, page.offset_ns + page.uncertainty_ns
        self._least_ns = high if self._least_ns is None else min(self._least_ns, high)
        self._most_ns = low if self._most_ns is None else max(self._most_ns, low)
        if self._best is None or page.uncertainty_ns < self._best.uncertainty_ns:
            self._best = page

    def sample(self) -> ClockSample | None:
        """What is known; ``None`` before the first page."""
        best = self._best
        if best is None or self._least_ns is None or self._most_ns is None:
            return None
        within = max(best.uncertainty_ns, self._most_ns - best.offset_ns, best.offset_ns - self._least_ns)
        return structs.replace(best, uncertainty_ns=within)


def on_master_clock(samples: Iterable[DeviceSample], offset_ns: int) -> list[DeviceSample]:
    """The samples with their times on the master's clock."""
    return [structs.replace(sample, at_ns=sample.at_ns - offset_ns) for sample in samples]
