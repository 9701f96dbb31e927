"""What will surely disappoint, in words: known before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llm_locust.analysis.words import number
from llm_locust.records import Requirements, WorkloadFacts
from llm_locust.records.gates import GateSpec
from llm_locust.sizing.contracts import StagePreview, Warned
from llm_locust.sizing.evidence import requests_to_sign


def warnings_ahead(
    stages: Sequence[StagePreview],
    slo: dict[str, float],
    deadline_s: float,
    workload: WorkloadFacts,
    requirements: Requirements,
    gates: tuple[GateSpec, ...] = (),
) -> list[Warned]:
    """The warnings of a run: those about all of it first, then those about stages, each once with all its stages.

    Args:
        stages: As they would be run.
        slo: Per-request limits in milliseconds.
        deadline_s: The whole-request deadline.
        workload: What would be sent.
        requirements: What the run has to show.
        gates: Those chosen; none for the defaults.
    """
    # One warning for all stages that share its words.
    grouped: dict[str, Warned] = {}
    for before, stage in zip([None, *stages], stages, strict=False):
        for warned in (
            *_time_warnings(stage, slo),
            *_request_warnings(stage, slo, gates),
            *_order_warnings(before, stage),
        ):
            grouped.setdefault(warned.text, warned).stages.append(stage.number)
    return [
        *_choice_warnings(slo, deadline_s, workload),
        *_requirement_warnings(stages, requirements),
        *grouped.values(),
    ]


def _choice_warnings(slo: dict[str, float], deadline_s: float, workload: WorkloadFacts) -> Iterator[Warned]:
    if workload.kind == "synthetic":
        text = "the workload is synthetic: it supports no capacity conclusion (--prompts takes your own)"
        yield Warned(about="workload", text=text)
    if not slo:
        text = "no limits were chosen (--slo): latency is not judged and there is no goodput"
        yield Warned(about="limits", text=text)
    for name in ("ttft", "e2e"):
        if name in slo and deadline_s < slo[name] / 1000:
            text = (
                f"the deadline ({number(deadline_s)} s) is shorter than the {name} limit ({number(slo[name] / 1000)} s)"
            )
            text += ": a request that may still be good is cut off and counts as failed"
            yield Warned(about="deadline", text=text)


def _requirement_warnings(stages: Sequence[StagePreview], requirements: Requirements) -> Iterator[Warned]:
    offered_rps = [stage.rate_rps for stage in stages if stage.rate_rps is not None]
    if stages and requirements.rate_rps is not None and max(offered_rps, default=0.0) < requirements.rate_rps:
        text = f"no stage offers the required {number(requirements.rate_rps)} req/s (--require-rate)"
        yield Warned(about="requirements", text=f"{text}: the exit code will be 3")


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


def _request_warnings(stage: StagePreview, slo: dict[str, float], gates: tuple[GateSpec, ...]) -> Iterator[Warned]:
    if stage.best_result is not None and stage.best_result != "pass":
        at_best = "" if stage.best_result == "not_run" else f"at best {stage.best_result}: "
        yield Warned(about="requests", text=f"{at_best}{stage.best_sentence}")
    elif stage.best_strength == "candidate":
        needed = requests_to_sign(bool(slo), stage.mode, gates)
        text = f"too few requests in the window for a signed pass, which needs {needed}: at best it is a candidate"
        yield Warned(about="requests", text=text)


def _order_warnings(before: StagePreview | None, stage: StagePreview) -> Iterator[Warned]:
    if before is None or before.rate_rps is None or stage.rate_rps is None or before.round != stage.round:
        return
    if stage.rate_rps < before.rate_rps:
        text = f"rates are not ascending ({number(stage.rate_rps)} req/s after {number(before.rate_rps)}): "
        text += "what an overloaded stage leaves behind on the server is felt by a lighter one"
        yield Warned(about="rates", text=text)
