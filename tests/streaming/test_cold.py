"""Which requests were cold: those whose reply reports a load that is a real one."""

from __future__ import annotations

import msgspec
import pytest

from llm_locust.records import Outcome
from llm_locust.streaming import Reply, ReplyDecoder, get_dialect
from llm_locust.streaming.cold import was_cold

MS = 1_000_000


def reply(*lines: dict[str, object], dialect: str = "ollama-generate", streamed: bool = True) -> Reply:
    content = b"\n".join(map(msgspec.json.encode, lines)) + b"\n"
    kind = "application/x-ndjson" if streamed else "application/json"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    decoder = ReplyDecoder(get_dialect(dialect), streamed=streamed)
    decoder.feed(head.encode() + content, 1)
    return decoder.finish(2)


@pytest.mark.parametrize(
    ("load_ms", "cold"),
    [(None, None), (0, False), (8, False), (60, False), (249.999_999, False), (250, True), (4200, True)],
)
def test_a_load_of_a_quarter_of_a_second_is_a_real_one(load_ms: float | None, cold: bool | None) -> None:
    assert was_cold(None if load_ms is None else round(load_ms * MS)) is cold


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("load_ns", "cold"), [(2_400 * MS, True), (9 * MS, False)])
def test_the_last_line_of_ollama_tells(streamed: bool, load_ns: int, cold: bool) -> None:
    last = {"response": "hi", "done": True, "done_reason": "stop", "eval_count": 1, "load_duration": load_ns}
    found = reply(last, streamed=streamed)
    assert (found.outcome, found.load_duration_ns, found.cold) == (Outcome.OK, load_ns, cold)


def test_a_reply_that_says_nothing_of_a_load_is_neither() -> None:
    assert reply({"response": "hi", "done": False}, {"response": "", "done": True}).cold is None


def test_a_reply_that_was_not_finished_is_neither() -> None:
    found = reply({"response": "hi", "done": False})
    assert (found.outcome, found.cold) == (Outcome.TRUNCATED, None)
