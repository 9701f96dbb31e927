"""Bytes of CSV to columns: what was written comes back to the digit, and what is broken is named."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_locust.analysis.csv_blocks import Block, Layout, line_blocks, parse_block
from llm_locust.records import UsageError

LAYOUT = Layout(
    ("name", "index", "time_ns", "gaps_us", "speed", "note", "last"),
    frozenset({"name", "note"}),
    required=("index",),
    floats=frozenset({"speed"}),
    gaps="gaps_us",
)
HERE = Path("worker-0.csv")

Row = tuple[str | None, int, int | None, list[int], float | None, str | None, int | None]


def encoded(rows: list[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in row] for row in rows
    )
    return text.getvalue().encode()


def decoded(block: Block) -> list[Row]:
    ends = np.cumsum(block.gap_counts)
    gaps = [block.gaps_us[end - n : end].tolist() for end, n in zip(ends, block.gap_counts, strict=True)]

    def cells(name: str) -> list[Any]:
        return [None if pd.isna(cell) else cell for cell in pd.Series(block.columns[name])]

    return list(
        zip(
            cells("name"), cells("index"), cells("time_ns"), gaps, cells("speed"), cells("note"), cells("last"),
            strict=True,
        )
    )  # fmt: skip


# An empty text is an empty cell: a null.
texts = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=8)
integers = st.integers(-(2**63), 2**63 - 1)
rows = st.lists(
    st.tuples(
        texts,
        integers,
        st.none() | integers,
        st.lists(st.integers(0, 2**33), max_size=5),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        texts,
        st.none() | integers,
    ),
    min_size=1,
    max_size=6,
)


@given(rows)
def test_what_was_written_comes_back(rows: list[Row]) -> None:
    assert decoded(parse_block(encoded(rows), LAYOUT, HERE, 2)) == rows


@given(rows, st.integers(1, 40))
def test_blocks_of_any_size_hold_whole_lines_and_nothing_is_lost(rows: list[Row], size: int) -> None:
    data = encoded(rows)
    blocks = list(line_blocks(io.BytesIO(data + b"half a line"), size))
    assert b"".join(blocks) == data
    assert [row for block in blocks for row in decoded(parse_block(block, LAYOUT, HERE, 2))] == rows


def test_a_file_with_the_line_ends_of_another_system_reads_the_same() -> None:
    data = b'a,1,2,3 4,0.1,"x, y",5\n'
    assert decoded(parse_block(data.replace(b"\n", b"\r\n"), LAYOUT, HERE, 2)) == [
        ("a", 1, 2, [3, 4], 0.1, "x, y", 5),
    ]


def test_nanoseconds_keep_their_last_digit() -> None:
    block = parse_block(b"a,1,1790000000123456789,,,,9223372036854775807\n", LAYOUT, HERE, 2)
    assert block.columns["time_ns"][0] == 1_790_000_000_123_456_789
    assert block.columns["last"][0] == 2**63 - 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a,1,2o,3,,,\n", "line 3: time_ns is '2o', not an integer"),
        (b"a,1,2.0,3,,,\n", "line 3: time_ns is '2.0', not an integer"),
        (b"a,1,9223372036854775808,3,,,\n", "line 3: time_ns is '9223372036854775808', not an integer"),
        (b"a,,2,3,,,\n", "line 3: index is empty"),
        (b"a,1,2,3  4,,,\n", "line 3: gaps_us is not integers separated by spaces"),
        (b"a,1,2,3 four,,,\n", "line 3: gaps_us is not integers separated by spaces"),
        (b"a,1,2,-3,,,\n", "line 3: gaps_us is not integers separated by spaces"),
        (b"a,1,2,3,fast,,\n", "line 3: speed is 'fast', not a number"),
        (b"a,1,2,3,,\n", "line 3: 6 cells, but there are 7 columns"),
        (b"a,1,2,3,,,,\n", "line 3: 8 cells, but there are 7 columns"),
        (b"\xff,1,2,3,,,\n", "line 3: not UTF-8 text"),
    ],
)
def test_a_broken_line_is_named_with_its_cell(line: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_block(b"a,1,2,3,,,\n" + line, LAYOUT, HERE, 2)
    assert str(caught.value) == f"worker-0.csv, {message}"
