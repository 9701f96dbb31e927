"""A stream is one: several events at distinct times, and not a finished reply in one lump."""

from __future__ import annotations

from llm_locust.records import Outcome
from llm_locust.smoke.result import Found, failed, passed, undecided
from llm_locust.smoke.server import RequestFailed, SmokedServer

TOKENS = 24
ASKS = ("Write a long story about the sea.", "Count from one to one hundred in words.")
FEWEST = 4
"""Output events from which their times say something."""
LUMP_GAP_US = 100
"""A mean gap below this is no generation (10,000 events a second in one stream): the reply was finished, and then passed
on."""


def check_event_stream(server: SmokedServer) -> Found:
    """Reads replies of some tokens until one has enough events, and looks at when they came."""
    seen = ""
    for text in ASKS:
        asked = server.ask(text, max_tokens=TOKENS)
        reply = asked.reply
        if reply.outcome is Outcome.NOT_STREAMED:
            return failed("the reply came as one piece, not as a stream", f"{reply.error}")
        if reply.outcome is not Outcome.OK:
            raise RequestFailed(asked)
        gaps = reply.gaps_us or []
        events, times = reply.output_events or 0, 1 + sum(gap > 0 for gap in gaps)
        span_ms = sum(gaps) / 1000
        seen = (
            f"{events} output events of {reply.output_tokens} tokens at {times} distinct times, over {span_ms:.1f} ms"
        )
        if events < FEWEST and (reply.output_tokens or 0) < FEWEST:
            continue  # too short a reply to say anything
        if times < 2 or events < 2 or sum(gaps) < LUMP_GAP_US * len(gaps):
            return failed(
                "the reply came in one lump: the server, or something between it and here, holds events back", seen
            )
        if times * 2 < events:
            return failed(f"events come several at a time ({events} at {times} times): TPOT and ITL are bent", seen)
        return passed(seen)
    return undecided(f"the replies have too few tokens to see a stream (fewer than {FEWEST})", seen)
