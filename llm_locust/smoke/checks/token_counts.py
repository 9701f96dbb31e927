"""The prompt tokens of the usage are those that the server's own tokenizer counts."""

from __future__ import annotations

from llm_locust.records import Outcome
from llm_locust.smoke.result import Found, failed, not_applicable, passed, undecided
from llm_locust.smoke.server import USERS, SmokedServer
from llm_locust.telemetry.tokenizing import CannotCount

TEXT = "The quick brown fox jumps over the lazy dog; 1234567890 times, nonetheless."
MARKS = 2
"""A begin and an end mark that only one of the two counts."""


def check_token_counts(server: SmokedServer) -> Found:
    """Compares the usage of a chat, and of a completion where there are any, with ``/tokenize``."""
    try:
        tokenizer = server.tokenizer()
    except CannotCount as why:
        return not_applicable(f"the server has no tokenizer to ask: {why}")
    seen: list[str] = []
    apart = 0
    for dialect in ("openai-chat", "openai-completions"):
        asked = server.ask(TEXT, max_tokens=1, user=USERS[dialect])
        if dialect == "openai-completions" and asked.reply.outcome is Outcome.HTTP_ERROR:
            seen.append(f"{asked.path}: not there (HTTP {asked.reply.status})")
            continue
        told = asked.or_fail().reply.prompt_tokens
        if told is None:
            return undecided(f"the usage of {asked.path} names no prompt tokens")
        try:
            counted = len(tokenizer.tokens(asked.body))
        except CannotCount as why:
            return undecided(f"the tokenizer does not answer: {why}")
        apart = max(apart, abs(counted - told))
        seen.append(f"{asked.path}: {told} by usage, {counted} by {tokenizer.counted_by}")
    if apart > MARKS:
        return failed(f"usage and tokenizer are {apart} tokens apart for the same request", "; ".join(seen))
    return passed("; ".join(seen) + (" (a begin or end mark apart)" if apart else ""))
