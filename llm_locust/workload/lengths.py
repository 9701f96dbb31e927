"""Lengths in tokens: a fixed number or a distribution, as text and as a quantile function.

``512``, ``uniform:low=100,high=900``, ``normal:mean=512,sd=100``, ``lognormal:p50=400,p95=2000``, ``empirical`` (the values
of a trace, each as likely as it is frequent there). ``normal`` and ``lognormal`` may be cut off by ``min=`` and ``max=``:
what would lie beyond becomes the bound itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from llm_locust.records import UsageError
from llm_locust.workload.parameters import read_parameters

LONGEST = 100_000_000
"""Tokens: far more than any context, and a prompt of them still fits into memory."""

_OPTIONAL = math.nan
_BOUNDS = {"min": _OPTIONAL, "max": _OPTIONAL}
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths in tokens; never below 1."""

    name: str
    """In canonical form."""
    quantile: Callable[[float], float]
    """The length below which this share lies, the share being in (0, 1)."""

    def at(self, share: float) -> int:
        """The length at this quantile."""
        return max(1, min(round(self.quantile(share)), LONGEST))


@dataclass(frozen=True)
class _Kind:
    form: str
    parameters: Mapping[str, float | None]
    make: Callable[[Mapping[str, float]], Callable[[float], float]]


def _uniform(given: Mapping[str, float]) -> Callable[[float], float]:
    low, high = given["low"], given["high"]
    if not 1 <= low <= high:
        raise UsageError(f"low={low:g} and high={high:g}: lengths go from at least 1 upwards")
    # Each whole number from low to high is equally likely.
    return lambda share: math.floor(low + share * (high - low + 1)) if share < 1 else high


def _normal(given: Mapping[str, float]) -> Callable[[float], float]:
    mean, sd = given["mean"], given["sd"]
    if mean < 1 or sd < 0:
        raise UsageError(f"mean={mean:g} and sd={sd:g}: a mean of at least 1, and a deviation of at least 0")
    return _cut(lambda share: mean + sd * _NORMAL.inv_cdf(share), given)


def _lognormal(given: Mapping[str, float]) -> Callable[[float], float]:
    p50, p95 = given["p50"], given["p95"]
    if not 1 <= p50 <= p95:
        raise UsageError(f"p50={p50:g} and p95={p95:g}: the median is at least 1 and not above the 95th percentile")
    mu, sigma = math.log(p50), math.log(p95 / p50) / _Z95
    return _cut(lambda share: math.exp(min(mu + sigma * _NORMAL.inv_cdf(share), 100.0)), given)


def _cut(quantile: Callable[[float], float], given: Mapping[str, float]) -> Callable[[float], float]:
    low, high = given.get("min", 1.0), given.get("max", float(LONGEST))
    if not 1 <= low <= high:
        raise UsageError(f"min={low:g} and max={high:g}: lengths go from at least 1 upwards")
    return lambda share: max(low, min(quantile(share), high))


KINDS: dict[str, _Kind] = {
    "uniform": _Kind("uniform:low=100,high=900", {"low": None, "high": None}, _uniform),
    "normal": _Kind("normal:mean=512,sd=100", {"mean": None, "sd": None, **_BOUNDS}, _normal),
    "lognormal": _Kind("lognormal:p50=400,p95=2000", {"p50": None, "p95": None, **_BOUNDS}, _lognormal),
}
EMPIRICAL = "empirical"
FORMS = ("512", *(kind.form for kind in KINDS.values()), EMPIRICAL)


def parse_lengths(text: str, option: str, measured: Sequence[int] | None = None) -> Lengths:
    """The distribution that a text names.

    Args:
        text: one of :data:`FORMS`.
        option: who asks, as an error names it: ``--input-tokens``.
        measured: the known lengths of a trace, for ``empirical``; ``None`` where there is no trace.

    Raises:
        UsageError: an unknown name or parameter, or lengths below 1.
    """
    try:
        return _parse(text.strip(), measured)
    except UsageError as error:
        raise UsageError(f"{option} {text.strip()!r}: {error}") from None


def _parse(text: str, measured: Sequence[int] | None) -> Lengths:
    name, colon, listed = (part.strip() for part in text.partition(":"))
    if not colon and name.isascii() and name.isdigit():
        fixed = int(name)
        if not 1 <= fixed <= LONGEST:
            raise UsageError(f"a length is from 1 to {LONGEST:,} tokens")
        return Lengths(name, lambda _: fixed)
    if name == EMPIRICAL and not listed:
        if measured is None:
            raise UsageError("the lengths of which trace? Give one with --trace")
        if not len(measured):
            raise UsageError("the trace tells no lengths of this kind; write another form of length")
        ordered = sorted(int(value) for value in measured)
        return Lengths(EMPIRICAL, lambda share: ordered[min(int(share * len(ordered)), len(ordered) - 1)])
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f"no such length: write one of {', '.join(FORMS)}")
    given = read_parameters(listed, kind.parameters, kind.form)
    return Lengths(f"{name}:" + ",".join(f"{key}={value:g}" for key, value in given.items()), kind.make(given))
