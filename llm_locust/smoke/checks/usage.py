"""The server counts: ``stream_options.include_usage`` is answered, and a whole reply counts the same prompt."""

from __future__ import annotations

from llm_locust.smoke.result import Found, failed, passed
from llm_locust.smoke.server import SmokedServer

TEXT = "Name the four seasons."
TOKENS = 8


def check_usage(server: SmokedServer) -> Found:
    """One request, streamed and whole."""
    streamed = server.ask(TEXT, max_tokens=TOKENS).or_fail()
    whole = server.ask(TEXT, max_tokens=TOKENS, streamed=False).or_fail()
    seen = "; ".join(
        f"{name}: {asked.reply.prompt_tokens} prompt and "
        f"{asked.reply.output_tokens if asked.counted else 'no'} output tokens"
        for name, asked in (("stream", streamed), ("whole reply", whole))
    )
    if not streamed.counted or not streamed.reply.prompt_tokens:
        return failed("stream_options.include_usage is not answered: tokens can only be counted by events", seen)
    if not whole.counted or whole.reply.prompt_tokens != streamed.reply.prompt_tokens:
        return failed("the whole reply counts the same prompt otherwise, or not at all", seen)
    return passed(seen)
