"""The plan of an open stage: a pure function of its specification, the same for any number of workers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from llm_locust.arrivals.naming import parse_process
from llm_locust.arrivals.processes import PROCESSES, Offsets, Process
from llm_locust.arrivals.traces import Replay
from llm_locust.records import NS_PER_S, StageSpec
from llm_locust.records.run import UserChoice
from llm_locust.records.stage import TRACE

PHASES = ("warmup", "measure", "cooldown")
_WARMUP, _MEASURE, _COOLDOWN = range(3)

_TIMES, _USERS, _BEFORE, _AFTER, _ROWS, _COLD, REPLAY_STREAM = range(7)
"""Random streams of a stage, one per question, so that a new question never shifts the answers to the old ones."""

_COPIES_OF_A_STAGE = 100_000_000
"""Every stage takes the trace's rows in copies of its own: made-up prompts are fresh for every stage and round."""
_OTHER_COPIES = 1001
"""Arrivals around a replay take rows of the trace in copies that no replay has: their prompts are not the measured ones."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StagePlan:
    """Every arrival of a stage, as parallel arrays of length n, sorted by time."""

    spec: StageSpec
    offset_ns: Offsets
    """From the start of the warm-up."""
    phase: npt.NDArray[np.int8]
    """0 warm-up, 1 measure, 2 cool-down (:data:`PHASES`)."""
    user: npt.NDArray[np.int16]
    """Which user class an arrival takes: an index into the run's list of users."""
    prompt: Ints
    """Which prompt of the workload an arrival takes."""
    window_ns: int
    """Length of the window; the stage's last measured arrival may stand at its very end where it is measured by count."""
    affinity: Ints | None = None
    """Arrivals of equal numbers (a conversation's) go to the same worker, whichever it is; -1 where it does not matter."""
    cold: npt.NDArray[np.bool_] | None = None
    """Arrivals that are to find the model unloaded."""

    def __len__(self) -> int:
        return len(self.offset_ns)

    def share(self, rank: int, of: int) -> Ints:
        """The places in the plan that the worker of this rank takes: every ``of``-th, and whole conversations."""
        places = np.arange(len(self), dtype=np.int64)
        if self.affinity is None:
            return places[rank::of]
        taker = np.where(self.affinity < 0, places, self.affinity) % of
        mine: Ints = places[taker == rank]
        return mine

    @property
    def sha256(self) -> str:
        """The digest that every worker's own computation must agree on."""
        digest = hashlib.sha256(msgspec.json.encode(self.spec, order="deterministic"))
        arrays: list[tuple[npt.NDArray[np.generic] | None, str]] = [
            (self.offset_ns, "<i8"), (self.phase, "<i1"), (self.user, "<i2"), (self.prompt, "<i8"),
            (self.affinity, "<i8"), (self.cold, "<i1"),
        ]  # fmt: skip
        for array, kind in arrays:
            if array is not None:
                digest.update(np.ascontiguousarray(array).astype(kind).tobytes())
        return digest.hexdigest()


def stream(spec: StageSpec, question: int) -> np.random.Generator:
    """The random stream for one question about a stage; every round has its own."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([spec.seed, spec.stage, spec.round, question])))


def plan_stage(spec: StageSpec, users: Sequence[UserChoice], replay: Replay | None = None) -> StagePlan:
    """The plan of an open stage.

    Args:
        spec: The stage.
        users: The run's user classes with their weights.
        replay: What a stage with a trace plays again, made with :func:`stream` (spec, ``REPLAY_STREAM``).

    Raises:
        UsageError: an unknown arrival process.
        ValueError: the stage is not open, or lacks what its kind needs.
    """
    if spec.mode != "open" or spec.rate_rps is None:
        raise ValueError(f"stage {spec.stage} is not an open stage with a rate")
    if (spec.arrivals == TRACE) != (replay is not None):
        raise ValueError(f"stage {spec.stage}: a trace needs its replay, and nothing else has one")
    warmup_ns = round(spec.warmup_s * NS_PER_S)
    if replay is not None:
        window, window_ns = replay.offset_ns, round(replay.seconds * NS_PER_S)
        offsets, counts = _around(spec, window, window_ns, spec.rate_rps, spec.rate_rps)
    elif spec.requests is not None:
        offsets, counts, window_ns = _counted(spec, parse_process(spec.arrivals), spec.requests)
    elif spec.window_s is None:
        raise ValueError(f"stage {spec.stage} has neither a window nor a number of requests")
    else:
        process, window_ns = parse_process(spec.arrivals), round(spec.window_s * NS_PER_S)
        if process.needs_duration:
            window = process(spec.rate_rps, spec.window_s, stream(spec, _TIMES))
            offsets, counts = _around(spec, window, window_ns, *process.edge_rates(spec.rate_rps, spec.window_s))
        else:
            duration_s = spec.warmup_s + spec.window_s + spec.cooldown_s
            offsets = process(spec.rate_rps, duration_s, stream(spec, _TIMES))
            edges = np.searchsorted(offsets, [warmup_ns, warmup_ns + window_ns], side="left")
            counts = (int(edges[0]), int(edges[1] - edges[0]), int(len(offsets) - edges[1]))
    phase = np.repeat(np.array([_WARMUP, _MEASURE, _COOLDOWN], dtype=np.int8), counts)
    return StagePlan(
        spec=spec,
        offset_ns=offsets,
        phase=phase,
        user=_users(spec, users, len(offsets)),
        prompt=_prompts(spec, replay, counts),
        window_ns=window_ns,
        affinity=_affinity(replay, counts),
        cold=_cold(spec, len(offsets)),
    )


def _around(
    spec: StageSpec, window: Offsets, window_ns: int, before_rps: float, after_rps: float
) -> tuple[Offsets, tuple[int, int, int]]:
    """The window's arrivals between a Poisson warm-up and a Poisson cool-down: a shape belongs to what is measured."""
    warmup_ns = round(spec.warmup_s * NS_PER_S)
    before = _poisson(before_rps, spec.warmup_s, stream(spec, _BEFORE))
    after = _poisson(after_rps, spec.cooldown_s, stream(spec, _AFTER)) + warmup_ns + window_ns
    offsets = np.concatenate((before, window + warmup_ns, after))
    return offsets, (len(before), len(window), len(after))


