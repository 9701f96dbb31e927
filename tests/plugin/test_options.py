"""Options: text in, numbers out, defaults worked out, and a wrong value refused with what is allowed."""

from __future__ import annotations

from argparse import Namespace

import pytest

from llm_locust.plugin.options import OPTION_NAMES, OPTIONS, RunOptions, given_options, read_options
from llm_locust.records import UsageError


def options(**given: str) -> RunOptions:
    return read_options(Namespace(**given))


def test_the_defaults_of_warmup_and_cooldown_follow_the_e2e_limit() -> None:
    assert (options().warmup_s, options().cooldown_s) == (10.0, 30.0)
    with_limit = options(slo="e2e=20000")
    assert (with_limit.warmup_s, with_limit.cooldown_s) == (40.0, 20.0)
    assert options(slo="e2e=2000").warmup_s == 10.0
    assert options(slo="e2e=20000", warmup_time="0", cooldown="0").warmup_s == 0.0


def test_times_are_seconds_or_carry_a_unit() -> None:
    assert [options(stage_time=text).stage_time_s for text in ("90", "90s", "1.5m", "2h", ".5")] == [
        90,
        90,
        90,
        7200,
        0.5,
    ]


def test_rates_are_a_list() -> None:
    assert options(rates="0.5, 1,2").rates_rps == [0.5, 1.0, 2.0]


def test_a_field_left_empty_in_the_web_form_means_its_default() -> None:
    assert options(deadline="", max_in_flight=" ", model="").deadline_s == 120.0
    assert options(max_in_flight="").max_in_flight is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rates": "0"}, "greater than 0"),
        ({"rates": "nan"}, "greater than 0"),
        ({"rates": "inf"}, "concurrency_ladder"),
        ({"rates": "1;2"}, "comma-separated"),
        ({"rates": "2,,6"}, "--rates 2,,6: nothing between two commas"),
        ({"rates": "2,"}, "leave that comma out"),
        ({"concurrency": "1,,4"}, "--concurrency 1,,4: nothing between two commas"),
        ({"stage_time": "0"}, "greater than 0"),
        ({"stage_time": "-5"}, "write seconds"),
        ({"warmup_time": "later"}, "write seconds"),
        ({"seed": "1.5"}, "whole number"),
        ({"seed": "-1"}, "at least 0"),
        ({"max_in_flight": "0"}, "at least 1"),
        ({"max_tokens": "0"}, "at least 1"),
        ({"arrivals": "uniform"}, "poisson"),
        ({"slo": "ttft=0"}, "positive"),
        ({"extra_body": "temperature=0"}, "not a JSON object"),
        ({"extra_body": "[1]"}, "not a JSON object"),
        ({"gate": "ttft_p95<=fast"}, "ttft_p95"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        options(**given)


def test_every_option_has_its_own_variable() -> None:
    variables = [option.variable for option in OPTIONS]
    assert len(set(variables)) == len(OPTION_NAMES)
    assert all(variable.startswith("LOCUST_LLM_") for variable in variables)


def test_only_what_was_given_or_has_a_default_is_recorded() -> None:
    assert given_options(Namespace(rates="1", slo=None, model="", unrelated="x")) == {"rates": "1"}
