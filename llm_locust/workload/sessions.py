"""Sessions: the turns of a conversation as they are specified, and the next turn once the model has answered.

A turn's own prompt holds only what the user newly says. What is sent is the whole conversation: the messages of the turn
before, the model's own reply, and then the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from llm_locust.records import UsageError
from llm_locust.workload.digest import request_digest
from llm_locust.workload.parameters import read_parameters
from llm_locust.workload.prompt import Prompt

FORM = "turns=4,think=2"
MOST_TURNS = 10_000


@dataclass(frozen=True)
class SessionPlan:
    """One conversation. The lists are of the same length, one item a turn."""

    session: str
    """Unique among the arrivals of a run."""
    turns: Sequence[Prompt]
    """Each with the new messages of its turn alone, and its turn number from 1."""
    think_s: Sequence[float]
    """Seconds between the end of the reply before and this turn; 0 for the first."""

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        """What follows a turn of this session; see :meth:`llm_locust.workload.Workload.next_turn`."""
        done = prompt.turn or 1
        if done >= len(self.turns):
            return None
        turn = self.turns[done]
        messages = [*prompt.chat, {"role": "assistant", "content": reply_text}, *turn.chat]
        said = [before.chat for before in self.turns[: done + 1]]
        specified = request_digest(said, turn.max_tokens, turn.extra)
        return self.think_s[done], msgspec.structs.replace(
            turn, prompt=None, messages=messages, specified=specified, session=self.session
        )


@dataclass(frozen=True)
class SessionForm:
    """Made-up sessions: so many turns, so long a think time before each but the first."""

    turns: int
    think_s: float

    @property
    def name(self) -> str:
        """In canonical form."""
        return f"turns={self.turns},think={self.think_s:g}"


def parse_sessions(text: str, option: str = "--sessions") -> SessionForm:
    """The sessions that a text asks for.

    Raises:
        UsageError: an unknown parameter, or a number out of range.
    """
    try:
        given = read_parameters(text, {"turns": None, "think": 0.0}, FORM)
        if given["turns"] != int(given["turns"]) or not 1 <= given["turns"] <= MOST_TURNS:
            raise UsageError(f"turns={given['turns']:g}: a whole number from 1 to {MOST_TURNS:,}")
        if given["think"] < 0:
            raise UsageError(f"think={given['think']:g}: seconds, at least 0")
    except UsageError as error:
        raise UsageError(f"{option} {text.strip()!r}: {error}") from None
    return SessionForm(int(given["turns"]), given["think"])