def _poisson(rate_rps: float, duration_s: float, random: np.random.Generator) -> Offsets:
    if rate_rps <= 0 or duration_s <= 0:
        return np.zeros(0, dtype=np.int64)
    return PROCESSES["poisson"](rate_rps, duration_s, random)


def _counted(spec: StageSpec, process: Process, requests: int) -> tuple[Offsets, tuple[int, int, int], int]:
    """The window ends with the Nth arrival in it. A longer draw of a stationary process only adds later arrivals."""
    assert spec.rate_rps is not None
    if process.needs_duration:
        raise ValueError(f"{process.name} is laid over a window of set length, and has no Nth arrival to end it with")
    warmup_ns = round(spec.warmup_s * NS_PER_S)
    window_s = (requests + 6 * math.sqrt(requests) + 1) / spec.rate_rps
    while True:
        offsets = process(spec.rate_rps, spec.warmup_s + window_s + spec.cooldown_s, stream(spec, _TIMES))
        first = int(np.searchsorted(offsets, warmup_ns, side="left"))
        last = first + requests - 1
        if last < len(offsets):
            end_ns = int(offsets[last]) + round(spec.cooldown_s * NS_PER_S)
            if end_ns <= round((spec.warmup_s + window_s + spec.cooldown_s) * NS_PER_S):
                break
        window_s *= 2
    offsets = offsets[: max(last + 1, int(np.searchsorted(offsets, end_ns, side="left")))]
    return offsets, (first, requests, len(offsets) - last - 1), int(offsets[last]) - warmup_ns


def _users(spec: StageSpec, users: Sequence[UserChoice], count: int) -> npt.NDArray[np.int16]:
    if len(users) <= 1:
        return np.zeros(count, dtype=np.int16)
    weights = np.array([choice.weight for choice in users], dtype=np.float64)
    return stream(spec, _USERS).choice(len(users), size=count, p=weights / weights.sum()).astype(np.int16)


def _prompts(spec: StageSpec, replay: Replay | None, counts: tuple[int, int, int]) -> Ints:
    """Every arrival has a prompt of its own; the measured ones may be those of another stage, or a trace's rows."""
    before, measured, after = counts
    prompts = np.arange(spec.first_index, spec.first_index + sum(counts), dtype=np.int64)
    if replay is not None:
        rows = replay.trace.used
        around = np.concatenate((np.arange(before), np.arange(before, before + after))).astype(np.int64)
        of_stage = spec.stage * _COPIES_OF_A_STAGE
        others = stream(spec, _ROWS).integers(0, rows, before + after) + (of_stage + _OTHER_COPIES + around) * rows
        prompts[:before], prompts[before + measured :] = others[:before], others[before:]
        prompts[before : before + measured] = replay.row + (of_stage + replay.copy.astype(np.int64)) * rows
    elif spec.prompts_from is not None:
        prompts[before : before + measured] = np.arange(measured) + spec.prompts_from
    return prompts


def _affinity(replay: Replay | None, counts: tuple[int, int, int]) -> Ints | None:
    """A number for each conversation of a replay, the same in every process."""
    if replay is None or not len(replay.trace.session_names):
        return None
    session = replay.trace.session[replay.row].astype(np.int64)
    own = np.where(session < 0, -1, session + replay.copy.astype(np.int64) * len(replay.trace.session_names))
    before, _, after = counts
    return np.concatenate((np.full(before, -1, np.int64), own, np.full(after, -1, np.int64)))


def _cold(spec: StageSpec, count: int) -> npt.NDArray[np.bool_] | None:
    if spec.cold_share is None:
        return None
    return stream(spec, _COLD).random(count) < spec.cold_share
