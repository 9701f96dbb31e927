"""Users who do not wait for their answer: which share of requests is dropped, and when (``--cancel``)."""

from __future__ import annotations

import math

import msgspec

from llm_locust.records.durations import parse_seconds
from llm_locust.records.errors import UsageError
from llm_locust.records.outcomes import Outcome

_FORM = "write share=SHARE and either after=SECONDS or tokens=N, for example share=0.1,after=2s or share=0.1,tokens=20"


_LEFT = "left as --cancel planned"


def leaving_text(after: str) -> str:
    """The error text of a row whose user left as planned, ``after`` so many seconds or output events.

    A column of its own would be empty in nearly every row of nearly every run; :func:`left_as_planned` reads it back.
    """
    return f"{_LEFT}, after {after}"


def left_as_planned(outcome: Outcome | str, error: str | None) -> bool:
    """Whether a row's user left because the plan said so: no other ``cancelled`` row, and no failure, is meant so.

    Args:
        outcome: The row's outcome; a server whose error happens to read alike is told by it.
        error: The row's error text.
    """
    return outcome == Outcome.CANCELLED and error is not None and error.startswith(_LEFT)


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """A share of all requests whose client closes the connection before the reply has ended.

    Which requests they are follows from the run's seed and their index alone (:func:`llm_locust.arrivals.leaves`). A reply
    that ends before its time to leave is an ordinary one.
    """

    share: float
    """From 0 (excluded) to 1."""
    after_s: float | None = None
    """Seconds from being sent; exactly one of the two is given."""
    after_events: int | None = None
    """Output events; as many tokens, where the server sends each in an event of its own."""

    def __str__(self) -> str:
        when = f"after={self.after_s:g}s" if self.after_s is not None else f"tokens={self.after_events}"
        return f"share={self.share:g},{when}"


def parse_leaving(text: str) -> Leaving:
    """``"share=0.1,after=2s"`` or ``"share=0.1,tokens=20"``.

    Raises:
        UsageError: another form, a share outside 0 to 1, a time or count that is not positive.
    """
    given: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or name not in ("share", "after", "tokens") or name in given:
            raise UsageError(f"--cancel {item!r}: {_FORM}")
        given[name] = value
    if "share" not in given or ("after" in given) == ("tokens" in given):
        raise UsageError(f"--cancel {text!r}: {_FORM}")
    share = _number("share", given["share"])
    if share > 1:
        raise UsageError(f"--cancel share={given['share']}: a share is at most 1")
    if "after" in given:
        return Leaving(share=share, after_s=parse_seconds(given["after"], "--cancel after"))
    tokens = _number("tokens", given["tokens"])
    if tokens != int(tokens):
        raise UsageError(f"--cancel tokens={given['tokens']}: a whole number of output events")
    return Leaving(share=share, after_events=int(tokens))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"--cancel {name}={text}: must be a number greater than 0; {_FORM}")
    return value
