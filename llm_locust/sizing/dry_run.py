"""The dry run: what a run will send, how long it takes, what its figures can show at best and what it costs. Sends nothing.

Stages and indices are numbered as the run numbers them, for the plan and the prompts depend on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from llm_locust.records import Prices, Requirements, StageSpec
from llm_locust.records.gates import GateSpec
from llm_locust.records.run import UserChoice
from llm_locust.records.stage import ArrivalMode
from llm_locust.sizing.contracts import Preview, StagePreview
from llm_locust.sizing.cost import cost_ahead
from llm_locust.sizing.evidence import gates_ahead, requests_to_sign
from llm_locust.sizing.stage import stage_ahead
from llm_locust.sizing.tokens import Ints, tokens_by_stage, tokens_in_all
from llm_locust.sizing.warned import warnings_ahead
from llm_locust.workload import Workload


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
    requirements: Requirements | None = None,
    streaming: bool = True,
    gates: Sequence[GateSpec] = (),
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
        requirements: What the run has to show.
        streaming: ``False`` when replies are asked for whole: nothing in them has a time, so no limit on one is in ``slo``.
        gates: What a stage must hold to pass; none for the defaults.

    Raises:
        ValueError: a stage that cannot be planned: an unknown arrival process, or an open stage without rate or window.
    """
    prices = prices or Prices()
    requirements = requirements or Requirements()
    drain_s = deadline_s if max_in_flight is None else 2 * deadline_s
    ahead: list[StagePreview] = []
    sent: list[Sequence[int] | Ints] = []
    next_index = 0
    for place, template in enumerate(stages):
        # The plan's random stream depends on its place, its prompts on the first index.
        spec = msgspec.structs.replace(template, stage=place, first_index=next_index)
        stage, prompts = stage_ahead(spec, users, bool(slo), drain_s, workers, tuple(gates))
        ahead.append(stage)
        sent.append(prompts)
        next_index += len(prompts)
    # A closed loop sends as many as it can: neither it nor the indices of stages after it are known.
    closed = [stage.mode == "closed" for stage in ahead]
    of_stages = tokens_by_stage(workload, sent)
    for place, (stage, tokens) in enumerate(zip(ahead, of_stages, strict=True)):
        if not closed[place]:
            known = tokens.exact and stage.all_planned is not None and not any(closed[:place])
            ahead[place] = msgspec.structs.replace(stage, tokens=msgspec.structs.replace(tokens, exact=known))
    at_least_s = math.fsum(stage.at_least_s for stage in ahead)
    at_most_s = _sum(stage.at_most_s for stage in ahead)
    tokens_of_run = tokens_in_all([stage.tokens for stage in ahead])
    planned = _sum(stage.all_planned for stage in ahead)
    mode: ArrivalMode = "closed" if all(closed) else "open"
    return Preview(
        stages=ahead,
        at_least_s=at_least_s,
        at_most_s=at_most_s,
        expected=_sum(stage.all_expected for stage in ahead),
        planned=None if planned is None else int(planned),
        tokens=tokens_of_run,
        prices=prices,
        cost=cost_ahead(prices, at_least_s, at_most_s, tokens_of_run),
        slo=slo,
        gates=gates_ahead(bool(slo), mode, tuple(gates)),
        requests_to_sign=requests_to_sign(bool(slo), mode, tuple(gates)),
        requirements=requirements,
        streaming=streaming,
        deadline_s=deadline_s,
        workers=workers,
        workload=workload.facts,
        warnings=warnings_ahead(ahead, slo, deadline_s, workload.facts, requirements, tuple(gates)),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; ``None`` when a part of it is not known."""
    total: list[float] = []
    for value in values:
        if value is None:
            return None
        total.append(value)
    return math.fsum(total)
