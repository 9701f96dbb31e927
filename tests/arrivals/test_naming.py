"""Arrival processes as text: what is written is what runs, equal processes have equal names, mistakes are told."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.arrivals import PROCESSES, mean_rate, parse_process, process_name
from llm_locust.records import UsageError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("poisson", "poisson"),
        ("constant", "constant"),
        ("gamma:cv=3", "gamma:cv=3"),
        ("gamma", "gamma:cv=2"),
        ("gamma:", "gamma:cv=2"),
        ("gamma:cv=0.30", "gamma:cv=0.3"),
        ("gamma:cv=1e1", "gamma:cv=10"),
        ("linear-ramp:to=8.0", "linear-ramp:to=8"),
        ("linear-ramp:to=-0", "linear-ramp:to=0"),
        ("exponential-ramp:to=0.25", "exponential-ramp:to=0.25"),
        ("diurnal:swing=1", "diurnal:period=60,swing=1"),
        ("on-off:off=10,on=2.5", "on-off:on=2.5,off=10"),
        (" on-off : off = 10 , on = 2.5, ", "on-off:on=2.5,off=10"),
        ("spike:share=0.1", "spike:at=0.5,width=2,share=0.1"),
    ],
)
def test_the_name_has_every_parameter_in_the_order_of_the_table(text: str, name: str) -> None:
    assert process_name(text) == name
    assert process_name(name) == name


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_name_reads_back_as_the_very_same_process(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(PROCESSES.values())))
    process = kind.bind({p.name: data.draw(st.floats(p.least, p.most)) for p in kind.parameters})
    assert parse_process(process.name) == process


def test_numbers_that_differ_in_their_last_digit_are_different_processes() -> None:
    assert process_name("gamma:cv=1.0000000000000002") != process_name("gamma:cv=1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "gama",
            "no arrival process is called 'gama': did you mean gamma? It is one of poisson, constant, gamma, on-off",
        ),
        ("uniform", "no arrival process is called 'uniform': it is one of poisson, constant, gamma"),
        ("", "no arrival process is called ''"),
        ("Poisson", "did you mean poisson?"),
        ("gamma:shape=3", "gamma has no parameter 'shape': it takes cv"),
        ("gamma:self=3", "gamma has no parameter 'self': it takes cv"),
        ("poisson:cv=3", "poisson has no parameter 'cv': it takes none"),
        ("on-off:of=3", "on-off has no parameter 'of': it takes on, off"),
        ("gamma:3", "'3': write PARAMETER=NUMBER, as in gamma:cv=2"),
        ("gamma:=3", "'=3': write PARAMETER=NUMBER, as in gamma:cv=2"),
        ("linear-ramp:8", "'8': write PARAMETER=NUMBER, as in linear-ramp:to=N"),
        ("gamma:cv=", "cv=: the coefficient of variation of the gaps is a plain number from 0.01 to 20"),
        ("gamma:cv=high", "cv=high: the coefficient of variation of the gaps is a plain number from 0.01 to 20"),
        ("gamma:cv=nan", "cv=nan: the coefficient of variation"),
        ("gamma:cv=0", "cv=0: the coefficient of variation"),
        ("gamma:cv=-1", "cv=-1: the coefficient of variation"),
        ("gamma:cv=20.1", "cv=20.1: the coefficient of variation"),
        ("gamma:cv=2,cv=3", "cv is given twice"),
        ("on-off:on=5s", "on=5s: the length of a burst is a plain number of seconds from 0.001 to 3600"),
        ("on-off:off=inf", "off=inf: the pause after it is a plain number of seconds from 0 to 3600"),
        ("diurnal:period=0", "period=0: the length of a day is a plain number of seconds from 0.001 to 86400"),
        ("spike:share=1.5", "share=1.5: the share of all arrivals that fall into it is a plain number from 0 to 1"),
        ("linear-ramp", "linear-ramp needs to=N, where the rate at the end is a plain number of requests per second"),
        ("exponential-ramp:to=0", "to=0: the rate at the end is a plain number of requests per second from 0.001 to"),
    ],
)
def test_a_mistake_is_told_with_the_option_and_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(f"--arrivals {text!r}: ") + ".*" + re.escape(told)):
        parse_process(text)


@given(text=st.text(max_size=30) | st.from_regex(r"(gamma|spike|poisson):[a-z=,0-9.:]{0,20}", fullmatch=True))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_process_or_a_usage_error(text: str) -> None:
    try:
        name = process_name(text)
    except UsageError:
        return
    assert process_name(name) == name


def test_the_mean_rate_can_be_asked_by_text() -> None:
    assert mean_rate("gamma:cv=3", 2, 60) == 2
    assert mean_rate("linear-ramp:to=8", 2, 60) == pytest.approx(5)
    with pytest.raises(UsageError, match="--arrivals 'ramp'"):
        mean_rate("ramp", 2, 60)
