"""What the dry run says in sentences: time, judgement, tokens, cost, notes and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llm_locust.analysis.words import number
from llm_locust.records import Requirements, format_slo
from llm_locust.report.inert import LONGEST_NAME, one_line
from llm_locust.report.quantities import count, duration
from llm_locust.sizing import CHARACTERS_PER_TOKEN, GateAhead, Preview, Warned, requests_to_tell


def time(preview: Preview) -> str:
    """How long the run takes, rounded so that neither bound flatters."""
    least = duration(math.floor(preview.at_least_s))
    if preview.at_most_s is None:
        text = "The run lasts until it is stopped" + (f", at least {least}." if preview.at_least_s else ".")
    else:
        most = duration(math.ceil(preview.at_most_s))
        text = f"The run takes at least {least}, at most {most}, and a little to get workers ready."
    if any(stage.mode == "open" for stage in preview.stages):
        text += " The cool-down ends early when the requests of the window have ended."
    return f"{text} A stage drains until its last request has ended or met --deadline ({number(preview.deadline_s)} s)."


def after_the_tables(preview: Preview) -> list[str]:
    """What the run is judged by, what it sends and costs, what is worth knowing: a paragraph each."""
    return [*_judgement(preview), *_tokens(preview), *_costs(preview), *_notes(preview)]


def warning(warned: Warned) -> str:
    """A warning with the stages it is about."""
    stages = f"{stage_list(warned.stages)}: " if warned.stages else ""
    return f"Warning: {stages}{warned.text}"


def stage_list(numbers: Sequence[int]) -> str:
    """``stages 1 to 3, 5``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]} {'and' if len(run) == 2 else 'to'} {run[-1]}" for run in runs]
    return f"stage{'s' if len(numbers) > 1 else ''} {', '.join(words)}"


def _judgement(preview: Preview) -> list[str]:
    lines = [f"Limits in ms: {format_slo(preview.slo) or 'none chosen'}"]
    if not preview.streaming:
        lines.append("Replies are asked for whole (--no-stream): there is no TTFT, TPOT or ITL.")
    gates = [
        f"{gate.name} {gate.relation} {gate.limit if isinstance(gate.limit, str) else number(gate.limit)}"
        + _signed_from(gate)
        for gate in preview.gates
    ]
    defaults = " (defaults)" if all(gate.default for gate in preview.gates) else ""
    lines.append(f"Gates{defaults}: {'; '.join(gates)}. These counts are for a batch without a failed or late request.")
    percents = [ahead.percent for stage in preview.stages[:1] for ahead in stage.percentiles]
    if percents:
        told = ", ".join(f"P{percent} below {requests_to_tell(percent)} requests" for percent in percents)
        lines.append(f"A percentile is signed when it has a 95 % upper bound. It is the maximum for {told}.")
    lines.append(_requirements(preview.requirements))
    return lines


def _signed_from(gate: GateAhead) -> str:
    if gate.requests_to_sign is None:
        return " (never signed)"
    return f" (signed from {gate.requests_to_sign} requests)" if gate.requests_to_sign > 1 else ""


def _requirements(requirements: Requirements) -> str:
    required = []
    if requirements.rate_rps is not None:
        required.append(f"a rate of at least {number(requirements.rate_rps)} req/s is sustained (--require-rate)")
    if requirements.every_stage:
        required.append("every stage passes (--require-pass)")
    if not required:
        return "Required: nothing, so the exit code is 0 even when a stage fails."
    return f"Exit code 3 unless {' and '.join(required)}; 4 when that cannot be told."


def _tokens(preview: Preview) -> list[str]:
    facts = preview.workload
    prompts = f", {count(facts.prompts)} prompts" if facts.prompts is not None else ""
    lines = [f"Workload: {one_line(facts.name, LONGEST_NAME)} ({facts.kind}{prompts})"]
    tokens = preview.tokens
    if tokens is None:
        lines.append("Tokens: not known, for a closed loop sends as much as the server takes.")
        return lines
    bound = "at most" if tokens.exact else "at most about (extrapolated from a sample)"
    lines.append(
        f"Tokens: output {bound} {count(tokens.output_at_most, up=True)} (max_tokens of every planned prompt); input about "
        f"{count(tokens.input_estimated)}, an estimate: characters / {CHARACTERS_PER_TOKEN}, without chat template."
    )
    return lines


def _costs(preview: Preview) -> list[str]:
    prices, cost = preview.prices, preview.cost
    parts = []
    if prices.per_hour is not None:
        rate = f"{number(prices.per_hour)} an hour"
        most = cost.machine_at_most
        spent = f"{number(cost.machine_at_least)} to {number(most)} ({rate})"
        parts.append("machine " + (spent if most is not None else f"{rate} until it is stopped"))
    if prices.input_per_million is not None:
        spent = "not known" if cost.input_estimated is None else f"about {number(cost.input_estimated)}"
        parts.append(f"input {spent} ({number(prices.input_per_million)} a million tokens)")
    if prices.output_per_million is not None:
        bound = "at most" if preview.tokens and preview.tokens.exact else "at most about"
        spent = "not known" if cost.output_at_most is None else f"{bound} {number(cost.output_at_most)}"
        parts.append(f"output {spent} ({number(prices.output_per_million)} a million tokens)")
    return [f"Cost estimate, in the currency of the prices: {'; '.join(parts)}."] if parts else []


def _notes(preview: Preview) -> list[str]:
    lines = []
    for stage in preview.stages:
        if stage.mode == "closed":
            lasts = ", and it lasts until it is stopped" if stage.window_s is None else ""
            if stage.requests is not None:
                measured = "request is" if stage.requests == 1 else "requests are"
                lasts = f", and it lasts until {count(stage.requests)} {measured} measured"
            lines.append(f"Note: stage {stage.number} is a closed loop: nothing is planned{lasts}.")
        elif stage.all_planned is None:
            lines.append(f"Note: the plan of stage {stage.number} is too large to draw it here: its counts are means.")
        if stage.idle_workers and stage.all_planned:
            lines.append(
                f"Note: in stage {stage.number}, {stage.idle_workers} of {preview.workers} workers get no arrival. "
                "That is fine."
            )
    prompts = preview.workload.prompts
    if prompts is not None and preview.planned is not None and preview.planned > prompts:
        lines.append(
            f"Note: {count(preview.planned)} arrivals share {count(prompts)} prompts: one that comes again may be "
            "answered from the server's prefix cache."
        )
    return lines
