"""How long prompts and replies were asked to be, and how long they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CLOSE = 0.01
"""A length within this share of what was asked for is as asked for."""


@dataclass(frozen=True, kw_only=True)
class LengthsAsked:
    """Asked against got, over requests for which both are known. Lengths are in tokens, shares from 0 to 1."""

    requests: int
    asked_mean: float
    got_mean: float
    worst_off_share: float
    """The largest |got - asked| / asked."""
    close_share: float
    """Requests within 1 % of what was asked for / all."""


def lengths_asked(pairs: Iterable[tuple[int | None, int | None]]) -> LengthsAsked | None:
    """Of ``(asked, got)`` per request; ``None`` when no request has both.

    Inputs: the measured ok rows' ``input_tokens_asked`` and ``prompt_tokens`` (of the server's usage). Outputs: their
    ``max_tokens`` and ``output_tokens``; short of the limit is then where the model ended by itself.
    """
    known = [(asked, got) for asked, got in pairs if asked is not None and asked > 0 and got is not None]
    if not known:
        return None
    off = [abs(got - asked) / asked for asked, got in known]
    return LengthsAsked(
        requests=len(known),
        asked_mean=sum(asked for asked, _ in known) / len(known),
        got_mean=sum(got for _, got in known) / len(known),
        worst_off_share=max(off),
        close_share=sum(share <= CLOSE for share in off) / len(known),
    )
