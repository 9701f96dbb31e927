"""Runs to look ahead at: stages, workloads and what they are sent with, all but the point in question unremarkable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llm_locust.records import StageSpec, WorkloadFacts
from llm_locust.records.run import UserChoice
from llm_locust.sizing import Preview, preview
from llm_locust.workload import Prompt, PromptsFile

ONE = [UserChoice(name="ChatUser", weight=1)]


def open_stage(rate: float, **changes: Any) -> StageSpec:
    """10 s of warm-up, a window of 60 s, 30 s of cool-down at most; constant arrivals, the first at 0."""
    values: dict[str, Any] = {"arrivals": "constant", "warmup_s": 10.0, "window_s": 60.0, "cooldown_s": 30.0, "seed": 1}
    return StageSpec(**{"stage": 0, "rate_rps": rate, "first_index": 0, **values, **changes})


def closed_stage(**changes: Any) -> StageSpec:
    values: dict[str, Any] = {"warmup_s": 0.0, "window_s": None, "cooldown_s": 0.0, "concurrency": 8, "seed": 1}
    return StageSpec(**{"stage": 0, "mode": "closed", "first_index": 0, **values, **changes})


class CountingPrompts:
    """Endless prompts of 4 characters and 7 tokens; remembers which were asked for."""

    def __init__(self) -> None:
        self.facts = WorkloadFacts(name="own", kind="representative", source="a test", sha256="ab" * 32)
        self.asked: list[int] = []

    def prompt(self, index: int) -> Prompt:
        self.asked.append(index)
        return Prompt(index=index, prompt="abcd", max_tokens=7)


def prompts_file(tmp_path: Path, *prompts: tuple[str, int]) -> PromptsFile:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": text, "max_tokens": limit}) for text, limit in prompts))
    return PromptsFile(str(path), max_tokens=1)


def look_ahead(*stages: StageSpec, **changes: Any) -> Preview:
    values: dict[str, Any] = {"workload": CountingPrompts(), "slo": {"e2e": 5000.0}, "deadline_s": 120.0, "workers": 2}
    return preview(stages, ONE, **{**values, **changes})
