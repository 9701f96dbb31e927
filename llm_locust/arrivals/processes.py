"""The arrival processes by name, with their parameters: what ``--arrivals`` offers.

A process is a pure function (rate in requests per second, duration in seconds, random stream, parameters) to planned
offsets: integer nanoseconds from the start, sorted, in ``[0, duration)``. It knows nothing of stages, workers or clocks.
The rate is the mean over the duration, but for ramps: there it is the rate at the start. A further process is a function
in :mod:`~llm_locust.arrivals.stationary` or :mod:`~llm_locust.arrivals.shaped` and a line in :data:`PROCESSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from llm_locust.arrivals.shaped import Shaped, diurnal, exponential_ramp, linear_ramp, spike
from llm_locust.arrivals.stationary import Offsets, constant, gamma, on_off, poisson
from llm_locust.records import UsageError

__all__ = ["PROCESSES", "Offsets", "Parameter", "Process", "ProcessKind", "plain_number"]


@dataclass(frozen=True)
class Parameter:
    """A number that a process takes. Both ends of its range are allowed."""

    name: str
    meaning: str
    unit: str
    """As it is read after a number (``seconds``); empty for a number without one."""
    least: float
    most: float
    default: float | None = None
    """``None``: it must be given."""

    @property
    def rule(self) -> str:
        """What it may be, in words: ``a plain number of seconds from 0.001 to 3600``."""
        unit = f" of {self.unit}" if self.unit else ""
        return f"a plain number{unit} from {plain_number(self.least)} to {plain_number(self.most)}"

    def read(self, text: str) -> float:
        """The number that a text is.

        Raises:
            UsageError: it is none, or out of range.
        """
        try:
            return self.checked(float(text))
        except (ValueError, UsageError):
            raise UsageError(f"{self.name}={text}: {self.meaning} is {self.rule}") from None

    def checked(self, value: float) -> float:
        """The number itself.

        Raises:
            UsageError: it is out of range.
        """
        if not self.least <= value <= self.most:  # nor is NaN in it
            raise UsageError(f"{self.name}={plain_number(value)}: {self.meaning} is {self.rule}")
        return float(value)


@dataclass(frozen=True)
class ProcessKind:
    """One line of the table: an arrival process before its parameters are set."""

    name: str
    meaning: str
    """One line, for help."""
    draw: Callable[..., Offsets] | Shaped
    parameters: tuple[Parameter, ...] = ()
    """In the order in which a canonical name has them."""
    steady: bool = True
    """Of a process without a shape: it has no long bursts and pauses either."""

    @property
    def needs_duration(self) -> bool:
        """Its shape is laid over the duration, so a stage that ends after N requests cannot have it."""
        return isinstance(self.draw, Shaped)

    @property
    def form(self) -> str:
        """How it is written, with its defaults: ``on-off:on=5,off=15``, ``linear-ramp:to=N``."""
        return _written(self.name, {p.name: p.default for p in self.parameters})

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name.

        Raises:
            UsageError: it has none.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise UsageError(
            f"{self.name} has no parameter {name!r}: it takes {', '.join(p.name for p in self.parameters) or 'none'}"
        )

    def bind(self, given: Mapping[str, float]) -> Process:
        """The process with these parameters, the others at their defaults.

        Raises:
            UsageError: a parameter that must be given is not, one is unknown, or one is out of its range.
        """
        for name in given:
            self.parameter(name)
        values: dict[str, float] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name, parameter.default)
            if value is None:
                raise UsageError(f"{self.name} needs {parameter.name}=N, where {parameter.meaning} is {parameter.rule}")
            values[parameter.name] = parameter.checked(value)
        return Process(self, tuple(values.items()))

    def __call__(self, rate_rps: float, duration_s: float, random: np.random.Generator) -> Offsets:
        """The arrivals with every parameter at its default.

        Raises:
            UsageError: one has no default.
        """
        return self.bind({})(rate_rps, duration_s, random)


@dataclass(frozen=True)
class Process:
    """An arrival process with its parameters: (rate, duration, random stream) to offsets."""

    kind: ProcessKind
    parameters: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The canonical name, every parameter with its value: equal processes have equal names."""
        return _written(self.kind.name, dict(self.parameters))

    @property
    def needs_duration(self) -> bool:
        """Its shape is laid over the duration, so a stage that ends after N requests cannot have it."""
        return self.kind.needs_duration

    def __call__(self, rate_rps: float, duration_s: float, random: np.random.Generator) -> Offsets:
        """The planned arrivals, in nanoseconds from the start."""
        return self.kind.draw(rate_rps, duration_s, random, **dict(self.parameters))

    def expected_arrivals(self, rate_rps: float, duration_s: float, until_s: float) -> float:
        """How many arrivals of the whole duration are expected in its first ``until_s`` seconds.

        Over all seeds; a window's is the difference of two. (Constant arrivals come rounded up to the next whole one.)
        """
        if isinstance(self.kind.draw, Shaped):
            shape = self.kind.draw.intensity(rate_rps, duration_s, **dict(self.parameters))
            return float(shape.expected_by(np.array([until_s]))[0])
        return rate_rps * until_s

    def edge_rates(self, rate_rps: float, duration_s: float) -> tuple[float, float]:
        """The rates in requests per second with which a duration begins and ends."""
        if isinstance(self.kind.draw, Shaped):
            shape = self.kind.draw.intensity(rate_rps, duration_s, **dict(self.parameters))
            moment = duration_s * 1e-6
            _, first, last, end = shape.expected_by(np.array([0.0, moment, duration_s - moment, duration_s])).tolist()
            return first / moment, (end - last) / moment
        return rate_rps, rate_rps

    def mean_rate(self, rate_rps: float, duration_s: float) -> float:
        """The offered mean rate over the duration in requests per second: ``rate_rps``, but for ramps."""
        return self.expected_arrivals(rate_rps, duration_s, duration_s) / duration_s


