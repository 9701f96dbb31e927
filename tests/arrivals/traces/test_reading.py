"""What a file may look like, what is wrong with it and how that is said, what is dropped and counted."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.arrivals.traces import lines, read_trace
from llm_locust.records import UsageError

SAMPLES = Path(__file__).parent / "samples"
CSV = "timestamp,input_tokens,output_tokens,session\n"


def written(tmp_path: Path, content: str | bytes) -> Path:
    file = tmp_path / "trace"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def refusal(file: Path | str, format: str | None) -> str:
    with pytest.raises(UsageError) as caught:
        read_trace(file, format)
    return str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("csv", ["timestamp,input_tokens,output_tokens", "1,10,20", "3.5,30,40"]),
        ("csv", ["timestamp,input_tokens,output_tokens", '1,"10",20', "3.5,30,40"]),
        (
            "mooncake",
            [
                '{"timestamp": 1000, "input_length": 10, "output_length": 20, "hash_ids": [1]}',
                '{"timestamp": 3500, "input_length": 30, "output_length": 40, "hash_ids": [1, 2]}',
            ],
        ),
    ],
)
def test_line_ends_a_byte_order_mark_and_a_missing_last_newline_change_nothing(
    tmp_path: Path, format: str, content: list[str], end: str, last: bool, mark: bytes
) -> None:
    raw = mark + (end.join(content) + end * last).encode()
    trace = read_trace(written(tmp_path, raw), format)
    assert trace.time_ns.tolist() == [0, 2_500_000_000]
    assert trace.input_tokens.tolist() == [10, 30]
    assert trace.output_tokens.tolist() == [20, 40]
    assert (trace.read, trace.dropped) == (2, {})
    assert trace.sha256 == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1000])
@pytest.mark.parametrize("sample", ["azure_code.csv", "burstgpt_later_made_up.csv", "bailian_made_up.jsonl"])
def test_how_the_file_is_cut_into_blocks_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, sample: str, block_bytes: int
) -> None:
    whole = read_trace(SAMPLES / sample, sample.split("_")[0])
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    cut = read_trace(SAMPLES / sample, sample.split("_")[0])
    for name in ("time_ns", "input_tokens", "output_tokens", "session", "turn", "parent", "line", "hash_ids"):
        assert getattr(cut, name).tolist() == getattr(whole, name).tolist()
    assert (cut.sha256, cut.dropped, cut.notes) == (whole.sha256, whole.dropped, whole.notes)


@pytest.mark.parametrize("block_bytes", [3, 1 << 20])
def test_a_request_is_found_however_the_file_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    content = "".join(f'{{"timestamp": {9 - n}, "prompt": "é{n}"}}\r\n' + "\r\n" * (n % 2) for n in range(9))
    trace = read_trace(written(tmp_path, content), "jsonl")
    assert [trace.request(row).prompt for row in range(9)] == [f"é{n}" for n in reversed(range(9))]


def test_blank_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, CSV + "\n1,2,3,\n  \n\r\n2,3,4,\n\n"), "csv")
    assert (trace.read, trace.used, trace.dropped) == (6, 2, {"blank line": 4})
    assert trace.line.tolist() == [3, 6]


def test_rows_at_one_time_stay_as_in_the_file(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, CSV + "2,1,1,\n1,2,1,\n2,3,1,\n1,4,1,\n"), "csv")
    assert trace.input_tokens.tolist() == [2, 4, 1, 3]
    assert trace.unsorted == 2


@pytest.mark.parametrize(
    ("format", "content", "said"),
    [
        ("csv", CSV + "x,1,1,\n", ":2: timestamp is 'x', not a number of seconds"),
        ("csv", CSV + "1,1,1,\nnan,1,1,\n", ":3: timestamp is 'nan', not a number of seconds"),
        ("csv", CSV + "1,1,1,\n-inf,1,1,\n", ":3: timestamp is '-inf', not a number of seconds"),
        ("csv", CSV + ",1,1,\n", ":2: timestamp is '', not a number of seconds"),
        ("csv", CSV + "1_0,1,1,\n", ":2: timestamp is '1_0', not a number of seconds"),
        (
            "csv",
            CSV + "1700000000000,1,1,\n",
            ":2: timestamp is '1700000000000': too large for seconds; is it in milli",
        ),
        ("csv", CSV + "1e999999999,1,1,\n", ":2: timestamp is '1e999999999': too large"),
        ("csv", CSV + "1,-5,1,\n", ":2: input_tokens is '-5': a length cannot be negative"),
        ("csv", CSV + "1,many,1,\n", ":2: input_tokens is 'many', not a whole number"),
        ("csv", CSV + "1,1.5,1,\n", ":2: input_tokens is '1.5', not a whole number"),
        ("csv", CSV + "1,2147483648,1,\n", ":2: input_tokens is '2147483648': more tokens than any request has"),
        ("csv", CSV + f"1,{'9' * 40},1,\n", ": more tokens than any request has"),
        ("csv", CSV + "1,1\n", ":2: 2 cells, but the header has 4 columns"),
        ("csv", CSV + "\n1,1,1,a,b\n", ":3: 5 cells, but the header has 4 columns"),
        ("csv", CSV + '1,1,1,"a\n', ":2: not a line of CSV"),
        ("csv", CSV + '1,1,1,"a",b\n', ":2: 5 cells, but the header has 4 columns"),
        ("csv", CSV + "1,1,1,\x1b[31m\n", ":2: the session '\\x1b[31m' has characters that cannot be printed"),
        ("csv", "timestamp,sesion\n1,a\n", ":1: unknown column 'sesion'; the format has timestamp, input_tokens,"),
        (
            "csv",
            "time_stamp,session\n1,a\n",
            ":1: no column 'timestamp' in the header (is it 'time_stamp'?); the columns",
        ),
        ("csv", "timestamp,timestamp\n1,2\n", ":1: two columns are called 'timestamp'"),
        ("csv", CSV, ": no rows that can be used (it has only a header)"),
        ("csv", CSV + "1,0,1,\n\n", ": no rows that can be used (1 dropped: blank line, 1 dropped: no input tokens)"),
        ("csv", "timestamp\n-9e9\n9e9\n", ": its times span more than 292 years"),
        ("azure", "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n", ":2: TIMESTAMP is 'now', not a date and time"),
        (
            "azure",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-29 00:00:00,1,1\n",
            ":2: TIMESTAMP is '2023-02-29 00:00:00', not a date and time",
        ),
        (
            "mooncake",
            '{"timestamp": 1, "input_length": "5", "output_length": 1}',
            ":1: Expected int, got str - at $.input",
        ),
        (
            "mooncake",
            '{"timestamp": "1", "input_length": 5, "output_length": 1}',
            ":1: timestamp is '\"1\"', not a number",
        ),
        (
            "mooncake",
            '{"timestamp": null, "input_length": 5, "output_length": 1}',
            ":1: timestamp is 'null', not a num",
        ),
        (
            "mooncake",
            '{"timestamp": 1, "input_length": -5, "output_length": 1}',
            ":1: Expected int >= 0 - at $.input_le",
        ),
        ("mooncake", '{"timestamp": NaN, "input_length": 5, "output_length": 1}', " is not JSON ("),
        (
            "mooncake",
            '{"timestamp": 1, "output_length": 1}',
            ":1: Object missing required field input_length; a line is",
        ),
        ("mooncake", "[1, 2]", ":1: Expected object, got array; a line is like {"),
        ("jsonl", '{"timestamp": 1}', ':1: give either "prompt" or "messages"'),
        ("jsonl", '{"timestamp": 1, "prompt": ""}', ":1: the prompt is empty"),
        (
            "jsonl",
            '{"timestamp": 1, "prompt": "x", "max_tokens": -1}',
            ":1: max_tokens is -1: a length cannot be negative",
        ),
        ("jsonl", '{"timestamp": "1 May", "prompt": "x"}', ":1: timestamp is '1 May', neither seconds nor an ISO 8601"),
        (
            "jsonl",
            '{"timestamp": 1, "prompt": "x"}\n{"timestamp": "2026-01-01T00:00:00Z", "prompt": "x"}',
            ":2: timestamp is '\"2026-01-01T00:00:00Z\"', but on the lines before it is a number",
        ),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_reason(tmp_path: Path, format: str, content: str, said: str) -> None:
    file = written(tmp_path, content)
    message = refusal(file, format)
    assert message.startswith(str(file))
    assert said in message


@pytest.mark.parametrize("where", [0, 1])
def test_what_is_not_utf8_is_named_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: int) -> None:
    rows = [b"1,1,1,a\n", b"2,1,1,b\n"]
    rows[where] = rows[where].replace(b"1,1,", b"1,1,\xff")
    file = written(tmp_path, CSV.encode() + b"".join(rows))
    assert refusal(file, "csv") == f"{file}:{where + 2}: not UTF-8 text"
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    assert refusal(file, "csv") == f"{file}:{where + 2}: not UTF-8 text"


def test_a_file_that_cannot_be_a_trace_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, None) == f"{tmp_path} is a directory: name the trace file in it"
    assert "No such file" in refusal(tmp_path / "none", None)
    for content in (b"", b"\xef\xbb\xbf", b"\n \r\n"):
        assert refusal(written(tmp_path, content), None).endswith("trace is empty: give a file with rows")
    packed = gzip.compress((SAMPLES / "azure_code.csv").read_bytes())
    assert refusal(written(tmp_path, packed), "azure").endswith("is packed (gzip): unpack it first")


def test_a_line_without_end_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    assert "this is not a text file of lines" in refusal(written(tmp_path, CSV + "1" * 5000), "csv")


@pytest.mark.parametrize(
    ("sample", "asked", "hint"),
    [
        ("mooncake_conversation.jsonl", "azure", "; it looks like --format mooncake"),
        ("mooncake_conversation.jsonl", "bailian", "; it looks like --format mooncake"),
        ("mooncake_conversation.jsonl", "jsonl", ""),
        ("azure_code.csv", "mooncake", "; it looks like --format azure"),
        ("azure_code.csv", "burstgpt", "; it looks like --format azure"),
        ("burstgpt_1.csv", "csv", "; it looks like --format burstgpt"),
    ],
)
def test_a_wrong_format_is_refused_at_the_first_line_with_the_one_it_looks_like(
    sample: str, asked: str, hint: str
) -> None:
    message = refusal(SAMPLES / sample, asked)
    assert message.startswith(f"{SAMPLES / sample}:1: ")
    assert message.endswith(hint)


def test_a_wrong_guess_names_the_columns_that_there_are() -> None:
    assert "the columns are 'Timestamp', 'Model', 'Request tokens'," in refusal(SAMPLES / "burstgpt_1.csv", "azure")


def test_a_format_that_cannot_be_found_is_asked_for(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "a,b\n1,2\n"), None)
    assert "its first line ('a,b') is of no known trace format" in message
    assert "name it with --format (in a run --trace-format), one of azure" in message
    assert "one of azure, burstgpt, mooncake, bailian, csv, jsonl" in message
    assert "unknown trace format 'sharegpt'" in refusal(tmp_path / "trace", "sharegpt")


def test_rows_that_are_told_in_whole_seconds_are_no_bins(tmp_path: Path) -> None:
    # Several a second, every second: their distances are all 1 s, which is how times are written.
    content = "timestamp\n" + "".join(f"{n // 3}\n" for n in range(90))
    trace = read_trace(written(tmp_path, content), "csv")
    assert (trace.resolution_ns, trace.binned) == (1_000_000_000, False)


def test_independent_arrivals_are_no_bins(tmp_path: Path) -> None:
    times = np.cumsum(np.random.default_rng(3).exponential(10, 500)).round(3)
    content = "timestamp\n" + "".join(f"{time:.3f}\n" * 3 for time in times)
    trace = read_trace(written(tmp_path, content), "csv")
    assert (trace.resolution_ns, trace.binned) == (1_000_000, False)


ROWS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 10**7), st.integers(-1, 3), st.integers(-1, 3), st.sampled_from(["", "a", "b"])),
        st.just(None),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS)
def test_every_row_is_used_or_dropped_for_a_reason_and_what_is_used_is_sorted(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, str] | None]
) -> None:
    def cell(number: int) -> str:
        return "" if number == -1 else str(number)

    file = tmp_path_factory.mktemp("rows") / "trace.csv"
    file.write_text(
        CSV
        + "".join(
            "\n" if row is None else f"{row[0] / 1000:.3f},{cell(row[1])},{cell(row[2])},{row[3]}\n" for row in rows
        )
    )
    # The same by Python's own sort, which is stable.
    due = sorted((row for row in rows if row is not None and row[1] != 0 and row[2] != 0), key=lambda row: row[0])
    if not due:
        with pytest.raises(UsageError, match="no rows that can be used"):
            read_trace(file, "csv")
        return
    trace = read_trace(file, "csv")
    assert trace.read == len(rows) == trace.used + sum(trace.dropped.values())
    assert trace.time_ns.tolist() == [(row[0] - due[0][0]) * 1_000_000 for row in due]
    assert trace.input_tokens.tolist() == [row[1] for row in due]
    assert trace.output_tokens.tolist() == [row[2] for row in due]
    assert [trace.session_name(row) or "" for row in range(len(due))] == [row[3] for row in due]
    for name in ("a", "b"):
        turns = [int(trace.turn[row]) for row in range(len(due)) if due[row][3] == name]
        assert turns == list(range(1, len(turns) + 1))
