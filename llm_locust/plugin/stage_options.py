"""The options that shapes read, and the stages that they make of them."""

from __future__ import annotations

import math
import random
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llm_locust.arrivals import parse_process, process_name
from llm_locust.arrivals.stage_replay import load_trace
from llm_locust.arrivals.traces import FORMATS, replay
from llm_locust.arrivals.traces.replay import LEAST_SCALE, MOST_RATE, MOST_SCALE
from llm_locust.plugin.option_table import DEFAULTS
from llm_locust.plugin.option_values import (
    concurrencies,
    flag_of,
    flag_set,
    given,
    number,
    rates,
    required,
    seconds,
    whole,
)
from llm_locust.records import StageSpec, UsageError
from llm_locust.records.stage import TRACE, TraceReplay

MOST_ARRIVALS = 20_000_000
"""Of one stage: a plan is held in memory by every worker."""
MOST_ROUNDS = 1000
REUSED = 2_000_000_000
"""The first of the prompts that all stages share with ``--reuse-prompts``, out of the way of all others."""

PointT = TypeVar("PointT")


class StageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What shapes are asked for, with every default worked out."""

    rates_rps: list[float]
    stage_time_s: float
    requests: int | None
    """Measured requests of a stage, instead of its time."""
    rounds: int
    shuffled: bool
    warmup_s: float
    warmup_given: bool
    cooldown_s: float
    arrivals: str
    """The canonical name of the process."""
    seed: int
    concurrencies: list[int]
    repeats: int | None
    """Measured requests for each of the requests in flight of a closed stage, instead of its time."""
    resolution: float
    most_stages: int
    burst: str
    """The canonical name of the process that a passing rate is tried with once more."""
    trace: TraceReplay | None
    idle_s: float
    unload: bool
    cold_share: float | None
    reuse_prompts: bool
    """Every stage and round measures with the same prompts."""

    def in_rounds(self, points: Sequence[PointT]) -> list[tuple[int, PointT]]:
        """Every point in every round, the whole series after one another: a drift of the server then falls on all alike.

        Shuffled, every round has an order of its own, which the seed decides.
        """
        order = random.Random(f"{self.seed}/order")
        found: list[tuple[int, PointT]] = []
        for number_ in range(self.rounds):
            series = list(points)
            if self.shuffled:
                order.shuffle(series)
            found += [(number_, point) for point in series]
        return found

    def open_stage(
        self,
        rate_rps: float,
        *,
        round: int = 0,
        arrivals: str | None = None,
        prompts_from: int | None = None,
        cold_share: float | None = None,
    ) -> StageSpec:
        """A stage of open arrivals at this rate; its place in the run is set when it is run.

        Args:
            rate_rps: The rate, as the process takes it.
            round: Which repetition it is.
            arrivals: The process; ``None`` for that of ``--arrivals``.
            prompts_from: The first of the prompts that the measured requests take; ``None``: prompts of their own.
            cold_share: The share of arrivals that are to find the model unloaded.

        Raises:
            UsageError: the rate is none, would plan more arrivals than a machine can hold, or the process needs a time.
        """
        if not (math.isfinite(rate_rps) and rate_rps > 0):
            raise UsageError(f"a rate must be greater than 0, not {rate_rps:g}")
        process = parse_process(arrivals or self.arrivals)
        if self.requests is not None and process.needs_duration:
            raise UsageError(
                f"--requests {self.requests}: {process.kind.name} arrivals are laid over a window of set length: "
                "give --stage-time instead"
            )
        window_s = self.stage_time_s if self.requests is None else self.requests / rate_rps
        around_s = self.warmup_s + self.cooldown_s
        expected = (
            process.mean_rate(rate_rps, window_s) * window_s + max(process.edge_rates(rate_rps, window_s)) * around_s
        )
        if expected > MOST_ARRIVALS:
            raise UsageError(
                f"{rate_rps:g} req/s plans {expected:,.0f} arrivals in one stage, more than {MOST_ARRIVALS:,}: "
                "shorten the stage, or lower the rate"
            )
        return StageSpec(
            stage=0,
            round=round,
            rate_rps=rate_rps,
            arrivals=process.name,
            warmup_s=self.warmup_s,
            window_s=self.stage_time_s if self.requests is None else None,
            requests=self.requests,
            cooldown_s=self.cooldown_s,
            seed=self.seed,
            first_index=0,
            prompts_from=REUSED if prompts_from is None and self.reuse_prompts else prompts_from,
            cold_share=cold_share,
        )

    def closed_stage(
        self,
        concurrency: int,
        *,
        round: int = 0,
        requests: int | None = None,
        warmup_s: float | None = None,
    ) -> StageSpec:
        """A stage of so many requests in flight, each followed by the next.

        Args:
            concurrency: Requests in flight.
            round: Which repetition it is.
            requests: Measured requests after which it ends; ``None`` for ``--repeats`` of them for each in flight, or
                else ``--stage-time``.
            warmup_s: Load before the window; ``None`` for that of the options.

        Raises:
            UsageError: its length was given as if it were an open stage's.
        """
        if requests is None and self.repeats is None and self.requests is not None:
            raise UsageError(
                f"--requests {self.requests} is of open stages: a closed one takes --repeats N, so many for each request in "
                "flight, or --stage-time"
            )
        if requests is None and self.repeats is not None:
            requests = self.repeats * concurrency
        return StageSpec(
            stage=0,
            round=round,
            mode="closed",
            concurrency=concurrency,
            warmup_s=self.warmup_s if warmup_s is None else warmup_s,
            window_s=self.stage_time_s if requests is None else None,
            requests=requests,
            cooldown_s=0.0,
            seed=self.seed,
            first_index=0,
            prompts_from=REUSED if self.reuse_prompts else None,
        )

    def trace_stage(self, *, round: int = 0) -> StageSpec:
        """A stage that plays the trace of ``--trace`` again.

        Raises:
            UsageError: there is none, its slice is empty, or it is more than a machine can hold.
        """
        asked = self.trace
        if asked is None:
            raise UsageError("--trace is missing: the file of arrivals to play again, e.g. --trace requests.jsonl")
        if self.requests is not None:
            raise UsageError(
                f"--requests {self.requests}: a replay is as long as its trace; take a slice (--trace-from, --trace-to)"
            )
        trace = load_trace(asked.path, asked.format)
        whole_ = replay(
            trace,
            time_scale=asked.time_scale,
            start_s=asked.start_s,
            end_s=asked.end_s,
            random=random_stream(self.seed),
        )
        rate_rps = whole_.rate_rps * asked.rate_scale
        expected = rate_rps * (self.warmup_s + whole_.seconds + self.cooldown_s)
        if expected > MOST_ARRIVALS:
            raise UsageError(
                f"--trace {asked.path}: {expected:,.0f} arrivals in one stage, more than {MOST_ARRIVALS:,}: "
                "take a slice (--trace-from, --trace-to) or thin it (--rate-scale)"
            )
        return StageSpec(
            stage=0,
            round=round,
            rate_rps=rate_rps,
            arrivals=TRACE,
            replay=asked,
            warmup_s=self.warmup_s,
            window_s=whole_.seconds,
            cooldown_s=self.cooldown_s,
            seed=self.seed,
            first_index=0,
        )


def random_stream(seed: int) -> Any:
    """A random stream that decides nothing here: neither thinning nor jitter is asked for."""
    import numpy as np

    return np.random.default_rng(seed)


def read_stage_options(namespace: Namespace, slo: Mapping[str, float]) -> dict[str, Any]:
    """The fields of :class:`StageOptions`.

    Raises:
        UsageError: a value that cannot be used; what is allowed is said.
    """
    e2e_s = slo["e2e"] / 1000 if "e2e" in slo else None
    warmup = seconds(namespace, "warmup_time", allow_zero=True)
    cooldown = seconds(namespace, "cooldown", allow_zero=True)
    stage_time = required(seconds(namespace, "stage_time"))
    requests = whole(namespace, "requests", at_least=1)
    repeats = whole(namespace, "repeats", at_least=1)
    by_time = requests is None and repeats is None and given(namespace, "trace") is None
    if by_time and warmup is not None and warmup > stage_time:
        raise UsageError(
            f"--warmup-time {warmup:g} s is longer than the measured window, --stage-time {stage_time:g} s: "
            "measure longer, or warm up less"
        )
    for flag, count in (("--requests", requests), ("--repeats", repeats)):
        if count is not None and given(namespace, "stage_time") not in (None, DEFAULTS["stage_time"]):
            raise UsageError(f"{flag} and --stage-time both end a stage: give one of them")
    rounds = required(whole(namespace, "rounds", at_least=1))
    if rounds > MOST_ROUNDS:
        raise UsageError(f"--rounds {rounds}: at most {MOST_ROUNDS}")
    cold_share = number(namespace, "cold_share", "a share")
    if cold_share is not None and cold_share > 1:
        raise UsageError(f"--cold-share {cold_share:g}: a share is at most 1")
    return {
        "rates_rps": rates(given(namespace, "rates")),
        "stage_time_s": stage_time,
        "requests": requests,
        "rounds": rounds,
        "shuffled": flag_set(namespace, "shuffle"),
        "warmup_s": warmup if warmup is not None else max(2 * (e2e_s or 0), 10.0),
        "warmup_given": warmup is not None,
        "cooldown_s": cooldown if cooldown is not None else (e2e_s or 30.0),
        "arrivals": process_name(given(namespace, "arrivals") or "poisson"),
        "seed": required(whole(namespace, "seed", at_least=0)),
        "concurrencies": concurrencies(given(namespace, "concurrency")),
        "repeats": repeats,
        "resolution": required(number(namespace, "resolution", "a share, e.g. 0.1")),
        "most_stages": required(whole(namespace, "max_stages", at_least=1)),
        "burst": _burst(given(namespace, "burst") or "gamma:cv=3"),
        "trace": _trace(namespace),
        "idle_s": required(seconds(namespace, "idle", allow_zero=True)),
        "unload": flag_set(namespace, "unload"),
        "cold_share": cold_share,
        "reuse_prompts": flag_set(namespace, "reuse_prompts"),
    }


def _burst(text: str) -> str:
    try:
        return process_name(text)
    except UsageError as error:
        raise UsageError(str(error).replace("--arrivals", "--burst", 1)) from None


def _scale(namespace: Namespace, name: str, most: float) -> float:
    value: float = required(number(namespace, name, "a factor"))
    if not LEAST_SCALE <= value <= most:
        raise UsageError(f"{flag_of(name)} {value:g}: from {LEAST_SCALE:g} to {most:g}")
    return value


def _trace(namespace: Namespace) -> TraceReplay | None:
    path = given(namespace, "trace")
    if path is None:
        return None
    format_name = given(namespace, "trace_format")
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(f"--trace-format {format_name!r}: one of {', '.join(FORMATS)}")
    resolved = str(Path(path).resolve())
    trace = load_trace(resolved, format_name)
    return TraceReplay(
        path=resolved,
        format=trace.format,
        sha256=trace.sha256,
        time_scale=_scale(namespace, "time_scale", MOST_SCALE),
        rate_scale=_scale(namespace, "rate_scale", MOST_RATE),
        start_s=seconds(namespace, "trace_from", allow_zero=True),
        end_s=seconds(namespace, "trace_to"),
        jitter=flag_set(namespace, "trace_jitter"),
    )
