"""Each trace format on a sample of it: what stands in the file is in the arrays, exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llm_locust.arrivals.traces import FORMATS, Trace, read_trace
from llm_locust.records import NS_PER_S, UsageError

SAMPLES = Path(__file__).parent / "samples"


def written(tmp_path: Path, content: str | bytes, name: str = "trace") -> Path:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def unknown(column: np.ndarray) -> bool:
    return bool((column == -1).all())


def seconds(trace: Trace) -> list[float]:
    return (trace.time_ns / NS_PER_S).tolist()


def test_azure_times_are_read_to_their_seventh_decimal_without_a_float() -> None:
    trace = read_trace(SAMPLES / "azure_code.csv", "azure")
    # 18:17:03.9799600 is 0; 18:17:04.0319600, 04.0781490, 04.1206440 and 04.4249540 follow.
    assert trace.time_ns[:5].tolist() == [0, 52_000_000, 98_189_000, 140_684_000, 444_994_000]
    # 18:17:38.2643990 - 18:17:03.9799600
    assert trace.time_ns[-1] == 34_284_439_000
    assert trace.input_tokens[:3].tolist() == [4808, 3180, 110]
    assert trace.output_tokens[:3].tolist() == [10, 8, 27]
    assert trace.line.tolist() == list(range(2, 42))
    assert (trace.read, trace.used, trace.dropped, trace.unsorted, trace.notes) == (40, 40, {}, 0, ())
    assert (trace.resolution_ns, trace.binned, trace.block_tokens) == (100, False, None)
    assert unknown(trace.session)
    assert unknown(trace.turn)
    assert trace.blocks(0).tolist() == []
    assert trace.where(39).endswith("azure_code.csv:41")


def test_the_sample_of_azure_has_the_traps_of_the_real_file() -> None:
    raw = (SAMPLES / "azure_code.csv").read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n") == 40
    assert not raw.endswith(b"\n")
    assert b".9799600," in raw


@pytest.mark.parametrize(
    ("time", "ns"),
    [
        ("2024-05-10 00:00:01", 1_000_000_000),
        ("2024-05-10 00:00:00.009930+00:00", 9_930_000),
        ("2024-05-10T00:00:00.5Z", 500_000_000),
        ("2024-05-10 00:00:00.1234567+00:00", 123_456_700),
        ("2024-05-10 02:00:01+02:00", 1_000_000_000),
        ("2024-05-11 00:00:00", 86_400 * NS_PER_S),
        ("2024-05-09 23:30:00-00:31", 60 * NS_PER_S),
    ],
)
def test_azure_times_may_have_offsets_other_decimals_or_none(tmp_path: Path, time: str, ns: int) -> None:
    file = written(tmp_path, f"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00+00:00,1,1\n{time},2,3\n")
    trace = read_trace(file, "azure")
    assert trace.time_ns.tolist() == [0, ns]


def test_azures_multimodal_columns_are_found_by_name_and_rows_with_images_are_kept_and_counted(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n"
        "2025-01-01 00:00:00.0000001,0,10,11\r\n2025-01-01 00:00:00.0000003,2,20,21",
    )
    trace = read_trace(file, "azure")
    assert trace.time_ns.tolist() == [0, 200]
    assert trace.input_tokens.tolist() == [10, 20]
    assert trace.output_tokens.tolist() == [11, 21]
    assert trace.notes == ("Rows with images, of which only the tokens are kept: 1.",)


def test_burstgpt_times_are_seconds() -> None:
    trace = read_trace(SAMPLES / "burstgpt_1.csv", "burstgpt")
    assert seconds(trace) == [0, 40, 113]
    assert trace.input_tokens.tolist() == [472, 1087, 417]
    assert trace.output_tokens.tolist() == [18, 230, 276]
    assert (trace.read, trace.used, trace.resolution_ns, trace.unit) == (3, 3, NS_PER_S, "Timestamp in s")
    assert trace.seconds == 114.0


def test_later_burstgpt_columns_are_found_by_name_and_rows_without_tokens_are_dropped_and_counted() -> None:
    trace = read_trace(SAMPLES / "burstgpt_later_made_up.csv", "burstgpt")
    assert (trace.read, trace.used) == (5, 3)
    assert trace.dropped == {"no output tokens": 1, "no input tokens": 1}
    assert seconds(trace) == [0, 4, 6]
    assert trace.input_tokens.tolist() == [400, 450, 120]
    assert [trace.session_name(row) for row in range(3)] == ["a7", "a7", "b2"]
    assert trace.turn.tolist() == [1, 2, 1]
    assert trace.line.tolist() == [2, 4, 6]


def test_mooncake_times_are_milliseconds_in_bins_of_three_seconds_and_blocks_have_512_tokens() -> None:
    trace = read_trace(SAMPLES / "mooncake_conversation.jsonl", "mooncake")
    assert np.unique(trace.time_ns // 1_000_000).tolist() == [0, 3000, 5999, 9000, 12000, 15000]
    assert trace.used == 60
    assert (trace.resolution_ns, trace.binned, trace.block_tokens) == (3 * NS_PER_S, True, 512)
    assert trace.seconds == 18.0
    assert trace.blocks(0).tolist() == list(range(14))
    assert trace.blocks(1).tolist() == [0, *range(14, 28)]
    assert trace.blocks(12).tolist()[:3] == [0, 415, 416]
    assert [len(trace.blocks(row)) for row in range(60)] == [
        -(-tokens // 512) for tokens in trace.input_tokens.tolist()
    ]
    assert "3 s apart" in trace.notes[0]


def test_a_bailian_session_is_everything_that_descends_from_one_root() -> None:
    trace = read_trace(SAMPLES / "bailian_made_up.jsonl", "bailian")
    # Chats 10, 20, 31, 32, 11, 13 by time; 12 had no output. 31 and 32 follow a chat 30 that is not in the file.
    assert seconds(trace) == [0, 0.5, 1.5, 2.0, 2.75, 5.625]
    assert trace.line.tolist() == [1, 3, 4, 5, 2, 7]
    assert [trace.session_name(row) for row in range(6)] == ["10", "20", "30", "30", "10", "10"]
    assert trace.turn.tolist() == [1, 1, 2, 2, 2, 4]
    assert trace.dropped == {"no output tokens": 1}
    assert (trace.unsorted, trace.block_tokens, trace.resolution_ns) == (3, 16, 1_000_000)


def test_a_bailian_chat_follows_its_nearest_ancestor_that_was_kept() -> None:
    trace = read_trace(SAMPLES / "bailian_made_up.jsonl", "bailian")
    assert trace.parent.tolist() == [-1, -1, -1, -1, 0, 4]


def test_blocks_go_with_their_rows_when_rows_are_sorted() -> None:
    trace = read_trace(SAMPLES / "bailian_made_up.jsonl", "bailian")
    blocks = [trace.blocks(row).tolist() for row in range(6)]
    assert blocks == [[1, 2], [4], [5, 6, 7, 8], [5, 6, 9], [1, 2, 3], [1, 2, 3, 10, 11]]


def test_bailian_says_which_conversations_began_before_it() -> None:
    notes = read_trace(SAMPLES / "bailian_made_up.jsonl", "bailian").notes
    assert notes[0] == "Rows of conversations that began before the trace: 2."


def chat(number: int, parent: int) -> str:
    return (
        f'{{"chat_id": {number}, "parent_chat_id": {parent}, "timestamp": {number}, "input_length": 1, '
        '"output_length": 1, "type": "text", "turn": 1, "hash_ids": []}\n'
    )


@pytest.mark.parametrize(
    ("line", "circle"),
    [(1, [(1, 1)]), (1, [(1, 2), (2, 1)]), (1, [(1, 2), (2, 3), (3, 1)]), (2, [(5, -1), (1, 2), (2, 1)])],
)
def test_chats_that_descend_from_themselves_are_refused(
    tmp_path: Path, line: int, circle: list[tuple[int, int]]
) -> None:
    file = written(tmp_path, "".join(chat(*link) for link in circle))
    with pytest.raises(UsageError, match=rf"trace:{line}: the chain of parent_chat_id leads back"):
        read_trace(file, "bailian")


def test_a_long_conversation_is_one_session_whatever_the_order_of_its_lines(tmp_path: Path) -> None:
    links = [(0, -1)] + [(number, number - 1) for number in range(1, 1000)]
    trace = read_trace(written(tmp_path, "".join(chat(*link) for link in reversed(links))), "bailian")
    assert trace.session_names == ["0"]
    assert trace.parent.tolist() == list(range(-1, 999))
    assert trace.unsorted == 999


def test_ones_own_csv_needs_only_times(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "timestamp\n5\n7.25\n"), "csv")
    assert seconds(trace) == [0, 2.25]
    assert unknown(trace.input_tokens)
    assert unknown(trace.output_tokens)
    assert unknown(trace.session)
    assert trace.resolution_ns == 10_000_000


def test_ones_own_csv_has_its_columns_in_any_order_and_empty_cells_are_unknown(tmp_path: Path) -> None:
    content = (
        "session,output_tokens,timestamp,input_tokens\n"
        '"a, b",3,1700000000.000000001,\n,4.0,1.7e9,5\n"a, b",,1700000001,6\n'
    )
    trace = read_trace(written(tmp_path, content), "csv")
    assert trace.time_ns.tolist() == [0, 1, NS_PER_S]
    assert trace.line.tolist() == [3, 2, 4]
    assert trace.input_tokens.tolist() == [5, -1, 6]
    assert trace.output_tokens.tolist() == [4, 3, -1]
    assert [trace.session_name(row) for row in range(3)] == [None, "a, b", "a, b"]
    assert trace.turn.tolist() == [-1, 1, 2]
    assert (trace.unsorted, trace.resolution_ns) == (1, 1)


LOG = (
    '{"timestamp": "2026-01-02T03:04:06.5Z", "messages": [{"role": "user", "content": "Zwei \\u00e4"}], "max_tokens": 9}\n'
    "\n"
    '{"timestamp": "2026-01-02T03:04:05+00:00", "prompt": "één", "output_tokens": 4, "input_tokens": 2, '
    '"session": 7, "slice": "faq", "id": "r1", "model": "m"}'
)


def test_ones_own_log_keeps_its_requests_in_the_file_and_finds_them_by_row(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, b"\xef\xbb\xbf" + LOG.encode()), "jsonl")
    assert seconds(trace) == [0, 1.5]
    assert trace.line.tolist() == [3, 1]
    assert trace.input_tokens.tolist() == [2, -1]
    assert trace.output_tokens.tolist() == [4, 9]
    assert (trace.read, trace.dropped) == (3, {"blank line": 1})
    first, second = trace.request(0), trace.request(1)
    assert (first.prompt, first.slice, first.id, first.session, first.max_tokens) == ("één", "faq", "r1", 7, None)
    assert (second.messages, second.max_tokens) == ([{"role": "user", "content": "Zwei ä"}], 9)
    assert [trace.session_name(row) for row in (0, 1)] == ["7", None]
    assert trace.notes[0] == "Rows whose output length is a limit (max_tokens) and not what came: 1."


def test_a_log_that_was_changed_after_it_was_read_is_not_read_on(tmp_path: Path) -> None:
    file = written(tmp_path, LOG)
    trace = read_trace(file, "jsonl")
    file.write_text(LOG + "\n\n")
    with pytest.raises(UsageError, match="was changed after the trace had been read"):
        trace.request(0)


def test_a_log_that_is_gone_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, LOG)
    trace = read_trace(file, "jsonl")
    file.unlink()
    with pytest.raises(UsageError, match="trace: cannot be read again"):
        trace.request(0)


def test_a_trace_without_requests_has_none_to_give() -> None:
    with pytest.raises(ValueError, match="a trace of format azure holds no prompts"):
        read_trace(SAMPLES / "azure_code.csv", "azure").request(0)


@pytest.mark.parametrize(
    ("sample", "format"),
    [
        ("azure_code.csv", "azure"),
        ("burstgpt_1.csv", "burstgpt"),
        ("burstgpt_later_made_up.csv", "burstgpt"),
        ("mooncake_conversation.jsonl", "mooncake"),
        ("bailian_made_up.jsonl", "bailian"),
    ],
)
def test_a_format_is_known_by_the_first_line(sample: str, format: str) -> None:
    assert read_trace(SAMPLES / sample).format == format


def test_ones_own_formats_are_known_by_the_first_line_too(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, "timestamp,output_tokens\n1,1\n")).format == "csv"
    assert read_trace(written(tmp_path, LOG)).format == "jsonl"
    assert read_trace(written(tmp_path, '{"timestamp": 1, "prompt": "x"}')).format == "jsonl"


def test_every_format_goes_by_its_registered_name() -> None:
    assert [of.name for of in FORMATS.values()] == list(FORMATS)
