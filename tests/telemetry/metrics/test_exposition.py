"""The remembered way to read a line is the parser's way: held against prometheus_client itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.telemetry.metrics.exposition import LINES_AT_A_TIME, Series, plain_name, read_exposition

PAGES = Path(__file__).parent / "pages"

LABEL_TEXT = st.text(st.sampled_from('ab \\"{}=,#\t1é'), max_size=6)
NAMES = st.from_regex(r"[a-z_:][a-z0-9_:]{0,5}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,3}", fullmatch=True)
NUMBERS = st.one_of(
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.from_regex(r"[+-]?[0-9]{1,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1_0", "0x1", "1e999", ".5", "", "abc", "9" * 400]),
)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@st.composite
def heads(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(LABEL_NAMES, LABEL_TEXT, max_size=3))
    inner = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    return draw(NAMES) + (f"{{{inner}}}" if labels or draw(st.booleans()) else "")


TAILS = st.tuples(st.sampled_from([" ", "  ", "\t"]), NUMBERS, st.sampled_from(["", " 1700", " "])).map("".join)


def by_the_parser(line: str) -> list[Series]:
    """What prometheus_client makes of the line; nothing when it refuses it."""
    try:
        return [
            Series(plain_name(sample.name), dict(sample.labels), float(sample.value))
            for family in text_string_to_metric_families(line)
            for sample in family.samples
        ]
    except (ValueError, OverflowError):
        return []


def alike(one: list[Series], other: list[Series]) -> bool:
    return len(one) == len(other) and all(
        a[:2] == b[:2] and (a.value == b.value or (math.isnan(a.value) and math.isnan(b.value)))
        for a, b in zip(one, other, strict=True)
    )


@given(heads(), st.lists(TAILS, min_size=1, max_size=4))
@settings(max_examples=400, deadline=None)
def test_a_line_reads_as_the_parser_reads_it_the_first_time_and_every_time_after(head: str, tails: list[str]) -> None:
    for text in (head + tail for tail in tails):
        assert alike(read_exposition(text.encode()).series, by_the_parser(text)), text


@given(st.text(st.sampled_from('ab_:{}"=,\\ \t1.e'), max_size=24))
@settings(max_examples=400, deadline=None)
def test_whatever_stands_in_a_line_is_never_read_as_more_than_the_parser_reads(line: str) -> None:
    for text in (line, f"{line} 1"):
        found = read_exposition(text.encode()).series
        assert found == [] or alike(found, by_the_parser(text)), text


def test_an_exemplar_is_not_taken_for_the_value() -> None:
    line = 'a_bucket{le="0.5"} 3 # {trace_id="9f"} 0.42'
    for _ in range(2):
        assert read_exposition(line.encode()).series == [Series("a_bucket", {"le": "0.5"}, 3.0)]


@pytest.mark.parametrize("name", ["vllm.txt", "llamacpp.txt"])
def test_a_real_page_reads_as_the_parser_reads_it(name: str) -> None:
    body = (PAGES / name).read_bytes()
    due = [series for line in body.decode().splitlines() for series in by_the_parser(line)]
    assert len(due) > 10
    for _ in range(2):
        assert alike(read_exposition(body).series, due)


def test_a_long_page_lets_others_have_their_turn() -> None:
    body = "".join(f'a{{k="{k}"}} 1\n' for k in range(3 * LINES_AT_A_TIME)).encode()
    turns: list[int] = []
    read_exposition(body, pause=lambda: turns.append(1))
    assert len(turns) == 3
