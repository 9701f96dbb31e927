"""Lengths as text: what is drawn has the quantiles that were written down."""

from __future__ import annotations

from statistics import mean

import pytest

from llm_locust.records import UsageError
from llm_locust.workload.lengths import parse_lengths
from llm_locust.workload.text import unit


def lengths(text: str, *shares: float) -> list[int]:
    found = parse_lengths(text, "--input-tokens")
    return [found.at(share) for share in shares]


def test_a_fixed_length_is_always_itself() -> None:
    assert lengths("512", 0.001, 0.5, 0.999) == [512, 512, 512]


def test_uniform_gives_every_whole_number_from_low_to_high_alike() -> None:
    found = lengths("uniform:low=10,high=13", *((place + 0.5) / 400 for place in range(400)))
    assert {value: found.count(value) for value in (10, 11, 12, 13)} == {10: 100, 11: 100, 12: 100, 13: 100}


def test_normal_has_its_median_and_its_deviation() -> None:
    # 97.725 % of a normal distribution lie below two deviations above the mean.
    assert lengths("normal:mean=512,sd=100", 0.5, 0.977249868, 0.022750132) == [512, 712, 312]


def test_lognormal_has_the_percentiles_it_was_given() -> None:
    assert lengths("lognormal:p50=400,p95=2000", 0.5, 0.95, 0.05) == [400, 2000, 80]  # symmetric in the logarithm


def test_bounds_cut_off_and_no_length_is_below_one() -> None:
    assert lengths("normal:mean=10,sd=100", 0.001) == [1]
    assert lengths("lognormal:p50=400,p95=2000,min=100,max=1000", 0.001, 0.5, 0.999) == [100, 400, 1000]


def test_empirical_lengths_are_those_of_the_trace_as_often_as_there() -> None:
    found = parse_lengths("empirical", "--input-tokens", [30, 10, 10, 20])
    assert [found.at(share) for share in (0.1, 0.3, 0.6, 0.9)] == [10, 10, 20, 30]


def test_the_name_says_every_parameter() -> None:
    assert parse_lengths(" uniform:high=9,low=2 ", "--input-tokens").name == "uniform:low=2,high=9"
    assert parse_lengths("normal:mean=5,sd=1,max=7", "--input-tokens").name == "normal:mean=5,sd=1,max=7"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0", "from 1 to"),
        ("-5", "no such length"),
        ("many", "no such length: write one of 512, uniform:low=100,high=900"),
        ("uniform:low=1", "high is missing"),
        ("uniform:low=9,high=1", "low=9 and high=1"),
        ("uniform:low=1,low=2,high=3", "given twice"),
        ("normal:mean=5,sd=x", "sd=x: not a number"),
        ("normal:mean=5,sd=nan", "not a number"),
        ("normal:mean=5,sd=1,mode=3", "'mode=3' is none of mean, sd, min, max"),
        ("lognormal:p50=5,p95=2", "the median is at least 1 and not above"),
        ("empirical", "Give one with --trace"),
    ],
)
def test_what_is_no_length_is_named_with_the_option(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_lengths(text, "--output-tokens")
    assert str(error.value).startswith(f"--output-tokens {text!r}: ")
    assert says in str(error.value)


def test_units_are_even_decided_by_their_labels_and_never_at_the_ends() -> None:
    drawn = [unit(1, "input", index) for index in range(4000)]
    assert unit(1, "input", 7) == drawn[7]
    assert len(set(drawn)) == 4000
    assert 0 < min(drawn) < 0.01
    assert 0.99 < max(drawn) < 1
    assert abs(mean(drawn) - 0.5) < 0.02  # four standard errors of 4,000 draws
