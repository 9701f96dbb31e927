"""Prompts from a JSONL file: one a line, or the turns of a session on several."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec

from llm_locust.records import UsageError, WorkloadFacts
from llm_locust.records.text import one_line
from llm_locust.workload.digest import request_digest, workload_digest
from llm_locust.workload.output import Output
from llm_locust.workload.prompt import Message, Prompt
from llm_locust.workload.sessions import SessionPlan


class PromptLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of a prompts file, as it is read and as an export writes it; see :func:`unread_keys` for any others."""

    id: str | int | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    """Either this or ``prompt``."""
    max_tokens: int | None = None
    output_tokens: int | None = None
    """Another name for ``max_tokens``, which goes before it; vLLM's bench reads this one."""
    input_tokens: int | None = None
    """How long the prompt was asked to be."""
    slice: str | None = None
    prefix_group: str | None = None
    session: str | None = None
    """Lines of one session are its turns, in order; each holds only the new messages."""
    think_s: float | None = None
    """Seconds between the reply before and this turn."""
    expected: Any = None
    extra: dict[str, Any] | None = None
    """Further body fields of this request."""
    workload_kind: Literal["synthetic", "representative"] | None = None
    """``synthetic`` in an export of made-up prompts."""


BODY_FIELDS_OF_OUR_OWN = frozenset(
    {"n", "stream", "stream_options", "model", "prompt", "messages", "max_tokens", "max_completion_tokens"}
)
"""Body fields that a line's ``extra`` cannot hold: they have a place of their own, or a request has one reply."""


_KEYS = frozenset(PromptLine.__struct_fields__)

_ELSEWHERE = dict.fromkeys(
    ("max_new_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"), "max_tokens"
)
"""What other programs call a key of ours: close enough to be meant, too far to be found by their letters."""

_MISSPELT = 0.85
"""How alike (difflib) a misspelt key and the right one are: ``max_token`` is one (0.95), ``session_id`` (0.82) is not."""

_NAMED_KEYS = 8


def _plain(key: str) -> str:
    return key.casefold().replace("_", "").replace("-", "").replace(" ", "")


_PLAIN = {_plain(key): key for key in PromptLine.__struct_fields__}


def meant_key(key: str) -> str | None:
    """The key that an unknown one was meant to be; ``None`` when it is like none: somebody's own column."""
    if (meant := _PLAIN.get(_plain(key)) or _ELSEWHERE.get(key)) is not None:
        return meant
    return next(iter(difflib.get_close_matches(key.casefold(), sorted(_KEYS), n=1, cutoff=_MISSPELT)), None)


def unread_keys(raw: bytes, where: str) -> list[str]:
    """The keys of a line that nothing here reads: files carry columns of their own, and those are left alone.

    Raises:
        UsageError: one is a misspelt key of ours, which would otherwise be as good as not written.
    """
    keys = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).keys() - _KEYS
    for key in sorted(keys):
        if (meant := meant_key(key)) is not None:
            raise UsageError(
                f'{where}: unknown key "{one_line(key, 60)}": write "{meant}", or rename it if it is your own'
            )
    return sorted(keys)


def read_line(raw: bytes, where: str) -> tuple[PromptLine, list[str]]:
    """One line, checked, and its keys that nothing reads.

    Raises:
        UsageError: it is no prompt, or has a misspelt key; the place and the reason are named.
    """
    try:
        line = msgspec.json.decode(raw, type=PromptLine)
        unread = unread_keys(raw, where)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f'{where}: not JSON ({error}); a line is like {{"prompt": "...", "max_tokens": 64}}') from None
    if (line.prompt is None) == (line.messages is None):
        raise UsageError(f'{where}: give either "prompt" or "messages"')
    if line.prompt == "" or (line.messages is not None and not any(map(_says_something, line.messages))):
        raise UsageError(f"{where}: the prompt is empty; give it a text, or take the line out")
    for name in ("slice", "session", "prefix_group"):
        value = getattr(line, name)
        if value is not None and not value.isprintable():
            raise UsageError(f"{where}: {name} is a name on one line, without control characters, not {value!r}")
    for name in ("max_tokens", "output_tokens", "input_tokens"):
        if (value := getattr(line, name)) is not None and value < 1:
            raise UsageError(f"{where}: {name} must be at least 1, not {value}")
    if line.think_s is not None and not 0 <= line.think_s < float("inf"):
        raise UsageError(f"{where}: think_s is seconds, at least 0, not {line.think_s}")
    if ours := sorted(BODY_FIELDS_OF_OUR_OWN & (line.extra or {}).keys()):
        raise UsageError(
            f"{where}: extra cannot hold {', '.join(ours)}: those fields are not a prompt's to choose there; "
            "leave them out"
        )
    return line, unread


def _says_something(message: Message) -> bool:
    return any(value for name, value in message.items() if name != "role")


