"""Goodput from counts that a person typed: the quotients and intervals of a judged run, of somebody's own figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from llm_locust.analysis.quantiles import per_second, share, wilson
from llm_locust.analysis.words import number, percent
from llm_locust.records.figures import Interval
from llm_locust.web.workbench.typed import Fields, whole
from llm_locust.web.workbench.typed import number as typed_number

LABEL = "Computed from your figures, not a test."

MOST_REQUESTS = 10**9
MOST_SECONDS = 10**9

NAMES = ("measured", "successful", "good", "seconds")


class Counted(msgspec.Struct, kw_only=True):
    """What follows from the counts. ``None``: a count that it needs is blank, or its denominator is 0."""

    label: str = LABEL
    measured: int | None
    successful: int | None
    failed: int | None
    """measured - successful: whatever is not ok counts as failed."""
    good: int | None
    seconds: float | None
    request_throughput_rps: float | None
    goodput_rps: float | None
    attainment: float | None
    attainment_interval: Interval | None
    error_rate: float | None
    error_rate_interval: Interval | None
    lines: list[tuple[str, str, str]] = []
    """Name, figure and how it was computed (or why it was not), for a person."""


def count_goodput(typed: Mapping[str, Any]) -> Counted:
    """The figures.

    Raises:
        Refused: a count is none, or they contradict each other.
    """
    fields = Fields(typed, NAMES)
    measured = fields.read("measured", _requests)
    successful = fields.read("successful", _requests)
    good = fields.read("good", _requests)
    seconds = fields.read("seconds", lambda given: float(typed_number(given, least=0, most=MOST_SECONDS)))
    if seconds == 0:
        fields.refuse("seconds", "it cannot be 0: leave it blank if it is not known")
    if measured is not None and successful is not None and successful > measured:
        fields.refuse("successful", f"{successful} is more than the {measured} that were measured")
    of, whole_of = (successful, "successful") if successful is not None else (measured, "measured")
    if good is not None and of is not None and good > of:
        fields.refuse("good", f"{good} is more than the {of} that were {whole_of}: a good request is a successful one")
    fields.check()
    failed = None if measured is None or successful is None else measured - successful
    found = Counted(
        measured=measured,
        successful=successful,
        failed=failed,
        good=good,
        seconds=seconds,
        request_throughput_rps=per_second(successful, seconds),
        goodput_rps=per_second(good, seconds),
        attainment=None if good is None or measured is None else share(good, measured),
        attainment_interval=None if good is None or measured is None else wilson(good, measured),
        error_rate=None if failed is None or measured is None else share(failed, measured),
        error_rate_interval=None if failed is None or measured is None else wilson(failed, measured),
    )
    found.lines = [
        _rate("Successful throughput", found.request_throughput_rps, "successful", successful, seconds),
        _rate("Goodput", found.goodput_rps, "good", good, seconds),
        _share("Attainment", found.attainment, found.attainment_interval, "good", good, measured),
        _share("Error rate", found.error_rate, found.error_rate_interval, "failed", failed, measured, up=True),
    ]
    return found


def _requests(typed: Any) -> int:
    return whole(typed, most=MOST_REQUESTS)


def _rate(name: str, value: float | None, of: str, count: int | None, seconds: float | None) -> tuple[str, str, str]:
    if value is None:
        missing = " and ".join(n for n, given in ((of, count), ("seconds", seconds)) if given is None)
        return name, "-", f"not known: {missing} left blank"
    return name, f"{number(value)} req/s", f"{count} {of} / {number(seconds, 6)} s"


def _share(
    name: str,
    value: float | None,
    interval: Interval | None,
    of: str,
    count: int | None,
    measured: int | None,
    *,
    up: bool = False,
) -> tuple[str, str, str]:
    if measured == 0:
        return name, "-", "nothing was measured, so there is no share of it"
    if value is None or interval is None:
        needed = ("successful" if of == "failed" else of, count)
        missing = " and ".join(n for n, given in (("measured", measured), needed) if given is None)
        return name, "-", f"not known: {missing} left blank"
    within = f"{percent(interval.low)} to {percent(interval.high, up=True)}"
    return (
        name,
        percent(value, up=up),
        f"{count} {of} / {measured} measured; 95 % interval {within} (Wilson, if requests are independent)",
    )
