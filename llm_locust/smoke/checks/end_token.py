"""A reply ends by itself: with finish reason ``stop``, and without the mark of its end in the text."""

from __future__ import annotations

import re

from llm_locust.records import Outcome
from llm_locust.smoke.result import Found, failed, passed, undecided
from llm_locust.smoke.server import RequestFailed, SmokedServer

ASKS = ("Reply with the single word OK.", "What is two plus two? Answer with one number.", "Say hello.")
MOST_EVENTS = 512
"""Output events after which a reply is not waited for any longer."""

MARKS = re.compile(
    r"<\|[A-Za-z0-9_ ]{2,40}\|>"  # ChatML, Llama 3, Phi, gpt-oss, ...
    r"|<｜[^｜<>]{2,40}｜>"  # DeepSeek, in its own bars
    r"|</s>|<eos>|<end_of_turn>|<turn\|>|\[/?INST\]"
)
"""Marks of the beginning and end of turns, as templates of common models write them."""


def check_end_token(server: SmokedServer) -> Found:
    """Asks for short replies without an output limit of ours until one ends by itself."""
    seen = "nothing ended"
    for text in ASKS:
        asked = server.ask(text, max_tokens=None, leave_after_events=MOST_EVENTS)
        reply = asked.reply
        seen = (
            f"{asked.text[:80]!r} after {reply.output_events} output events, finish_reason {reply.finish_reason or '-'}"
        )
        mark = MARKS.search(asked.text)
        if mark is not None:
            around = asked.text[max(mark.start() - 20, 0) : mark.end() + 20]
            return failed(f"the text holds the end mark {mark[0]!r}: the server does not end there", repr(around))
        if reply.outcome is Outcome.OK and reply.finish_reason == "stop":
            return passed(seen)
        if reply.outcome is Outcome.OK and reply.finish_reason != "length":
            return failed(f"a reply that ended by itself has finish_reason {reply.finish_reason!r}, not 'stop'", seen)
        if reply.outcome is Outcome.TIMEOUT:
            return undecided(f"a short reply had not ended within {server.deadline_s:g} s", seen)
        if reply.outcome not in (Outcome.OK, Outcome.CANCELLED):
            raise RequestFailed(asked)
    return undecided(
        f"no reply to {len(ASKS)} short questions ended within {MOST_EVENTS} output events: the model is talkative or "
        "thinks for long, or its end token is not the one that the server stops at",
        seen,
    )
