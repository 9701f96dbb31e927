"""What is refused or said before load: ignored options, gates that nothing can answer, what sums leave out."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from locust.env import Environment

from llm_locust.plugin.before_load import (
    _beside_the_preview,
    leaving_warning,
    refuse_what_cannot_be_measured,
    stages_of,
)
from llm_locust.records import UsageError
from llm_locust.workload import load_workload

from .shapes import AZURE, options, shape


def environment(name: str, **given: object) -> Environment:
    made = Environment(parsed_options=Namespace(**given))
    made.shape_class = shape(name)
    return made


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        (
            "rate_ladder",
            {"rates": "1", "concurrency": "4"},
            "RateLadder does not read --concurrency; it reads --arrivals",
        ),
        ("trace_replay", {"trace": AZURE, "rates": "3"}, "does not read --rates; it reads --trace"),
        ("trace_replay", {"trace": AZURE, "arrivals": "constant"}, "does not read --arrivals"),
        ("concurrency_ladder", {"concurrency": "2", "rates": "1"}, "does not read --rates"),
        ("soak", {"rates": "1", "cold_share": "0.1"}, "does not read --cold-share"),
    ],
)
def test_an_option_that_the_shape_does_not_read_is_refused(name: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        stages_of(environment(name, **given), options(**given), users=1)


def test_defaults_are_no_options_given() -> None:
    given = {"trace": AZURE, "arrivals": "poisson"}
    assert len(stages_of(environment("trace_replay", **given), options(**given), users=1)) == 1


def refused(**given: str) -> None:
    chosen = options(**given)
    refuse_what_cannot_be_measured(chosen, load_workload(chosen.workload))


def test_a_gate_on_a_slice_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the workload has no slice 'faq': it has none"):
        refused(gate="faq:ttft_p95<=300")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "a", "slice": "long"}\n{"prompt": "b", "slice": "faq"}\n')
    refused(gate="faq:ttft_p95<=300", prompts=str(prompts))
    with pytest.raises(UsageError, match="no slice 'fqa': it has faq, long"):
        refused(gate="fqa:ttft_p95<=300", prompts=str(prompts))


def test_expected_answers_are_looked_for_before_load(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no prompt has an expected answer"):
        refused(quality="expected")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "1+1", "expected": "2"}\n')
    refused(quality="expected", prompts=str(prompts))


def test_planned_leavings_and_default_gates_are_said_to_be_at_odds() -> None:
    (said,) = leaving_warning(options(cancel="share=0.1,after=2s"))
    assert "the default gates" in said
    assert leaving_warning(options(cancel="share=0.1,after=2s", gate="error_rate<=0.2")) == []
    assert leaving_warning(options()) == []


def test_a_search_a_budget_and_conversations_are_said_beside_the_sums() -> None:
    search = environment("capacity_search")
    said = " ".join(_beside_the_preview(search, options(rates="1", max_requests="100", sessions="turns=3,think=0")))
    assert "It may run up to 20 (--max-stages)" in said
    assert "--max-requests 100" in said
    assert "Every arrival begins a conversation" in said
    assert _beside_the_preview(environment("rate_ladder"), options(rates="1")) == []
