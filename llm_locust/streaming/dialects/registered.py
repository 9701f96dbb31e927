"""The dialects by name: those that come along, and those that a locustfile registers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType

from llm_locust.records import UsageError
from llm_locust.streaming.dialects.base import Dialect
from llm_locust.streaming.dialects.ollama import OllamaChat, OllamaGenerate
from llm_locust.streaming.dialects.openai_chat import OpenAIChat
from llm_locust.streaming.dialects.openai_completions import OpenAICompletions
from llm_locust.streaming.events import EventDecoder

_registered: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (OpenAIChat(), OpenAICompletions(), OllamaGenerate(), OllamaChat())
}

DIALECTS: Mapping[str, Dialect] = MappingProxyType(_registered)
"""Every dialect by its name; :func:`register_dialect` adds one."""

_TEXTS = {
    "name": (re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), "letters, digits, '.', '_' and '-'"),
    "path": (re.compile(r"/[!-~]*"), "the endpoint's path under --host, from its first '/'"),
    "media_type": (re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+"), "a content type in lower case, as text/event-stream"),
}
_READERS = {"read_event": "an event", "read_whole": "the bytes of a body"}
_MEMBERS = (*_TEXTS, "events", *_READERS)
_OF_EVENTS = ("alone", "idle", "feed", "tail")


def get_dialect(name: str) -> Dialect:
    """The dialect registered under ``name``.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    try:
        return _registered[name]
    except KeyError:
        raise UsageError(
            f"unknown dialect {name!r}: choose one of {', '.join(_registered)}, or register your own in a locustfile "
            "(llm_locust.register_dialect)"
        ) from None


def register_dialect(dialect: Dialect, *, replace: bool = False) -> None:
    """Make a dialect of one's own known under its name, in this process: a locustfile does it where it is imported.

    The same class of the same module may be registered again, since a file may be imported twice.

    Args:
        dialect: An instance: ``register_dialect(Mine())``.
        replace: Take the place of the dialect that has the name now.

    Raises:
        UsageError: a member is missing or of a wrong form, or another dialect has the name.
    """
    if isinstance(dialect, type):
        raise UsageError(f"dialect {dialect.__name__} is a class: give an instance, {dialect.__name__}()")
    who = type(dialect).__name__
    if missing := [member for member in _MEMBERS if not hasattr(dialect, member)]:
        raise UsageError(f"dialect {who} has no {', '.join(missing)}: add what Dialect in llm_locust.streaming lists")
    for member, (form, words) in _TEXTS.items():
        value = getattr(dialect, member)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise UsageError(f"dialect {who}: {member} is {value!r}: write {words}")
    _refuse_events(dialect.events, who)
    for member, taken in _READERS.items():
        if not _takes_one(getattr(dialect, member)):
            raise UsageError(f"dialect {who}: {member} must be a method that takes {taken}: write {member}(self, ...)")
    holder = _registered.get(dialect.name)
    if holder is not None and not replace and _home(holder) != _home(dialect):
        raise UsageError(
            f"dialect {who}: the name {dialect.name!r} is taken by {'.'.join(_home(holder))}: choose another name, or "
            "register it with replace=True"
        )
    _registered[dialect.name] = dialect


def _refuse_events(events: type[EventDecoder], who: str) -> None:
    if not isinstance(events, type):
        raise UsageError(f"dialect {who}: events must be a class: give SseEvents or JsonLines, without ()")
    if missing := [member for member in _OF_EVENTS if not hasattr(events, member)]:
        raise UsageError(
            f"dialect {who}: events is {events.__name__}, which has no {', '.join(missing)}: give SseEvents or JsonLines, "
            "or add them"
        )


def _takes_one(method: object) -> bool:
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(object())
    except TypeError:
        return False
    except ValueError:  # something built in, which does not say
        return True
    return True


def _home(dialect: Dialect) -> tuple[str, str]:
    return type(dialect).__module__, type(dialect).__qualname__
