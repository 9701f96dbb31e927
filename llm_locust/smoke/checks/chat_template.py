"""A chat request is put into the model's template: it is longer than its bare text."""

from __future__ import annotations

from llm_locust.smoke.result import Found, failed, not_applicable, passed, undecided
from llm_locust.smoke.server import SmokedServer
from llm_locust.telemetry.tokenizing import CannotCount
from llm_locust.users import OllamaGenerateUser, OpenAICompletionUser

TEXT = "Which number comes after seventeen?"


def check_chat_template(server: SmokedServer) -> Found:
    """Compares the prompt tokens of a chat with those of its text alone, as the server itself counts them."""
    chat = server.ask(TEXT, max_tokens=1).or_fail().reply.prompt_tokens
    if chat is None:
        return undecided("the usage names no prompt tokens, so the template does not show")
    raw, how, raw_is_bare = _raw_tokens(server)
    if raw is None:
        return not_applicable(f"the server cannot tell how long the bare text is: {how}", f"{chat} prompt tokens")
    seen = f"{chat} prompt tokens for a message whose bare text has {raw} ({how})"
    if chat > raw:
        return passed(seen)
    if not raw_is_bare:
        return undecided("either neither request is templated, or both are", seen)
    return failed("no chat template was applied: the request is no longer than its bare text", seen)


def _raw_tokens(server: SmokedServer) -> tuple[int | None, str, bool]:
    """The tokens of the text, what says so, and whether it is certain that no template is among them."""
    try:
        tokenizer = server.tokenizer()
        return len(tokenizer.tokens({"model": server.model, "prompt": TEXT})), tokenizer.counted_by, True
    except CannotCount as why:
        reason = str(why)
    # Ollama puts a completion into the template too, unless the request says that it is raw.
    ollama = server.facts.engine == "Ollama"
    asked = server.ask(
        TEXT,
        max_tokens=1,
        user=OllamaGenerateUser if ollama else OpenAICompletionUser,
        fields={"raw": True} if ollama else None,
    )
    count = asked.reply.prompt_tokens
    if count is None:
        return None, f"{reason}; {asked.path}: {asked.reply.error or 'no prompt tokens in its usage'}", False
    return count, f"by {asked.path}", ollama