class PromptsFile:
    """Prompts from a JSONL file, in the file's order, again from the start when it is exhausted."""

    def __init__(
        self,
        path: str,
        max_tokens: int,
        *,
        output: Output | None = None,
        kind: Literal["synthetic", "representative"] | None = None,
    ) -> None:
        """Read the whole file.

        Args:
            path: the file.
            max_tokens: output limit of a prompt that names none, unless there is an
            output: ... that gives limits and body fields; a line's own go before them.
            kind: what a person says of the prompts.

        Raises:
            UsageError: the file cannot be read, is empty, or has a bad line (file, line and reason are named).
        """
        output = output or Output(max_tokens)
        lines, unread = _read(path)
        entries = list(_by_session(lines))
        self._plans: list[SessionPlan] = []
        for index, (session, of_session) in enumerate(entries):
            turns = []
            for turn, (_, line) in enumerate(of_session, start=1):
                limit = line.max_tokens or line.output_tokens or output.limit(index, turn)
                turns.append(
                    Prompt(
                        index=index,
                        prompt=line.prompt,
                        messages=line.messages,
                        max_tokens=limit,
                        id=None if line.id is None else str(line.id),
                        slice=line.slice,
                        prefix_group=line.prefix_group,
                        session=session,
                        turn=None if session is None else turn,
                        input_tokens=line.input_tokens,
                        expected=line.expected,
                        extra=output.extra(limit, line.extra),
                    )
                )
            think_s = [0.0, *(line.think_s or 0.0 for _, line in of_session[1:])]
            self._plans.append(SessionPlan(session or "", turns, think_s))
        self._places = [of_session[0][0] for _, of_session in entries]
        made_up = any(line.workload_kind == "synthetic" for _, line in lines)
        if made_up and kind == "representative":
            raise UsageError(
                f"--prompts {path}: its prompts were made up (workload_kind): they are not representative; "
                "leave out --workload-kind"
            )
        self.facts = WorkloadFacts(
            name=Path(path).stem,
            kind="synthetic" if made_up else kind or "representative",
            source=path,
            sha256=workload_digest(enumerate(map(_plan_digest, self._plans))),
            prompts=len(self._plans),
            slices=sorted({turn.slice for plan in self._plans for turn in plan.turns if turn.slice is not None}),
            read=len(lines),
            notes=_notes(path, unread),
        )

    @property
    def converses(self) -> bool:
        """Some session has more than one turn."""
        return any(len(plan.turns) > 1 for plan in self._plans)

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index: the first turn, where it begins a session."""
        copy, place = divmod(index, len(self._plans))
        first = self._plans[place].turns[0]
        if first.session is None or copy == 0:
            return first
        # A session that is played again is another conversation.
        return msgspec.structs.replace(first, session=f"{first.session}#{copy}")

    def session(self, prompt: Prompt) -> SessionPlan:
        """The conversation that a prompt of this workload belongs to."""
        plan = self._plans[prompt.index]
        return SessionPlan(prompt.session or "", plan.turns, plan.think_s)

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        """The next turn of the prompt's session; ``None`` after the last."""
        return self.session(prompt).next_turn(prompt, reply_text)

    def where(self, index: int) -> str:
        """``file:line`` of a prompt."""
        return f"{self.facts.source}:{self._places[index % len(self._places)]}"


def _plan_digest(plan: SessionPlan) -> str:
    if len(plan.turns) == 1:
        return plan.turns[0].sha256
    return request_digest([turn.sha256 for turn in plan.turns], 0, {})


def _read(path: str) -> tuple[list[tuple[int, PromptLine]], Counter[str]]:
    """The lines with their numbers; and how many have each key that nothing reads."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"--prompts {path}: {error.strerror}") from None
    found: list[tuple[int, PromptLine]] = []
    unread: Counter[str] = Counter()
    for number, text in enumerate(raw.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if text.strip():
            line, keys = read_line(text, f"{path}:{number}")
            found.append((number, line))
            unread.update(keys)
    if not found:
        raise UsageError(f'--prompts {path}: no prompts in it; write one a line: {{"prompt": "...", "max_tokens": 64}}')
    return found, unread


def _notes(path: str, unread: Counter[str]) -> list[str]:
    """What a person is told, once, of keys that nothing reads."""
    if not unread:
        return []
    named = [
        f'"{one_line(key, 60)}" ({lines:,} line{"" if lines == 1 else "s"})'
        for key, lines in unread.most_common(_NAMED_KEYS)
    ]
    more = f" and {len(unread) - _NAMED_KEYS} more" if len(unread) > _NAMED_KEYS else ""
    return [
        f"{path}: keys that nothing reads are left alone: {', '.join(named)}{more}; a field of the request's body goes into "
        '"extra"'
    ]


def _by_session(
    lines: list[tuple[int, PromptLine]],
) -> list[tuple[str | None, list[tuple[int, PromptLine]]]]:
    """Every line of no session alone, and the lines of a session together where its first one stands."""
    found: list[tuple[str | None, list[tuple[int, PromptLine]]]] = []
    of_session: dict[str, list[tuple[int, PromptLine]]] = {}
    for number, line in lines:
        if line.session is not None and line.session in of_session:
            of_session[line.session].append((number, line))
            continue
        entry = [(number, line)]
        if line.session is not None:
            of_session[line.session] = entry
        found.append((line.session, entry))
    return found
