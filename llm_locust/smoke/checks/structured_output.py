"""A reply whose form was asked for has it: ``response_format`` with a JSON Schema, and with any JSON object."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from llm_locust.records import Outcome
from llm_locust.smoke.result import Found, failed, not_applicable, passed, undecided
from llm_locust.smoke.server import RequestFailed, SmokedServer

TEXT = 'Is a circle round? Answer with nothing but a JSON object: {"answer": "yes" or "no", "certain": true or false}.'
MOST_TOKENS = 160
_REFUSED = frozenset({400, 404, 405, 415, 422, 501})
"""Statuses by which a server says that it has no such field."""


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """What the schema asks for."""

    answer: Literal["yes", "no"]
    certain: bool


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}, "certain": {"type": "boolean"}},
    "required": ["answer", "certain"],
    "additionalProperties": False,
}

FORMATS: dict[str, tuple[dict[str, Any], Any]] = {
    "json_schema": (
        {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}},
        Answer,
    ),
    "json_object": ({"type": "json_object"}, dict[str, Any]),
}
"""Each with what a reply of it must decode to."""


def check_structured_output(server: SmokedServer) -> Found:
    """Asks for both formats; what a server refuses to do is no promise broken, what it takes and does not do is."""
    if server.facts.synthetic:
        return not_applicable("a synthetic engine writes words, never JSON")
    found = {name: _one(server, name) for name in FORMATS}
    seen = "; ".join(f"{name}: {each.seen}" for name, each in found.items() if each.seen)
    broken = [f"{name}: {each.reason}" for name, each in found.items() if each.result == "fail"]
    if broken:
        return failed("; ".join(broken), seen)
    results = {each.result for each in found.values()}
    if "pass" in results:
        return passed(seen)
    if "undecided" in results:
        return undecided(f"no reply had ended after {MOST_TOKENS} tokens", seen)
    return not_applicable("the server takes no response_format", seen)


def _one(server: SmokedServer, name: str) -> Found:
    response_format, form = FORMATS[name]
    asked = server.ask(TEXT, max_tokens=MOST_TOKENS, fields={"response_format": response_format})
    reply = asked.reply
    if reply.outcome is Outcome.HTTP_ERROR and reply.status in _REFUSED:
        return not_applicable("refused", f"refused with HTTP {reply.status} ({reply.error})")
    if reply.outcome is not Outcome.OK:
        raise RequestFailed(asked)
    shown = repr(" ".join(asked.text.split())[:80])
    try:
        msgspec.json.decode(asked.text, type=form)
    except msgspec.MsgspecError as error:
        if reply.finish_reason == "length" and asked.text.lstrip().startswith("{"):
            return undecided("cut", f"not ended after {MOST_TOKENS} tokens, so not judged")
        return failed(f"the reply does not have the form ({error})", shown)
    return passed(shown)
