"""The plan of an open stage: a pure function of its specification, the same for any number of workers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from llm_locust.arrivals.processes import PROCESSES, Offsets
from llm_locust.records import NS_PER_S, StageSpec
from llm_locust.records.run import UserChoice

PHASES = ("warmup", "measure", "cooldown")

_TIMES, _USERS = range(2)
"""Random streams of a stage, one per question, so that a new question never shifts the answers to the old ones."""


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

    def __len__(self) -> int:
        return len(self.offset_ns)

    @property
    def sha256(self) -> str:
        """The digest that every worker's own computation must agree on."""
        digest = hashlib.sha256(msgspec.json.encode(self.spec, order="deterministic"))
        for array, kind in ((self.offset_ns, "<i8"), (self.phase, "<i1"), (self.user, "<i2")):
            digest.update(np.ascontiguousarray(array).astype(kind).tobytes())
        return digest.hexdigest()


def _stream(spec: StageSpec, question: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([spec.seed, spec.stage, spec.round, question])))


def plan_stage(spec: StageSpec, users: Sequence[UserChoice]) -> StagePlan:
    """The plan of an open stage.

    Raises:
        ValueError: the stage is not open, or names an unknown process.
    """
    if spec.mode != "open" or spec.rate_rps is None or spec.window_s is None:
        raise ValueError(f"stage {spec.stage} is not an open stage with a rate and a window")
    if spec.arrivals not in PROCESSES:
        raise ValueError(f"unknown arrival process {spec.arrivals!r}: one of {', '.join(PROCESSES)}")
    duration_s = spec.warmup_s + spec.window_s + spec.cooldown_s
    offsets = PROCESSES[spec.arrivals](spec.rate_rps, duration_s, _stream(spec, _TIMES))
    window_start = round(spec.warmup_s * NS_PER_S)
    window_end = window_start + round(spec.window_s * NS_PER_S)
    phase = np.searchsorted(np.array([window_start, window_end]), offsets, side="right").astype(np.int8)
    if len(users) > 1:
        weights = np.array([choice.weight for choice in users], dtype=np.float64)
        user = _stream(spec, _USERS).choice(len(users), size=len(offsets), p=weights / weights.sum()).astype(np.int16)
    else:
        user = np.zeros(len(offsets), dtype=np.int16)
    return StagePlan(spec=spec, offset_ns=offsets, phase=phase, user=user)
