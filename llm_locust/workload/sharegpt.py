"""Prompts from a ShareGPT file: the first thing a person said in each conversation, and a reply as long as it had there."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec

from llm_locust.records import UsageError, WorkloadFacts
from llm_locust.workload.digest import workload_digest
from llm_locust.workload.output import Output
from llm_locust.workload.prompt import OneTurn, Prompt

_PERSON = frozenset({"human", "user"})
_MODEL = frozenset({"gpt", "chatgpt", "assistant", "bing", "bard"})


class _Turn(msgspec.Struct):
    speaker: str = msgspec.field(name="from")
    value: str


class _Conversation(msgspec.Struct):
    conversations: list[_Turn]
    id: str | int | None = None


class _Unusable(Exception):
    """Why a conversation is left out."""


def is_sharegpt(path: str) -> bool:
    """Whether a file looks like one: a JSON list, where JSONL has objects.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    except OSError as error:
        raise UsageError(f"--prompts {path}: {error.strerror}") from None


class ShareGPTFile(OneTurn):
    """Prompts from a ShareGPT file, in its order, again from the start when it is exhausted."""

    def __init__(
        self,
        path: str,
        *,
        characters_per_token: float,
        output: Output | None = None,
        kind: Literal["synthetic", "representative"] | None = None,
    ) -> None:
        """Read the whole file. What is no usable conversation is left out and counted.

        Args:
            path: the file.
            characters_per_token: turns the length of a reply into tokens.
            output: body fields of every prompt; its limits are those of the conversations.
            kind: what a person says of the prompts.

        Raises:
            UsageError: it cannot be read, is no JSON list, or no conversation in it can be used.
        """
        try:
            entries = msgspec.json.decode(Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf"), type=list[msgspec.Raw])
        except OSError as error:
            raise UsageError(f"--prompts {path}: {error.strerror}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"--prompts {path}: it begins like a ShareGPT file but is no JSON list: {error}") from None
        self._prompts: list[Prompt] = []
        dropped: Counter[str] = Counter()
        for entry in entries:
            try:
                name, asked, reply = _first_exchange(entry)
            except _Unusable as reason:
                dropped[str(reason)] += 1
                continue
            limit = max(1, math.ceil(len(reply) / characters_per_token))
            extra = output.extra(limit) if output is not None else {}
            self._prompts.append(Prompt(index=len(self._prompts), prompt=asked, max_tokens=limit, id=name, extra=extra))
        if not self._prompts:
            why = ", ".join(f"{count} of {reason}" for reason, count in dropped.items()) or "it is empty"
            raise UsageError(
                f"--prompts {path}: no usable conversation in it ({why}); "
                "give a file with a question and a reply in each"
            )
        self.facts = WorkloadFacts(
            name=Path(path).stem,
            kind=kind or "representative",
            source=path,
            sha256=workload_digest((prompt.index, prompt.sha256) for prompt in self._prompts),
            prompts=len(self._prompts),
            read=len(entries),
            dropped=dict(dropped),
        )

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index."""
        return self._prompts[index % len(self._prompts)]

    def where(self, index: int) -> str:
        """A prompt by its id, or by its number among the used ones."""
        prompt = self.prompt(index)
        return f"{self.facts.source}: conversation {prompt.id or prompt.index + 1}"


def _first_exchange(entry: msgspec.Raw) -> tuple[str | None, str, str]:
    """Id, first prompt and the reply to it."""
    try:
        found = msgspec.json.decode(entry, type=_Conversation)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _Unusable("not a conversation") from None
    turns = found.conversations
    place = next((place for place, turn in enumerate(turns) if turn.speaker in _PERSON), None)
    if place is None:
        raise _Unusable("nobody asks")
    if place + 1 == len(turns) or turns[place + 1].speaker not in _MODEL:
        raise _Unusable("no reply to the first question")
    asked, reply = turns[place].value, turns[place + 1].value
    if not asked.strip() or not reply.strip():
        raise _Unusable("empty text")
    return None if found.id is None else str(found.id), asked, reply
