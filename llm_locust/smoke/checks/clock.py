"""Clocks: how far the server's is from ours, as far as a ``Date`` header can tell, and that ours does not step.

No latency depends on the server's clock: both ends of each are taken here. Its offset matters where its log and our records
are laid side by side.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from llm_locust.records import NS_PER_S, Clock
from llm_locust.smoke.result import Found, failed, not_applicable, passed
from llm_locust.smoke.server import SmokedServer

PATH = "/v1/models"
LOOKS = 3
MOST_STEP_MS = 1.0
MOST_OFFSET_S = 2.0
"""The header tells whole seconds, and some servers write it anew only once a second."""
_UNKNOWN = "not known: the offset to better than that, and how it drifts"


def check_clock(server: SmokedServer) -> Found:
    """Looks at the ``Date`` of a few answers, and at our own wall clock since the smoke test began."""
    low, high = float("-inf"), float("inf")
    for _ in range(LOOKS):
        sent_ns = server.clock.now_ns()
        page = server.page(PATH)
        date_s = _seconds(page.date)
        if date_s is None:
            break
        # The server read its clock between our two times, when it stood anywhere in that second.
        low = max(low, date_s - page.first_ns / NS_PER_S)
        high = min(high, date_s + 1 - sent_ns / NS_PER_S)
    step_ms = step_since(server.clock)
    ours = f"the local wall clock stepped by {abs(step_ms):.2f} ms since the start"
    if abs(step_ms) >= MOST_STEP_MS:
        return failed("the local wall clock was stepped meanwhile (the records are not affected; other logs are)", ours)
    if high == float("inf"):
        return not_applicable("the server's answers carry no Date header, so its clock is not known at all", ours)
    low, high = min(low, high), max(low, high)
    seen = f"the server's clock is {low:+.2f} to {high:+.2f} s from ours by its Date header; {ours}; {_UNKNOWN}"
    if low > MOST_OFFSET_S or high < -MOST_OFFSET_S:
        return failed("the server's clock and ours are seconds apart: its log cannot be laid beside our records", seen)
    return passed(seen)


def step_since(clock: Clock) -> float:
    """How far the wall clock stepped since that clock was made, in milliseconds; the least of a few looks.

    A process that is put aside between reading two clocks sees a step where there is none.
    """
    return min((clock.wall_step_ns() for _ in range(5)), key=abs) / 1e6


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