def plain_number(value: float) -> str:
    """The shortest text that reads back as the same number, a whole one without its ``.0``."""
    return repr(float(value) + 0.0).removesuffix(".0")  # + 0.0: there is no -0


def _written(name: str, values: Mapping[str, float | None]) -> str:
    listed = ",".join(f"{key}={'N' if value is None else plain_number(value)}" for key, value in values.items())
    return f"{name}:{listed}" if listed else name


_HOUR, _DAY = 3600.0, 86_400.0
_MOST_RPS = 1e6

PROCESSES: dict[str, ProcessKind] = {
    kind.name: kind
    for kind in (
        ProcessKind("poisson", "independent arrivals, as of many clients that know nothing of each other", poisson),
        ProcessKind("constant", "all gaps equal: no bursts at all, kinder than any real traffic", constant),
        ProcessKind(
            "gamma",
            "independent gaps of any variation: above cv=1, which is Poisson, arrivals bunch",
            gamma,
            (Parameter("cv", "the coefficient of variation of the gaps", "", 0.01, 20, 2),),
        ),
        ProcessKind(
            "on-off",
            "bursts of Poisson arrivals with nothing between; --rates is the mean",
            on_off,
            (
                Parameter("on", "the length of a burst", "seconds", 0.001, _HOUR, 5),
                Parameter("off", "the pause after it", "seconds", 0, _HOUR, 15),
            ),
            steady=False,
        ),
        ProcessKind(
            "spike",
            "Poisson with one burst; --rates is the mean",
            spike,
            (
                Parameter("at", "where in the stage it begins (share of its length)", "", 0, 1, 0.5),
                Parameter("width", "how long it lasts", "seconds", 0.001, _DAY, 2),
                Parameter("share", "the share of all arrivals that fall into it", "", 0, 1, 0.5),
            ),
        ),
        ProcessKind(
            "diurnal",
            "Poisson at a rate that rises and falls like a day, from its trough; --rates is the mean",
            diurnal,
            (
                Parameter("period", "the length of a day", "seconds", 0.001, _DAY, 60),
                Parameter("swing", "how far trough and peak are from the mean (share of it)", "", 0, 1, 0.8),
            ),
        ),
        ProcessKind(
            "linear-ramp",
            "Poisson at a rate that goes in a straight line from --rates to another",
            linear_ramp,
            (Parameter("to", "the rate at the end", "requests per second", 0, _MOST_RPS),),
        ),
        ProcessKind(
            "exponential-ramp",
            "Poisson at a rate that grows by the same factor every second, from --rates to another",
            exponential_ramp,
            (Parameter("to", "the rate at the end", "requests per second", 0.001, _MOST_RPS),),
        ),
    )
}
"""Every arrival process by the name that ``--arrivals`` takes."""
