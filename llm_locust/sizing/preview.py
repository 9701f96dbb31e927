"""The dry run: what a run will send, how long it takes, what its figures can show at best and what it costs. Sends nothing.

Arrivals come from the plan that the run itself would follow, numbered as the run numbers them. What the figures can show
is asked of the functions that judge a real run, with a batch in which nothing went wrong: no definition stands twice.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Literal

import msgspec
import numpy as np

from llm_locust.analysis.gates import Evidence, default_gates, judge_stage
from llm_locust.analysis.quantiles import bound_ranks, percentile, share, wilson
from llm_locust.analysis.trend import SPANS, trend
from llm_locust.analysis.words import number
from llm_locust.arrivals import PHASES, StagePlan, plan_stage
from llm_locust.records import NS_PER_S, Prices, StageSpec, WorkloadFacts
from llm_locust.records.run import UserChoice
from llm_locust.records.stage import ArrivalMode
from llm_locust.records.summary import GeneratorHealth, LimitCount, Result, StageVerdict, Strength
from llm_locust.workload import PromptsFile, Workload

PERCENTS = (95, 99)
"""The percentiles whose evidence is foretold."""

CHARACTERS_PER_TOKEN = 4
"""The rule of thumb for English text; the server's tokenizer and chat template decide."""

MOST_NEEDED = 1_000_000
"""Where the search for enough requests gives up."""

MOST_DRAWN = 20_000_000
"""Expected arrivals of a stage up to which its plan is drawn (about a second and 600 MB); beyond, the mean must do."""

MOST_SUMMED = 50_000
"""Prompts of a run up to which every one is made to count its tokens (about half a second)."""

SAMPLED = 1_000
"""Prompts made for a stage of a larger run; its tokens are then an extrapolation."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of prompts that would be sent, cool-down in full."""

    output_at_most: int
    """The sum of ``max_tokens`` over the prompts."""
    input_estimated: int
    """Characters of the prompts' texts / 4, rounded up: an estimate, without chat template."""
    exact: bool
    """False when both are extrapolated from a random sample of the prompts."""


