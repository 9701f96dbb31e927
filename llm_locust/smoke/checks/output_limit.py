"""The output limit is kept, the finish reason says that it was, and the usage counts exactly so many."""

from __future__ import annotations

from llm_locust.smoke.result import Found, failed, passed, undecided
from llm_locust.smoke.server import Asked, SmokedServer

LIMIT = 16
ASKS = ("Write a long story about the sea.", "Count from one to one hundred in words.")


def check_output_limit(server: SmokedServer) -> Found:
    """Asks for more than it allows; a reply that ends by itself before is asked for once more in other words."""
    found = undecided("every reply ended by itself before the limit")
    for text in ASKS:
        found = _judge(server.ask(text, max_tokens=LIMIT).or_fail())
        if found.result != "undecided":
            break
    return found


def _judge(asked: Asked) -> Found:
    reply = asked.reply
    tokens, events, reason = reply.output_tokens, reply.output_events or 0, reply.finish_reason
    counted = f"{tokens} output tokens by usage" if asked.counted else "no count by usage"
    seen = f"max_tokens {LIMIT}: {counted}, {events} output events, finish_reason {reason or '-'}"
    if events > LIMIT or (asked.counted and (tokens or 0) > LIMIT):
        return failed("more was generated than the limit allows", seen)
    if not asked.counted:
        return undecided("the server does not count its output tokens, so the limit cannot be held against them", seen)
    if tokens == LIMIT:
        return (
            passed(seen)
            if reason == "length"
            else failed(f"finish_reason at the limit is {reason!r}, not length", seen)
        )
    if reason == "length":
        return failed(f"finish_reason is length, and the usage counts {tokens} of {LIMIT} tokens", seen)
    return undecided("every reply ended by itself before the limit", seen)
