"""A prefix that prompts share: which share of a prompt's tokens, how many groups of them, and how unevenly they are taken.

``share=0.9,groups=4,zipf=1.1``: nine tenths of every prompt are its group's common beginning; the g-th of four groups is
taken with a probability proportional to ``1 / g**1.1``. ``zipf=0``, the default, takes all groups alike.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from llm_locust.records import UsageError
from llm_locust.workload.parameters import read_parameters

FORM = "share=0.9,groups=4,zipf=1.1"
MOST_GROUPS = 1_000_000


class SharedPrefix:
    """How much of a prompt is shared, and with which others."""

    def __init__(self, share: float, groups: int = 1, zipf: float = 0.0) -> None:
        self.share = share
        self.groups = groups
        self.zipf = zipf
        weights = list(accumulate(place**-zipf for place in range(1, groups + 1)))
        self._until = [weight / weights[-1] for weight in weights]

    @property
    def name(self) -> str:
        """In canonical form."""
        return f"share={self.share:g},groups={self.groups},zipf={self.zipf:g}"

    def group(self, share: float) -> int:
        """The group, from 0, at this quantile of the groups by frequency (the commonest first)."""
        return min(bisect_left(self._until, share), self.groups - 1)

    def tokens(self, of: int) -> int:
        """Tokens of the common beginning in a prompt of so many."""
        return round(self.share * of)


def parse_shared_prefix(text: str, option: str = "--shared-prefix") -> SharedPrefix:
    """The shared prefix that a text asks for.

    Raises:
        UsageError: an unknown parameter, or a number out of range.
    """
    try:
        given = read_parameters(text, {"share": None, "groups": 1.0, "zipf": 0.0}, FORM)
        if not 0 <= given["share"] <= 1:
            raise UsageError(f"share={given['share']:g}: a share goes from 0 to 1")
        if given["groups"] != int(given["groups"]) or not 1 <= given["groups"] <= MOST_GROUPS:
            raise UsageError(f"groups={given['groups']:g}: a whole number from 1 to {MOST_GROUPS:,}")
        if not 0 <= given["zipf"] <= 10:
            raise UsageError(f"zipf={given['zipf']:g}: an exponent from 0 (all groups alike) to 10")
    except UsageError as error:
        raise UsageError(f"{option} {text.strip()!r}: {error}") from None
    return SharedPrefix(given["share"], int(given["groups"]), given["zipf"])
