"""Every dialect against the synthetic engine, whose replies are known beforehand: streamed, and in one piece."""

from __future__ import annotations

from llm_locust.smoke.result import Check, Found, failed, passed
from llm_locust.smoke.server import USERS, Asked, RequestFailed, SmokedServer
from llm_locust.streaming import DIALECTS

TEXT = "Which words come next?"
TOKENS = 8


def dialect_checks(server: SmokedServer) -> list[Check]:
    """A check for each dialect that there is."""
    return [Check.of(f"dialect {name}", _one(server, name)) for name in DIALECTS]


def _one(server: SmokedServer, dialect: str) -> Found:
    user = USERS.get(dialect)
    if user is None:
        return failed("no user class here speaks it, so nothing was asked")
    try:
        streamed = server.ask(TEXT, max_tokens=TOKENS, user=user).or_fail()
        whole = server.ask(TEXT, max_tokens=TOKENS, user=user, streamed=False).or_fail()
    except RequestFailed as error:
        return failed(str(error))
    reply = streamed.reply
    times = 1 + sum(gap > 0 for gap in reply.gaps_us or [])
    seen = (
        f"{streamed.path}: {reply.output_events} events at {times} times, {reply.output_tokens} output and "
        f"{reply.prompt_tokens} prompt tokens by {reply.output_tokens_source}, finish {reply.finish_reason}; in one piece "
        f"{whole.reply.output_tokens} tokens, {'the same' if _alike(streamed, whole) else 'another'} text"
    )
    if reply.output_events != TOKENS or times < 2:
        return failed(f"{TOKENS} events at distinct times were due", seen)
    if any(
        a.reply.output_tokens != TOKENS or not a.counted or a.reply.prompt_tokens is None for a in (streamed, whole)
    ):
        return failed(f"{TOKENS} output tokens by the server's own count were due, and a count of the prompt's", seen)
    if {streamed.reply.finish_reason, whole.reply.finish_reason} != {"length"}:
        return failed("finish reason length was due", seen)
    if not _alike(streamed, whole):
        return failed("the same text was due in one piece", seen)
    return passed(seen)


def _alike(streamed: Asked, whole: Asked) -> bool:
    return bool(streamed.text) and streamed.text.split() == whole.text.split()
