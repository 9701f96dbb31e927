"""How many requests at once one replica may be given: the least of what memory, compute, tail latency and errors allow.

Arithmetic on figures that somebody measured or read off a data sheet. It sifts what cannot work; a measurement decides.
Sizes are GiB (2^30 bytes) of one GPU, speeds output tokens per second of the replica.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import msgspec

from llm_locust.analysis.words import number
from llm_locust.sizing.kv_cache import GIB, KvEstimate, gib
from llm_locust.sizing.measured_run import MeasuredBound, MeasuredRun

BoundName = Literal["memory", "compute", "tail_latency", "error_rate"]

WORDS: dict[BoundName, str] = {
    "memory": "memory",
    "compute": "compute",
    "tail_latency": "tail latency",
    "error_rate": "error rate",
}

CAPACITY_LEFT_OUT = (
    "prefill: the speeds are those of output tokens alone",
    "requests shorter than the context: each is given room for all of it",
    "fragmentation, prefix sharing, offload",
    "pipeline, data and context parallelism, draft models",
    "how speed changes with concurrency and length",
)
"""What the arithmetic says nothing about."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one GPU."""

    params_b: float
    """Parameters in thousand millions."""
    weight_bits: float
    gpu_memory_gib: float
    reserve_gib: float
    """Neither weights nor KV cache: activations, CUDA graphs, workspace, driver, the share that the engine leaves free."""


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept free above the mean demand; shares, multiplied with each other."""

    peaks: float = 0.25
    """Arrivals above their mean."""
    retries: float = 0.05
    """Requests sent again."""
    length_tail: float = 0.10
    """Replies above their mean length."""

    @property
    def factor(self) -> Fraction:
        """What the mean demand is multiplied with."""
        return math.prod(
            (1 + _exact(share) for share in (self.peaks, self.retries, self.length_tail)), start=Fraction(1)
        )


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the replica on average; ``None`` for what was not said."""

    arrival_rps: float | None = None
    mean_output_tokens: float | None = None
    headroom: Headroom = Headroom()


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """What the replica gives, and what each request has to get of it."""

    measured_output_tokens_s: float | None = None
    per_request_tokens_s: float | None = None


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Requests at once, as far as one limit goes."""

    name: BoundName
    concurrency: int | None
    """``None`` when it is not known; ``text`` then says what is missing."""
    text: str
    """How it was come by, or why it was not."""


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Where the memory of one GPU goes."""

    weights_gib: float
    kv_gib_per_request: float | None
    """``None`` when no formula holds for the model."""
    free_for_kv_gib: float
    """Below 0 when weights and reserve alone do not fit."""


class DemandPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Demand against supply, in output tokens per second."""

    output_tokens_s: float
    """Arrivals x mean output tokens."""
    with_headroom_tokens_s: float
    headroom_factor: float
    supply_tokens_s: float | None
    """``None`` when nothing was measured."""
    supply_at_recommended_tokens_s: float | None
    """Recommended x the speed of each request, at most the supply; ``None`` when one of them is not known."""
    covered: bool | None
    """The supply covers the demand with its headroom."""
    in_flight: float | None
    """Requests at once that the demand with its headroom comes to, at the speed of each: Little's law, output alone."""


class CapacityPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The result. A number of requests at once on one replica, never of anything else."""

    recommended_concurrency: int | None
    """``None`` when no bound is known."""
    binding: list[BoundName]
    """Which bounds are the least."""
    bounds: list[Bound]
    memory: MemoryPlan
    demand: DemandPlan | None
    """``None`` when arrivals or lengths were not said."""
    warnings: list[str]
    missing: list[str]
    """What was not checked, each with the option that would give it."""
    left_out: list[str]
    assumptions: list[str]


def capacity(
    memory: Memory,
    kv: KvEstimate | str,
    speed: Speed,
    demand: Demand,
    run: MeasuredRun | None = None,
    *,
    tensor_parallel: int = 1,
    assumptions: tuple[str, ...] = (),
) -> CapacityPlan:
    """The plan.

    Args:
        memory: Of one GPU, and the weights of the whole model.
        kv: The cache of one request, or why there is no estimate of it.
        speed: Measured output, and what a request needs of it.
        demand: What is asked.
        run: A measured run, for tail latency and errors.
        tensor_parallel: GPUs that share weights and cache evenly.
        assumptions: What was taken as given, in words; it is passed on.
    """
    weights = _exact(memory.params_b) * 10**9 * _exact(memory.weight_bits) / 8 / tensor_parallel / GIB
    free = _exact(memory.gpu_memory_gib) - weights - _exact(memory.reserve_gib)
    per_request = None if isinstance(kv, str) else Fraction(kv.gpu_bytes_per_request, GIB)
    bounds = [
        _memory(memory, weights, free, per_request, kv if isinstance(kv, str) else ""),
        _compute(speed),
        _measured("tail_latency", run, None if run is None else run.tail_latency),
        _measured("error_rate", run, None if run is None else run.error_rate),
    ]
    known = [bound for bound in bounds if bound.concurrency is not None]
    least = min((bound.concurrency for bound in known if bound.concurrency is not None), default=None)
    asked = _demand(demand, speed, least)
    return CapacityPlan(
        recommended_concurrency=least,
        binding=[bound.name for bound in known if bound.concurrency == least],
        bounds=bounds,
        memory=MemoryPlan(
            weights_gib=float(weights),
            kv_gib_per_request=None if per_request is None else float(per_request),
            free_for_kv_gib=float(free),
        ),
        demand=asked,
        warnings=[*_no_room(bounds, memory, free), *_too_little(asked, demand, run, least)],
        missing=[*(f"{WORDS[b.name]}: {b.text}" for b in bounds if b.concurrency is None), *_unsaid(demand, asked)],
        left_out=list(CAPACITY_LEFT_OUT),
        assumptions=[*assumptions, *_headroom(demand)],
    )


def _exact(value: float) -> Fraction:
    """The digits as they were written: 0.1 is a tenth."""
    return Fraction(repr(value))


def _memory(memory: Memory, weights: Fraction, free: Fraction, per_request: Fraction | None, why: str) -> Bound:
    if per_request is None:
        return Bound(name="memory", concurrency=None, text=f"no estimate of the KV cache: {why}")
    sum_ = f"({number(memory.gpu_memory_gib)} - {gib(weights)} weights - {number(memory.reserve_gib)} reserve)"
    return Bound(
        name="memory",
        concurrency=max(0, math.floor(free / per_request)),
        text=f"{sum_} / {gib(per_request)} GiB a request, rounded down",
    )


def _compute(speed: Speed) -> Bound:
    missing = []
    if speed.measured_output_tokens_s is None:
        missing.append("--measured-output-tokens-s (or a --run with a stage that passed)")
    if speed.per_request_tokens_s is None:
        missing.append("--per-request-tokens-s")
    if speed.measured_output_tokens_s is None or speed.per_request_tokens_s is None:
        return Bound(name="compute", concurrency=None, text=f"give {' and '.join(missing)}")
    total, each = speed.measured_output_tokens_s, speed.per_request_tokens_s
    return Bound(
        name="compute",
        concurrency=math.floor(_exact(total) / _exact(each)),
        text=f"{number(total)} output tokens a second / {number(each)} each, rounded down",
    )


def _measured(name: BoundName, run: MeasuredRun | None, found: MeasuredBound | None) -> Bound:
    if run is None or found is None:
        return Bound(name=name, concurrency=None, text="give --run with a judged run folder")
    if found.concurrency is None:
        return Bound(name=name, concurrency=None, text=f"{found.reason} (--run)")
    if found.held is None:
        return Bound(name=name, concurrency=0, text=f"{found.broken} did not hold it, and nothing below was tested")
    peak = "" if found.rate_rps is None else f": {found.concurrency} in flight at its peak"
    beyond = f"{found.broken} did not" if found.broken else "nothing above was tested"
    return Bound(name=name, concurrency=found.concurrency, text=f"{found.held} held it{peak}; {beyond}")


def _demand(demand: Demand, speed: Speed, recommended: int | None) -> DemandPlan | None:
    if demand.arrival_rps is None or demand.mean_output_tokens is None:
        return None
    mean = _exact(demand.arrival_rps) * _exact(demand.mean_output_tokens)
    with_headroom = mean * demand.headroom.factor
    supply = None if speed.measured_output_tokens_s is None else _exact(speed.measured_output_tokens_s)
    each = None if speed.per_request_tokens_s is None else _exact(speed.per_request_tokens_s)
    given = None
    if supply is not None and each is not None and recommended is not None:
        given = min(supply, recommended * each)
    return DemandPlan(
        output_tokens_s=float(mean),
        with_headroom_tokens_s=float(with_headroom),
        headroom_factor=float(demand.headroom.factor),
        supply_tokens_s=None if supply is None else float(supply),
        supply_at_recommended_tokens_s=None if given is None else float(given),
        covered=None if supply is None else with_headroom <= supply,
        in_flight=None if each is None else float(with_headroom / each),
    )


def _no_room(bounds: list[Bound], memory: Memory, free: Fraction) -> list[str]:
    found = []
    if free <= 0:
        found.append(
            f"weights and reserve alone take {gib(_exact(memory.gpu_memory_gib) - free)} of "
            f"{number(memory.gpu_memory_gib)} GiB: the model does not fit on this GPU"
        )
    found += [
        f"{WORDS[bound.name]} allows not even one request: {bound.text}"
        for bound in bounds
        if bound.concurrency == 0 and not (bound.name == "memory" and free <= 0)
    ]
    return found


def _too_little(asked: DemandPlan | None, demand: Demand, run: MeasuredRun | None, least: int | None) -> list[str]:
    found = []
    if asked is not None:
        need = f"the demand with headroom, {number(asked.with_headroom_tokens_s)} output tokens a second,"
        if asked.covered is False:
            short = f"is more than the supply of {number(asked.supply_tokens_s)}"
            mean = asked.supply_tokens_s is not None and asked.output_tokens_s > asked.supply_tokens_s
            found.append(f"{need} {short}" + ("; so is its mean: a queue would grow without end" if mean else ""))
        given = asked.supply_at_recommended_tokens_s
        if asked.covered and given is not None and given < asked.with_headroom_tokens_s:
            found.append(f"{need} is more than {least} requests at once give: {number(given)} at the speed of each")
    if demand.arrival_rps is not None and run is not None:
        peak = _exact(demand.arrival_rps) * (1 + _exact(demand.headroom.peaks)) * (1 + _exact(demand.headroom.retries))
        for name, bound in (("tail latency", run.tail_latency), ("error rate", run.error_rate)):
            if bound.rate_rps is not None and peak > _exact(bound.rate_rps):
                found.append(
                    f"arrivals with peaks and retries, {number(float(peak))} a second, are more than the "
                    f"{number(bound.rate_rps)} up to which {name} held"
                )
    return found


def _unsaid(demand: Demand, asked: DemandPlan | None) -> list[str]:
    if asked is None:
        given = {"--arrival-rps": demand.arrival_rps, "--mean-output-tokens": demand.mean_output_tokens}
        return [f"demand: give {' and '.join(option for option, value in given.items() if value is None)}"]
    return [] if asked.supply_tokens_s is not None else ["supply: give --measured-output-tokens-s, or --run"]


def _headroom(demand: Demand) -> list[str]:
    if demand.arrival_rps is None or demand.mean_output_tokens is None:
        return []
    of = demand.headroom
    shares = (("peaks", of.peaks), ("retries", of.retries), ("the length tail", of.length_tail))
    return ["headroom: " + ", ".join(f"{number(share * 100)} % for {name}" for name, share in shares)]
