"""Looking for the capacity boundary: which rate to try next, given how those before were judged.

Up a ladder until a rate fails, then between the last pass and the first fail, halving their ratio each time, until they are
as close as asked. When the lowest rate fails, down by halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llm_locust.records.summary import Result

GROWTH = 2.0
"""From rate to rate where the ladder has one rung only, and downward where the lowest one fails."""
MOST_DOWN = 6
"""How often the lowest rate is halved: a service that fails at a sixty-fourth of it is not one to be searched like this."""


class BoundarySearch:
    """A search by arrival rate. Ask :meth:`next_rate`, run it, :meth:`tell` how it was judged, and so on.

    A rate passes when it was told to pass and never otherwise. A stage that is invalid or undetermined says nothing about
    the server: it is tried once more, and when that says nothing either the search ends.
    """

    def __init__(self, rates_rps: Sequence[float], *, resolution: float = 0.1, most_stages: int = 20) -> None:
        """Begin.

        Args:
            rates_rps: The ladder; a single rate is doubled until one fails.
            resolution: End when (first fail - last pass) / last pass is at most this.
            most_stages: End after so many told results, whatever they were.

        Raises:
            ValueError: no rate, or one that is not above 0.
        """
        if not rates_rps or not all(math.isfinite(rate) and rate > 0 for rate in rates_rps):
            raise ValueError("a search begins with rates greater than 0")
        self._ladder = sorted(set(rates_rps))
        self._grows = len(self._ladder) == 1
        self._resolution = resolution
        self._left = most_stages
        self._results: dict[float, Result] = {}
        self._nothing_said: dict[float, int] = {}

    @property
    def last_pass_rps(self) -> float | None:
        """The highest rate that passed below the first that failed."""
        failing = self.first_fail_rps
        passed = [
            rate for rate, result in self._results.items() if result == "pass" and (failing is None or rate < failing)
        ]
        return max(passed, default=None)

    @property
    def first_fail_rps(self) -> float | None:
        """The lowest rate that failed."""
        return min((rate for rate, result in self._results.items() if result == "fail"), default=None)

    def tell(self, rate_rps: float, result: Result) -> None:
        """How a rate was judged; a second result of the same rate counts unless the rate has already failed."""
        self._left -= 1
        if result not in ("pass", "fail"):
            self._nothing_said[rate_rps] = self._nothing_said.get(rate_rps, 0) + 1
        if self._results.get(rate_rps) != "fail":
            self._results[rate_rps] = result

    def next_rate(self) -> float | None:
        """The rate to try; ``None`` when the search is over."""
        if self._left <= 0:
            return None
        for rate, result in self._results.items():
            if result not in ("pass", "fail"):
                return rate if self._nothing_said[rate] == 1 else None
        passing, failing = self.last_pass_rps, self.first_fail_rps
        if failing is None:
            return self._upward(passing)
        if passing is None:
            return self._downward(failing)
        if failing / passing - 1 <= self._resolution:
            return None
        between = _rounded(math.sqrt(passing * failing))
        return between if passing < between < failing else None

    def _upward(self, passing: float | None) -> float | None:
        if passing is None:
            return self._ladder[0]
        higher = [rate for rate in self._ladder if rate > passing]
        if higher:
            return higher[0]
        return passing * GROWTH if self._grows else None

    def _downward(self, failing: float) -> float | None:
        lowest = self._ladder[0] / GROWTH**MOST_DOWN
        lower = _rounded(failing / GROWTH)
        return (
            lower if lower > lowest / math.sqrt(GROWTH) else None
        )  # as a whole number of halves, rounded ones included


def _rounded(rate: float) -> float:
    """Three digits: a rate that can be said."""
    return float(f"{rate:.3g}")
