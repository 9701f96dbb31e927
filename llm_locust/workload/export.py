"""A workload as a file that can be sent again bit for bit, and that vLLM's bench reads."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from llm_locust.workload.made_up import MadeUpPrompts
from llm_locust.workload.mix import Mix
from llm_locust.workload.prompt import Prompt, Workload
from llm_locust.workload.prompts_file import PromptLine, PromptsFile
from llm_locust.workload.sessions import SessionPlan


def export_lines(workload: Workload, count: int) -> Iterator[bytes]:
    """The first ``count`` arrivals' prompts as lines of a prompts file; every turn of a session is a line.

    Both ``max_tokens`` and ``output_tokens`` hold the output limit: one is ours, the other what vLLM's bench reads.
    """
    for index in range(count):
        first = workload.prompt(index)
        plan = _plan_of(workload, first)
        for turn, think_s in zip(plan.turns, plan.think_s, strict=True):
            yield msgspec.json.encode(_line(turn, plan.session or None, think_s, workload.facts.kind, index)) + b"\n"


def _plan_of(workload: Workload, first: Prompt) -> SessionPlan:
    if first.session is not None and isinstance(workload, MadeUpPrompts | PromptsFile | Mix):
        return workload.session(first)
    # A trace's rows come at their own times: its sessions are no conversations to be held turn by turn.
    return SessionPlan("", [first], [0.0])


def _line(turn: Prompt, session: str | None, think_s: float, kind: str, index: int) -> PromptLine:
    return PromptLine(
        id=turn.id if turn.id is not None else f"{index}" if turn.turn is None else f"{index}.{turn.turn}",
        prompt=turn.prompt,
        messages=turn.messages,
        max_tokens=turn.max_tokens,
        output_tokens=turn.max_tokens,
        input_tokens=turn.input_tokens,
        slice=turn.slice,
        prefix_group=turn.prefix_group,
        session=session,
        think_s=think_s or None,
        expected=turn.expected,
        extra=turn.extra or None,
        workload_kind="synthetic" if kind == "synthetic" else None,
    )
