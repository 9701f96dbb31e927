"""Faults on demand: what can go wrong, how it is written, and which request it meets.

``NAME`` or ``NAME:AMOUNT`` names a fault; ``NAME[:AMOUNT]:SHARE`` gives it to a share of the requests, chosen by seed and
request number alone. A header ``X-Simulate-Fault: NAME[:AMOUNT]`` asks for exactly one, and ``none`` for none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from llm_locust.records import UsageError

AFTER_TOKENS = ("stream-error", "cut", "reset", "stall")
"""Faults that strike in place of the token after the first ``amount`` (after the last one, if the reply is shorter)."""

PLAIN = ("buffered", "no-finish", "not-streamed", "html", "close")

FORMS = "status=CODE, status=CODE-oom, stream-error:N, cut:N, reset:N, stall:N, slow-usage:MS, " + ", ".join(PLAIN)
"""Every form, for messages and help."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    name: str
    amount: int = 0
    """Tokens before it strikes, milliseconds for ``slow-usage``, the code for ``status``."""
    out_of_memory: bool = False
    """The error text names memory exhaustion."""

    def __str__(self) -> str:
        if self.name == "status":
            return f"status={self.amount}{'-oom' if self.out_of_memory else ''}"
        return f"{self.name}:{self.amount}" if self.name in (*AFTER_TOKENS, "slow-usage") else self.name

    def strikes(self, tokens_sent: int) -> bool:
        """Whether this is a fault in mid-stream whose time has come."""
        return self.name in AFTER_TOKENS and tokens_sent >= self.amount


def parse_fault(text: str) -> Fault:
    """``"cut:2"`` or ``"status=500-oom"`` as a fault; a number left out is 0.

    Raises:
        UsageError: not one of the forms, or a status outside 400 to 599.
    """
    name, colon, amount = text.strip().partition(":")
    if name.startswith("status=") and not colon:
        code, dash, kind = name.removeprefix("status=").partition("-")
        if code.isdecimal() and 400 <= int(code) <= 599 and kind == ("oom" if dash else ""):
            return Fault("status", int(code), out_of_memory=bool(dash))
    elif name in PLAIN and not colon:
        return Fault(name)
    elif name in (*AFTER_TOKENS, "slow-usage") and (amount.isdecimal() if colon else True):
        return Fault(name, int(amount or 0))
    raise UsageError(f"no fault is written {text!r}: write one of {FORMS} (CODE from 400 to 599)")


@dataclass(frozen=True, slots=True)
class FaultMix:
    """Faults with their shares of the requests; what is left of 1 goes well."""

    seed: int
    shares: tuple[tuple[Fault, float], ...]

    def for_request(self, number: int) -> Fault | None:
        """The fault of the request of this number (0 for the first): a function of the seed and the number."""
        if not self.shares:
            return None
        draw = random.Random(f"{self.seed}/fault/{number}").random()
        for fault, share in self.shares:
            draw -= share
            if draw < 0:
                return fault
        return None


def parse_fault_mix(texts: Sequence[str], seed: int) -> FaultMix:
    """``["status=500:0.1", "cut:2:0.05"]`` as a mix.

    Raises:
        UsageError: an unknown fault, a share that is not in (0, 1], or shares that add up to more than 1.
    """
    shares = []
    for text in texts:
        form, _, last = text.rpartition(":")
        try:
            share = float(last) if form else 0.0
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            raise UsageError(
                f"--fault {text!r} must end in the share of requests that it meets, above 0 and at most 1: "
                "for example --fault status=503:0.1 or --fault cut:2:0.05"
            )
        shares.append((parse_fault(form), share))
    total = sum(share for _, share in shares)
    if total > 1 + 1e-9:
        raise UsageError(f"the shares of --fault add up to {total:g}, which is more than all requests")
    return FaultMix(seed, tuple(shares))


def status_phrase(code: int) -> str:
    """The reason phrase of an HTTP status, also of one that no standard names."""
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "Unknown Status"