class PercentileAhead(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of a window can say about one percentile, if all of them are ok."""

    percent: int
    at_maximum: bool | None
    """Too few requests to tell it from the maximum; ``None`` when their number is not known."""
    signed: bool | None
    """Enough requests for a 95 % upper bound; ``None`` when their number is not known."""
    requests_needed: int
    """Requests from which there is an upper bound."""
    window_needed_s: int | None
    """The shortest window, in whole seconds, that holds as many at this rate; ``None`` for a closed loop."""


class StagePreview(msgspec.Struct, frozen=True, kw_only=True):
    """One stage as it would be run. Counts are requests, times seconds; ``None`` is not known before it has run."""

    number: int
    """From 1, as progress and tables count."""
    label: str
    mode: ArrivalMode
    round: int
    rate_rps: float | None
    seed: int
    warmup_s: float
    window_s: float | None
    cooldown_at_most_s: float
    drain_at_most_s: float
    at_least_s: float
    """Warm-up and window: the cool-down may end at once, and the drain too."""
    at_most_s: float | None
    """... and the whole cool-down, and a last request that meets its deadline; ``None``: until it is stopped."""
    window_expected: float | None = None
    """Mean rate times window."""
    window_planned: int | None = None
    """In the plan of this seed, exactly; ``None`` too when the plan is too large to draw it."""
    all_expected: float | None = None
    """The same with warm-up and the whole cool-down."""
    all_planned: int | None = None
    samples: int | None = None
    """Requests behind each percentile and share at most: planned in the window, or expected where none is drawn."""
    percentiles: list[PercentileAhead] = []
    best_result: Result | None = None
    """The verdict if nothing goes wrong: no request fails or misses a limit, in-flight stays flat."""
    best_strength: Strength | None = None
    best_sentence: str | None = None
    sign_window_needed_s: int | None = None
    """The shortest window, in whole seconds, that holds enough requests at this rate for a signed pass."""
    idle_workers: int = 0
    """Workers that get no arrival."""
    tokens: Tokens | None = None


class GateAhead(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that the run will be judged by."""

    name: str
    relation: Literal[">=", "<=", "="]
    limit: float | str
    default: bool
    requests_to_sign: int
    """Requests from which a flawless batch clears it with its confidence interval."""


class RunCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the run costs, in the currency of the prices; ``None`` for what has no price or no known size."""

    machine_at_least: float | None = None
    machine_at_most: float | None = None
    input_estimated: float | None = None
    output_at_most: float | None = None


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something that will surely disappoint."""

    about: Literal["window", "warmup", "cooldown", "deadline", "rates", "requests", "workload", "limits"]
    text: str
    stages: list[int] = []
    """The numbers of the stages it is about; empty for the whole run."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was not run."""

    stages: list[StagePreview]
    at_least_s: float
    at_most_s: float | None
    """``None``: until it is stopped."""
    expected: float | None
    """Arrivals of the whole run; ``None`` when a closed loop sends as many as the server takes."""
    planned: int | None
    tokens: Tokens | None
    prices: Prices
    cost: RunCost
    slo: dict[str, float]
    """Per-request limits in milliseconds."""
    gates: list[GateAhead]
    requests_to_sign: int
    """Requests in a window from which a pass can be signed."""
    deadline_s: float
    workers: int | None
    workload: WorkloadFacts
    warnings: list[Warned]


def preview(
    stages: Sequence[StageSpec],
    users: Sequence[UserChoice],
    workload: Workload,
    *,
    slo: dict[str, float],
    deadline_s: float,
    workers: int | None = None,
    max_in_flight: int | None = None,
    prices: Prices | None = None,
) -> Preview:
    """What running these stages would be.

    Args:
        stages: In the order they are run. They are numbered as the run numbers them.
        users: The user classes and their weights.
        workload: Where the prompts come from.
        slo: Per-request limits in milliseconds.
        deadline_s: The whole-request deadline.
        workers: How many processes send; ``None`` when that is not known yet.
        max_in_flight: The cap, if there is one: a request may then wait for one deadline before it has another.
        prices: What is paid for.

    Raises:
        ValueError: a stage that cannot be planned: an unknown arrival process, or an open stage without rate or window.
    """
    prices = prices or Prices()
    drain_s = deadline_s if max_in_flight is None else 2 * deadline_s
    ahead: list[StagePreview] = []
    sent: list[range] = []
    next_index = 0
    for place, template in enumerate(stages):
        spec = msgspec.structs.replace(template, stage=place)  # the plan's random stream depends on it
        stage, count = _stage(spec, users, bool(slo), drain_s, workers)
        ahead.append(stage)
        sent.append(range(next_index, next_index + count))
        next_index += count
    # A closed loop sends as many as it can: neither it nor the indices of stages after it are known.
    closed = [stage.mode == "closed" for stage in ahead]
    of_stages = _token_sums(workload, sent)
    for place, (stage, tokens) in enumerate(zip(ahead, of_stages, strict=True)):
        if not closed[place]:
            known = tokens.exact and stage.all_planned is not None and not any(closed[:place])
            ahead[place] = msgspec.structs.replace(stage, tokens=msgspec.structs.replace(tokens, exact=known))
    at_least_s = math.fsum(stage.at_least_s for stage in ahead)
    at_most_s = _sum(stage.at_most_s for stage in ahead)
    tokens_of_run = _all_tokens([stage.tokens for stage in ahead])
    planned = _sum(stage.all_planned for stage in ahead)
    return Preview(
        stages=ahead,
        at_least_s=at_least_s,
        at_most_s=at_most_s,
        expected=_sum(stage.all_expected for stage in ahead),
        planned=None if planned is None else int(planned),
        tokens=tokens_of_run,
        prices=prices,
        cost=_cost(prices, at_least_s, at_most_s, tokens_of_run),
        slo=slo,
        gates=_gates(bool(slo), "closed" if all(closed) else "open"),
        requests_to_sign=requests_to_sign(bool(slo), "closed" if all(closed) else "open"),
        deadline_s=deadline_s,
        workers=workers,
        workload=workload.facts,
        warnings=_warnings(ahead, slo, deadline_s, workload.facts),
    )


# --- what a number of requests can show ----------------------------------------------------------------------------


def _fewest(enough: Callable[[int], bool]) -> int:
    """The smallest number from which ``enough`` holds; more must never be worse.

    Raises:
        RuntimeError: no number up to a million is enough: a definition has changed into one that cannot be met.
    """
    most = 1
    while not enough(most):
        most *= 2
        if most > MOST_NEEDED:
            raise RuntimeError(f"not even {MOST_NEEDED} requests are enough")
    return 1 + bisect.bisect_left(range(1, most + 1), True, key=enough)


@cache
def requests_to_tell(percent: int) -> int:
    """Requests from which the percentile is told apart from the maximum (20 for P95)."""
    return _fewest(lambda n: not percentile(np.zeros(n), percent, bounds=False).at_maximum)


@cache
def requests_to_bound(percent: int) -> int:
    """Requests from which the percentile has a 95 % upper bound by order statistics (59 for P95)."""
    return _fewest(lambda n: bound_ranks(percent, n)[1] is not None)


def _flawless(requests: int, planned: int, limits: bool, mode: ArrivalMode) -> Evidence:
    """The evidence of a window in which every request was good and at most one in flight at any time."""
    chosen = [LimitCount(name="any", limit_ms=1.0, judged=requests, missed=0)] if limits else []
    return Evidence(
        planned=planned,
        measured=requests,
        failed=0,
        outcomes={"ok": requests},
        oom=0,
        limits=chosen,
        attainment=share(requests, requests) if limits else None,
        attainment_interval=wilson(requests, requests) if limits else None,
        goodput_unavailable=None,
        error_rate=share(0, requests),
        error_rate_interval=wilson(0, requests),
        trend=trend(np.ones(SPANS), requests) if mode == "open" else None,
        generator=GeneratorHealth(valid=True, lag_bound_ms=0.0),
        interrupted=None,
        seconds=None,
        cap_wait_p95_ms=None,
    )


def best_verdict(requests: int, planned: int, limits: bool, mode: ArrivalMode) -> StageVerdict:
    """The judge's verdict when nothing goes wrong; no run of as many requests earns a better one.

    Args:
        requests: In the window.
        planned: In the whole stage.
        limits: Whether latency limits were chosen.
        mode: Open arrivals or a closed loop.
    """
    return judge_stage(_flawless(requests, planned, limits, mode))


@cache
def requests_to_sign(limits: bool, mode: ArrivalMode) -> int:
    """Requests in the window from which a flawless stage is signed and not only a candidate."""
    return _fewest(lambda n: best_verdict(n, n, limits, mode).strength == "signed")


def _gates(limits: bool, mode: ArrivalMode) -> list[GateAhead]:
    many = requests_to_sign(limits, mode)
    found = default_gates(_flawless(many, many, limits, mode))

    def signed(name: str) -> Callable[[int], bool]:
        def holds(n: int) -> bool:
            gate = next(gate for gate in default_gates(_flawless(n, n, limits, mode)) if gate.name == name)
            return gate.passed is True and gate.signed

        return holds

    return [
        GateAhead(
            name=gate.name,
            relation=gate.relation,
            limit=gate.limit,
            default=gate.default,
            requests_to_sign=_fewest(signed(gate.name)),
        )
        for gate in found
        if gate.applicable
    ]


# --- one stage -----------------------------------------------------------------------------------------------------


def _stage(
    spec: StageSpec, users: Sequence[UserChoice], limits: bool, drain_s: float, workers: int | None
) -> tuple[StagePreview, int]:
    """The stage without its tokens, and how many indices it takes (as far as known)."""
    at_least_s = spec.warmup_s + (spec.window_s or 0.0)
    stage = StagePreview(
        number=spec.stage + 1,
        label=spec.label,
        mode=spec.mode,
        round=spec.round,
        rate_rps=spec.rate_rps,
        seed=spec.seed,
        warmup_s=spec.warmup_s,
        window_s=spec.window_s,
        cooldown_at_most_s=spec.cooldown_s,
        drain_at_most_s=drain_s,
        at_least_s=at_least_s,
        at_most_s=None if spec.window_s is None else at_least_s + spec.cooldown_s + drain_s,
        percentiles=[_percentile_ahead(percent, None, None) for percent in PERCENTS],
    )
    if spec.mode == "closed":
        return stage, 0
    if spec.rate_rps is None or spec.window_s is None:
        raise ValueError(f"stage {spec.stage} is not an open stage with a rate and a window")
    window_expected = spec.rate_rps * spec.window_s
    all_expected = spec.rate_rps * (at_least_s + spec.cooldown_s)
    plan = plan_stage(spec, users) if all_expected <= MOST_DRAWN else None
    samples = round(window_expected) if plan is None else _in_window(plan)
    count = round(all_expected) if plan is None else len(plan)
    to_sign = requests_to_sign(limits, spec.mode)
    needs = [*map(requests_to_bound, PERCENTS), to_sign]
    windows_s = _windows_needed_s(spec, needs, drawn=plan is not None)
    best = best_verdict(samples, count, limits, spec.mode)
    stage = msgspec.structs.replace(
        stage,
        window_expected=window_expected,
        window_planned=None if plan is None else samples,
        all_expected=all_expected,
        all_planned=None if plan is None else count,
        samples=samples,
        percentiles=[_percentile_ahead(p, samples, windows_s[requests_to_bound(p)]) for p in PERCENTS],
        best_result=best.result,
        best_strength=best.strength,
        best_sentence=best.sentence,
        sign_window_needed_s=windows_s[to_sign],
        idle_workers=max(0, (workers or 0) - count),
    )
    return stage, count


def _in_window(plan: StagePlan) -> int:
    return int(np.count_nonzero(plan.phase == PHASES.index("measure")))


def _percentile_ahead(percent: int, samples: int | None, window_needed_s: int | None) -> PercentileAhead:
    needed = requests_to_bound(percent)
    return PercentileAhead(
        percent=percent,
        at_maximum=None if samples is None else samples < requests_to_tell(percent),
        signed=None if samples is None else samples >= needed,
        requests_needed=needed,
        window_needed_s=window_needed_s,
    )


def _windows_needed_s(spec: StageSpec, needs: Sequence[int], *, drawn: bool) -> dict[int, int]:
    """For each number of requests the shortest window of whole seconds that this seed puts as many into.

    The mean would be short of them every other time. Only where the plan is too large to draw it has to do.
    """
    assert spec.rate_rps is not None
    if not drawn:
        return {need: math.ceil(need / spec.rate_rps) for need in needs}
    most = max(needs)
    window_s = (most + 6 * math.sqrt(most) + 1) / spec.rate_rps
    while True:
        plan = plan_stage(msgspec.structs.replace(spec, window_s=window_s, cooldown_s=0.0), [])
        offsets = plan.offset_ns[plan.phase == PHASES.index("measure")] - round(spec.warmup_s * NS_PER_S)
        if len(offsets) >= most:
            return {need: int(offsets[need - 1]) // NS_PER_S + 1 for need in needs}
        window_s *= 2


# --- tokens and cost -----------------------------------------------------------------------------------------------


def _token_sums(workload: Workload, sent: Sequence[range]) -> list[Tokens]:
    """The tokens of the prompts with these indices, stage by stage."""
    if isinstance(workload, PromptsFile):
        return _file_tokens(workload, sent)
    summed = sum(map(len, sent)) <= MOST_SUMMED
    random = np.random.default_rng(0)
    found = []
    for indices in sent:
        exact = summed or len(indices) <= SAMPLED
        # Not every k-th: a workload that repeats itself could keep step with it.
        drawn = indices if exact else random.integers(indices.start, indices.stop, SAMPLED).tolist()
        prompts = [workload.prompt(index) for index in drawn]
        scale = 1.0 if exact else len(indices) / SAMPLED
        output, characters = sum(p.max_tokens for p in prompts), sum(len(p.text) for p in prompts)
        found.append(_tokens(round(output * scale), round(characters * scale), exact))
    return found


def _file_tokens(workload: PromptsFile, sent: Sequence[range]) -> list[Tokens]:
    """Of prompts that start over when they are exhausted: whole passes through the file and the rest of one."""
    prompts = [workload.prompt(index) for index in range(workload.facts.prompts or 1)]
    per_prompt = np.array([(p.max_tokens, len(p.text)) for p in prompts], dtype=np.int64)
    before = np.vstack((np.zeros((1, 2), np.int64), np.cumsum(per_prompt, axis=0)))

    def until(index: int) -> tuple[int, int]:
        passes, rest = divmod(index, len(prompts))
        output, characters = passes * before[-1] + before[rest]
        return int(output), int(characters)

    found = []
    for indices in sent:
        (output, characters), (output_before, characters_before) = until(indices.stop), until(indices.start)
        found.append(_tokens(output - output_before, characters - characters_before, True))
    return found


def _tokens(output: int, characters: int, exact: bool) -> Tokens:
    return Tokens(output_at_most=output, input_estimated=-(-characters // CHARACTERS_PER_TOKEN), exact=exact)


def _all_tokens(of_stages: Sequence[Tokens | None]) -> Tokens | None:
    known = [tokens for tokens in of_stages if tokens is not None]
    if len(known) < len(of_stages):
        return None
    return Tokens(
        output_at_most=sum(tokens.output_at_most for tokens in known),
        input_estimated=sum(tokens.input_estimated for tokens in known),
        exact=all(tokens.exact for tokens in known),
    )


def _cost(prices: Prices, at_least_s: float, at_most_s: float | None, tokens: Tokens | None) -> RunCost:
    def times(size: float | None, per: float, price: float | None) -> float | None:
        return None if size is None or price is None else size / per * price

    return RunCost(
        machine_at_least=times(at_least_s, 3600, prices.per_hour),
        machine_at_most=times(at_most_s, 3600, prices.per_hour),
        input_estimated=times(tokens.input_estimated if tokens else None, 1e6, prices.input_per_million),
        output_at_most=times(tokens.output_at_most if tokens else None, 1e6, prices.output_per_million),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; ``None`` when a part of it is not known."""
    total: list[float] = []
    for value in values:
        if value is None:
            return None
        total.append(value)
    return math.fsum(total)


# --- warnings ------------------------------------------------------------------------------------------------------


def _warnings(
    stages: Sequence[StagePreview], slo: dict[str, float], deadline_s: float, workload: WorkloadFacts
) -> list[Warned]:
    found: list[Warned] = []
    if workload.kind == "synthetic":
        text = "the workload is synthetic: it supports no capacity conclusion (--prompts takes your own)"
        found.append(Warned(about="workload", text=text))
    if not slo:
        text = "no limits were chosen (--slo): latency is not judged and there is no goodput"
        found.append(Warned(about="limits", text=text))
    for name in ("ttft", "e2e"):
        if name in slo and deadline_s < slo[name] / 1000:
            text = (
                f"the deadline ({number(deadline_s)} s) is shorter than the {name} limit ({number(slo[name] / 1000)} s)"
            )
            text += ": a request that may still be good is cut off and counts as failed"
            found.append(Warned(about="deadline", text=text))
    # One warning for all stages that share its words.
    grouped: dict[str, Warned] = {}
    for before, stage in zip([None, *stages], stages, strict=False):
        for warned in (*_time_warnings(stage, slo), *_request_warnings(stage, slo), *_order_warnings(before, stage)):
            grouped.setdefault(warned.text, warned).stages.append(stage.number)
    return found + list(grouped.values())


def _time_warnings(stage: StagePreview, slo: dict[str, float]) -> Iterator[Warned]:
    limit_s = slo.get("e2e", 0.0) / 1000
    shorter = f"s) is shorter than the e2e limit ({number(limit_s)} s)"
    if stage.mode == "open" and stage.warmup_s < limit_s:
        text = f"the warm-up ({number(stage.warmup_s)} {shorter}: in-flight may still rise by itself in the window"
        yield Warned(about="warmup", text=text)
    if stage.window_s is not None and stage.window_s < limit_s:
        text = f"the window ({number(stage.window_s)} {shorter}: a good request may not even fit into it"
        yield Warned(about="window", text=text)
    if stage.mode == "open" and stage.cooldown_at_most_s < limit_s:
        text = f"the cool-down ({number(stage.cooldown_at_most_s)} {shorter}: "
        text += "the last requests of the window may end on an emptying server, faster than under load"
        yield Warned(about="cooldown", text=text)


def _request_warnings(stage: StagePreview, slo: dict[str, float]) -> Iterator[Warned]:
    if stage.best_result is not None and stage.best_result != "pass":
        at_best = "" if stage.best_result == "not_run" else f"at best {stage.best_result}: "
        yield Warned(about="requests", text=f"{at_best}{stage.best_sentence}")
    elif stage.best_strength == "candidate":
        needed = requests_to_sign(bool(slo), stage.mode)
        text = f"too few requests in the window for a signed pass, which needs {needed}: at best it is a candidate"
        yield Warned(about="requests", text=text)


def _order_warnings(before: StagePreview | None, stage: StagePreview) -> Iterator[Warned]:
    if before is None or before.rate_rps is None or stage.rate_rps is None or before.round != stage.round:
        return
    if stage.rate_rps < before.rate_rps:
        text = f"rates are not ascending ({number(stage.rate_rps)} req/s after {number(before.rate_rps)}): "
        text += "what an overloaded stage leaves behind on the server is felt by a lighter one"
        yield Warned(about="rates", text=text)
