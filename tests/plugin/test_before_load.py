"""What is refused or said before load: ignored options, gates that nothing can answer, what sums leave out."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from locust.argument_parser import get_parser
from locust.env import Environment

from llm_locust.plugin.before_load import (
    _beside_the_preview,
    leaving_warning,
    refuse_what_cannot_be_measured,
    stages_of,
    unread_warning,
)
from llm_locust.plugin.options import read_options
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


def alone(**given: object) -> Environment:
    """Users without a shape."""
    return Environment(parsed_options=Namespace(**given), parsed_locustfiles=["own/chat.py"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"rates": "2", "stage_time": "30"},
            r"^--rates, --stage-time: no shape reads them: add one, e\.g\. -f own/chat\.py,.*shapes/rate_ladder\.py$",
        ),
        ({"concurrency": "2"}, r"^--concurrency: no shape reads it: .*/concurrency_ladder\.py$"),
        ({"rounds": "3"}, "--rounds: no shape reads it"),
    ],
)
def test_options_of_stages_without_a_shape_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        stages_of(alone(**given), options(**given), users=1)


def test_what_a_closed_loop_reads_is_taken_without_a_shape() -> None:
    given = {"warmup_time": "3", "seed": "7", "trace": AZURE, "stage_time": "60", "rounds": "1"}
    (stage,) = stages_of(alone(**given), options(**given), users=4)
    assert (stage.warmup_s, stage.seed, stage.concurrency) == (3.0, 7, 4)


def test_options_of_a_file_or_a_variable_that_nothing_reads_are_only_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locust.conf").write_text("rates = 7\nstage-time = 3\n")
    monkeypatch.setenv("LOCUST_LLM_ROUNDS", "2")
    given = get_parser().parse_args(["-f", "chat.py", "--stage-time", "4"])
    made = Environment(parsed_options=given)
    with pytest.raises(UsageError, match=r"^--stage-time: no shape reads it"):
        stages_of(made, read_options(given), users=1)
    given.stage_time = "60"
    assert len(stages_of(made, read_options(given), users=1)) == 1
    assert unread_warning(made) == ["--rates, --rounds, from a config file or a variable: nothing reads it in this run"]


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
