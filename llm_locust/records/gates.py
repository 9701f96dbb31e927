"""The gate language: what a stage must hold to pass, as ``ttft_p95<=1000`` or ``faq:attainment>=0.99``.

    [SLICE:]FIGURE RELATION LIMIT

Latencies are in milliseconds, shares run from 0 to 1, ``_pct`` from 0 to 100, counts are whole numbers, a trend is ``flat``.
Without a slice a gate is about all requests of a stage together; ``*:`` holds every slice to it, each alone. What a figure
is computed from is said where it is computed; here is only its name and what it can be compared with.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from llm_locust.records.errors import UsageError
from llm_locust.records.outcomes import Outcome

Relation = Literal[">=", "<=", "="]

EVERY_SLICE = "*"
"""The slice name that stands for each slice of the workload, alone."""

PERCENTS = (50, 90, 95, 99)

LATENCIES: dict[str, str] = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first",
    "e2e": "end to end",
    "ntpot": "end to end / output tokens",
    "itl": "gap between output events",
    "max_gap": "longest gap of a request",
    "arrival_ttft": "time to first token, from the planned time",
    "arrival_e2e": "end to end, from the planned time",
    "client_wait": "from planned to sent",
    "cap_wait": "held back by --max-in-flight",
    "dispatch_lag": "the generator's own lateness",
    "queue": "the server's own queue, from its histogram: a limit inside a bucket cannot be told",
}
"""Latencies whose percentiles can be gated, by name."""

WITH_FAILURES = ("ttft", "tpot", "e2e")
"""Latencies that can also be gated with failures as infinity: ``ttft_p95_all``."""

SHARES: dict[str, Relation] = {
    "attainment": ">=",
    "error_rate": "<=",
    "reject_rate": "<=",
    "stall_share": "<=",
    "deadline_miss_share": "<=",
    "quality_rate": ">=",
}
"""Shares from 0 to 1 and the side from which each is held."""

TRENDS = ("in_flight_trend", "waiting_trend")

SERVER_LEVELS: dict[str, str] = {
    "waiting_peak": "requests that waited in the server, at most, of the moments that were sampled",
    "running_peak": "requests that the server ran, at most, of the moments that were sampled",
    "preemptions": "requests that the server put aside in the window for want of KV cache",
    "evictions": "KV-cache blocks that the server gave up in the window",
}
"""Counts that the server tells of itself; whole numbers."""

SERVER_PERCENTS: dict[str, str] = {
    "kv_cache_peak_pct": "KV-cache blocks in use, at most, of the fullest engine",
    "gpu_memory_peak_pct": "memory in use on the fullest GPU, at most, by everybody: what an engine reserves at start too",
}
"""Levels in percent of what there is; peaks of the moments that were sampled."""

OF_THE_SERVER = frozenset({*TRENDS, *(f"queue_p{percent}" for percent in PERCENTS), *SERVER_LEVELS, *SERVER_PERCENTS})
"""Figures of the server as a whole, which no slice has of its own."""

Kind = Literal["latency", "share", "rate", "count", "level", "percent", "trend"]
"""A ``count`` is of requests of the batch; a ``level`` is a number that the server tells of itself."""


class GateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One gate as it was asked for."""

    slice: str | None = None
    """``None`` for all requests together, :data:`EVERY_SLICE` for each slice alone."""
    name: str
    """The figure."""
    relation: Relation
    """How it must stand to the limit."""
    limit: float | str
    """Milliseconds, a share, requests per second, a count, percent, or ``flat``."""


class GateFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that can be gated."""

    name: str
    """As a gate names it."""
    kind: Kind
    """What its limit is a number of."""
    relations: tuple[Relation, ...]
    """The first is the usual one."""


def _figures() -> dict[str, GateFigure]:
    found = [
        GateFigure(name=f"{name}_p{percent}{tail}", kind="latency", relations=("<=",))
        for name in LATENCIES
        for percent in PERCENTS
        for tail in (("", "_all") if name in WITH_FAILURES else ("",))
    ]
    found += [GateFigure(name=name, kind="share", relations=(side,)) for name, side in SHARES.items()]
    found.append(GateFigure(name="goodput", kind="rate", relations=(">=",)))
    found.append(GateFigure(name="quality_failures", kind="count", relations=("=", "<=")))
    found += [GateFigure(name=name, kind="trend", relations=("=",)) for name in TRENDS]
    found += [GateFigure(name=name, kind="level", relations=("<=", "=")) for name in SERVER_LEVELS]
    found += [GateFigure(name=name, kind="percent", relations=("<=",)) for name in SERVER_PERCENTS]
    found += [
        GateFigure(name=str(outcome), kind="count", relations=("=", "<="))
        for outcome in Outcome
        if outcome is not Outcome.OK
    ]
    return {figure.name: figure for figure in found}


GATE_FIGURES: dict[str, GateFigure] = _figures()
"""Every figure that can be gated, by name; besides these ``http_503`` and the like, for any status."""

_HTTP = re.compile(r"http_[1-5]\d\d")

_GATE = re.compile(
    r"(?:(?P<slice>.*\S)\s*:)?\s*(?P<name>[^\s:<>=!]*)\s*(?P<relation>[<>=!]+)\s*(?P<limit>[^<>=!]*)", re.DOTALL
)

_FORM = "write [SLICE:]FIGURE<=LIMIT, for example ttft_p95<=1000, attainment>=0.99, http_503=0 or faq:ttft_p95<=800"


def parse_gate(text: str) -> GateSpec:
    """``"faq:ttft_p95<=800"`` to its parts.

    Raises:
        UsageError: another form, an unknown figure (the nearest names are said), or a relation or limit it cannot have.
    """
    match = _GATE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"gate {text.strip()!r}: {_FORM}")
    name = match["name"]
    figure = gate_figure(name)
    if figure is None:
        raise UsageError(f"gate {text.strip()!r}: no figure is called {name!r}; {_nearest(name)}")
    relation = "=" if match["relation"] == "==" else match["relation"]
    if relation not in figure.relations:
        sides = " or ".join(figure.relations)
        raise UsageError(
            f"gate {text.strip()!r}: {name} is not held by {match['relation']}; "
            f"write {sides}, for example {name}{figure.relations[0]}{match['limit'].strip()}"
        )
    slice_ = match["slice"]
    if slice_ is not None and name in OF_THE_SERVER:
        raise UsageError(
            f"gate {text.strip()!r}: {name} is a figure of the whole server, no slice has one of its own; "
            "write it without the slice"
        )
    limit = _limit(text.strip(), figure, match["limit"].strip())
    return GateSpec(slice=slice_, name=name, relation=relation, limit=limit)


def gate_figure(name: str) -> GateFigure | None:
    """The figure of that name; ``None`` when there is none."""
    if _HTTP.fullmatch(name):
        return GateFigure(name=name, kind="count", relations=("=", "<="))
    return GATE_FIGURES.get(name)


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, GATE_FIGURES, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    percents = "/".join(f"p{percent}" for percent in PERCENTS)
    others = [figure.name for figure in GATE_FIGURES.values() if figure.kind not in ("latency", "count")]
    return (
        f"there are {', '.join(others)}, http_NNN, every outcome ({', '.join(o for o in Outcome if o != Outcome.OK)}), "
        f"and {percents} of {', '.join(LATENCIES)} (ttft_p95)"
    )


def _limit(text: str, figure: GateFigure, limit: str) -> float | str:
    if figure.kind == "trend":
        if limit != "flat":
            raise UsageError(f"gate {text!r}: a trend can only be held to flat")
        return limit
    try:
        value = float(limit)
    except ValueError:
        value = math.nan
    unit = {
        "latency": "a number of milliseconds, without a unit",
        "share": "a share from 0 to 1 (0.99 for 99 %)",
        "rate": "a positive number of requests per second",
        "count": "a whole number of requests",
        "level": "a whole number",
        "percent": "a number from 0 to 100",
    }[figure.kind]
    whole = math.isfinite(value) and value >= 0 and value == math.floor(value)
    fits = {
        "latency": value >= 0,
        "share": 0 <= value <= 1,
        "rate": value > 0,
        "count": whole,
        "level": whole,
        "percent": 0 <= value <= 100,
    }[figure.kind]
    if not math.isfinite(value) or not fits:
        raise UsageError(f"gate {text!r}: the limit must be {unit}")
    return value


def format_gate(gate: GateSpec) -> str:
    """The gate as :func:`parse_gate` reads it."""
    limit = gate.limit if isinstance(gate.limit, str) else f"{gate.limit:.15g}"
    return f"{'' if gate.slice is None else gate.slice + ':'}{gate.name}{gate.relation}{limit}"


def parse_gates(texts: Iterable[str]) -> list[GateSpec]:
    """Gates, each text one or several parted by commas or line ends, or the name of a TOML file.

    Raises:
        UsageError: as :func:`parse_gate`; a file that is none; two gates for one figure of one slice.
    """
    found: list[GateSpec] = []
    for text in texts:
        for item in filter(None, (part.strip() for part in re.split(r"[,\n]", text))):
            found += read_gate_file(Path(item)) if item.endswith(".toml") else [parse_gate(item)]
    seen: dict[tuple[str | None, str], GateSpec] = {}
    for gate in found:
        other = seen.setdefault((gate.slice, gate.name), gate)
        if other is not gate and other != gate:
            raise UsageError(f"two gates for one figure: {format_gate(other)} and {format_gate(gate)}; keep one")
    return list(seen.values())


def read_gate_file(path: Path) -> list[GateSpec]:
    """The gates of a TOML file: a list ``gates``, and one per slice under ``[slices.NAME]``.

    ::

        gates = ["ttft_p95<=1000", "attainment>=0.99"]

        [slices.faq]
        gates = ["ttft_p95<=800"]

    Raises:
        UsageError: the file is not there, is no TOML, or holds something else.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"gate file {path}: there is no such file; give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"gate file {path}: {error}") from None
    unknown = sorted(content.keys() - {"gates", "slices"})
    if unknown:
        raise UsageError(f"gate file {path}: unknown {', '.join(unknown)}; it holds gates = [...] and [slices.NAME]")
    found = _of_table(path, content, "gates", None)
    slices = content.get("slices", {})
    if not isinstance(slices, dict) or not all(isinstance(table, dict) for table in slices.values()):
        raise UsageError(f'gate file {path}: write a table per slice: [slices.NAME] and gates = ["ttft_p95<=800"]')
    for name, table in slices.items():
        found += _of_table(path, table, f"slices.{name}.gates", name)
    if not found:
        raise UsageError(f'gate file {path} holds no gate: write gates = ["ttft_p95<=1000"]')
    return found


def _of_table(path: Path, table: Mapping[str, Any], place: str, slice_: str | None) -> list[GateSpec]:
    items = table.get("gates", [])
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise UsageError(f'gate file {path}: {place} must be a list of texts, for example ["ttft_p95<=1000"]')
    found = []
    for item in items:
        try:
            gate = parse_gate(f"{slice_}:{item}" if slice_ is not None else item)
        except UsageError as error:
            raise UsageError(f"gate file {path}, {place}: {error}") from None
        found.append(gate)
    return found


DEFAULT_GATES: tuple[GateSpec, ...] = (
    GateSpec(name="attainment", relation=">=", limit=0.95),
    GateSpec(name="error_rate", relation="<=", limit=0.01),
    GateSpec(name="oom", relation="=", limit=0.0),
    GateSpec(name="in_flight_trend", relation="=", limit="flat"),
    GateSpec(name="waiting_trend", relation="=", limit="flat"),
)
"""What a stage is held to when no gate was chosen; the first only where latency limits were, the last only where the server
told how many requests waited."""

STANDING_GATES: tuple[GateSpec, ...] = DEFAULT_GATES[2:]
"""What belongs to any pass: no memory exhausted, no queue building up. A chosen gate of the same figure takes its place."""
