"""What to send: a prompt for every arrival, from a JSONL file or made up from a seed."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any, Protocol

import msgspec

from llm_locust.records import UsageError, WorkloadFacts

Message = dict[str, Any]
"""One chat message, as the API takes it: ``{"role": ..., "content": ...}`` and whatever else the API knows."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: a text, or chat messages, with an output limit."""

    index: int
    """Its place in the workload."""
    prompt: str | None = None
    messages: list[Message] | None = None
    max_tokens: int
    slice: str | None = None
    prefix_group: str | None = None
    session: str | None = None
    turn: int | None = None
    """Which turn of its session it is, from 1."""
    input_tokens: int | None = None
    """How long it was asked to be, in tokens; ``None`` when nobody asked."""

    @property
    def text(self) -> str:
        """The prompt as one text, for APIs that take no messages: contents joined by blank lines."""
        if self.prompt is not None:
            return self.prompt
        return "\n\n".join(str(message.get("content", "")) for message in self.messages or [])

    @property
    def chat(self) -> list[Message]:
        """The prompt as chat messages: a bare text is one message of the user."""
        if self.messages is not None:
            return self.messages
        return [{"role": "user", "content": self.prompt}]

    @property
    def sha256(self) -> str:
        """Digest of what is sent: the prompt or messages, and the output limit."""
        content: Any = self.prompt if self.messages is None else self.messages
        return hashlib.sha256(msgspec.json.encode([content, self.max_tokens], order="sorted")).hexdigest()


class Workload(Protocol):
    """A named, hashed source of prompts, the same in every process."""

    facts: WorkloadFacts

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index."""
        ...


class _Line(msgspec.Struct):
    """A line of a prompts file; ``output_tokens`` is another name for ``max_tokens``; unknown keys are left alone."""

    prompt: str | None = None
    messages: list[Message] | None = None
    max_tokens: int | None = None
    output_tokens: int | None = None
    id: str | int | None = None
    prefix_group: str | None = None
    session: str | None = None
    slice: str | None = None


def _parse_line(raw: bytes, where: str, index: int, max_tokens: int) -> Prompt:
    try:
        line = msgspec.json.decode(raw, type=_Line)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f'{where}: not JSON ({error}); a line is like {{"prompt": "...", "max_tokens": 64}}') from None
    if (line.prompt is None) == (line.messages is None):
        raise UsageError(f'{where}: give either "prompt" or "messages"')
    if line.prompt == "" or line.messages == []:
        raise UsageError(f"{where}: the prompt is empty")
    for name in ("slice", "session", "prefix_group"):
        value = getattr(line, name)
        if value is not None and not value.isprintable():
            raise UsageError(f"{where}: {name} is a name on one line, without control characters, not {value!r}")
    limit = line.max_tokens if line.max_tokens is not None else line.output_tokens
    if limit is not None and limit < 1:
        raise UsageError(f"{where}: max_tokens must be at least 1, not {limit}")
    return Prompt(
        index=index,
        prompt=line.prompt,
        messages=line.messages,
        max_tokens=limit if limit is not None else max_tokens,
        slice=line.slice,
        prefix_group=line.prefix_group,
        session=line.session,
    )


class PromptsFile:
    """Prompts from a JSONL file, in the file's order, again from the start when it is exhausted."""

    def __init__(self, path: str, max_tokens: int) -> None:
        """Read the whole file.

        Raises:
            UsageError: the file cannot be read, is empty, or has a bad line (file, line and reason are named).
        """
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"--prompts {path}: {error.strerror}") from None
        self._prompts: list[Prompt] = []
        for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
            if line.strip():
                self._prompts.append(_parse_line(line, f"{path}:{number}", len(self._prompts), max_tokens))
        if not self._prompts:
            raise UsageError(f"--prompts {path}: no prompts in it")
        digest = hashlib.sha256("\n".join(prompt.sha256 for prompt in self._prompts).encode())
        self.facts = WorkloadFacts(
            name=Path(path).stem,
            kind="representative",
            source=path,
            sha256=digest.hexdigest(),
            prompts=len(self._prompts),
        )

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index."""
        return self._prompts[index % len(self._prompts)]


WORDS = (  # noqa: SIM905 - a list of quoted words is only longer
    "river stone market winter garden signal copper window valley engine harbor letter meadow bridge candle "
    "forest mirror planet summer thread village whisper anchor basket canyon desert ember feather glacier hammer "
    "island jacket kettle lantern mountain needle orchard pepper quarry ribbon saddle temple umbrella violin wagon "
    "yellow zipper autumn bottle circle dragon evening fabric gravel horizon insect jungle kitchen ladder marble"
).split()


class SyntheticPrompts:
    """Made-up prompts, every one different, so that no prefix cache flatters the server. Supports no capacity claim."""

    WORDS_PER_PROMPT = 48

    def __init__(self, seed: int, max_tokens: int) -> None:
        self._seed = seed
        self._max_tokens = max_tokens
        identity = f"synthetic words={self.WORDS_PER_PROMPT} seed={seed} max_tokens={max_tokens}"
        self.facts = WorkloadFacts(
            name="synthetic-words",
            kind="synthetic",
            source=identity,
            sha256=hashlib.sha256(identity.encode()).hexdigest(),
        )

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index."""
        # A text seed goes through SHA-512, so neighbouring indices share nothing, whatever the Python version.
        words = random.Random(f"{self._seed}/{index}").choices(WORDS, k=self.WORDS_PER_PROMPT)
        return Prompt(
            index=index,
            prompt=f"Write a long story that uses these words: {' '.join(words)}.",
            max_tokens=self._max_tokens,
        )
