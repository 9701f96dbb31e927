"""Arrival processes as text: ``gamma:cv=3``, as ``--arrivals`` takes it and a stage's specification keeps it.

    NAME[:PARAMETER=NUMBER,...]

Durations are seconds, rates requests per second, without a unit. What is left out has its default.
"""

from __future__ import annotations

import difflib

from llm_locust.arrivals.processes import PROCESSES, Process
from llm_locust.records import UsageError
from llm_locust.records.stage import TRACE


def parse_process(text: str) -> Process:
    """``"on-off:on=5,off=15"`` to the process with these parameters.

    Raises:
        UsageError: an unknown name or parameter, one given twice or missing, no number, or a number out of range.
    """
    name, _, listed = (part.strip() for part in text.partition(":"))
    try:
        kind = PROCESSES.get(name)
        if kind is None:
            near = difflib.get_close_matches(name, PROCESSES, n=1)
            hint = f"did you mean {near[0]}? It is one of" if near else "it is one of"
            raise UsageError(f"no arrival process is called {name!r}: {hint} {', '.join(PROCESSES)}")
        values: dict[str, float] = {}
        for item in filter(None, (part.strip() for part in listed.split(","))):
            key, equals, number = (part.strip() for part in item.partition("="))
            if not equals or not key:
                raise UsageError(f"{item!r}: write PARAMETER=NUMBER, as in {kind.form}")
            if key in values:
                raise UsageError(f"{key} is given twice; give it once")
            values[key] = kind.parameter(key).read(number)
        return kind.bind(values)
    except UsageError as error:
        raise UsageError(f"--arrivals {text.strip()!r}: {error}") from None


def process_name(text: str) -> str:
    """The canonical form: every parameter, in the order of the table, with its value.

    Defaults are filled in, so that a name on record means the same when a default has changed.

    Raises:
        UsageError: as :func:`parse_process`.
    """
    return parse_process(text).name


def is_steady(arrivals: str) -> bool:
    """Whether arrivals of this canonical name come at the same rate at all times, as far as a queue can tell.

    What rises and falls by itself (a shape, bursts with pauses, a trace) says nothing of the server when it does.
    """
    if arrivals == TRACE:
        return False
    try:
        process = parse_process(arrivals)
    except UsageError:  # of another version's table
        return True
    return process.kind.steady and not process.needs_duration


def mean_rate(text: str, rate_rps: float, duration_s: float) -> float:
    """The mean rate in requests per second that a process offers over a duration: ``rate_rps``, but for ramps.

    Raises:
        UsageError: as :func:`parse_process`.
    """
    return parse_process(text).mean_rate(rate_rps, duration_s)
