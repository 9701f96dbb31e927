"""Made-up prompts: of the lengths that are asked for, sharing the prefixes that are asked for, alone or in sessions.

Every prompt is decided by the seed and its number, whichever process makes it and in whatever order. They support no claim
of capacity: what they say is nothing.
"""

from __future__ import annotations

import random

from llm_locust.records import WorkloadFacts
from llm_locust.records.run import TokenRule
from llm_locust.workload.digest import endless_digest
from llm_locust.workload.lengths import Lengths
from llm_locust.workload.output import Output
from llm_locust.workload.prompt import OneTurn, Prompt
from llm_locust.workload.sessions import SessionForm, SessionPlan
from llm_locust.workload.shared_prefix import SharedPrefix
from llm_locust.workload.text import TextMaker, unit
from llm_locust.workload.words import WORDS

DEFAULT_TOKENS = "64"
"""Input tokens of made-up prompts that share a prefix or are in sessions, when nobody says how many."""


class SyntheticPrompts(OneTurn):
    """What is sent when nobody says what: short prompts, each another one, so that no prefix cache flatters the server."""

    WORDS_PER_PROMPT = 48

    def __init__(self, seed: int, max_tokens: int, *, output: Output | None = None, label: str = "") -> None:
        """Make none yet.

        Args:
            seed: decides the words.
            max_tokens: the output limit, unless there is an
            output: ... that says more.
            label: tells workloads with one seed apart.
        """
        self._seed = f"{seed}/{label}" if label else str(seed)
        self._output = output or Output(max_tokens)
        identity = f"synthetic words={self.WORDS_PER_PROMPT} seed={self._seed} max_tokens={max_tokens}"
        self.facts = WorkloadFacts(
            name="synthetic-words",
            kind="synthetic",
            source=identity,
            sha256=endless_digest(f"{identity} {self._output.name}", lambda index: self.prompt(index).sha256),
        )

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index."""
        # A text seed goes through SHA-512, so neighbouring indices share nothing, whatever the Python version.
        words = random.Random(f"{self._seed}/{index}").choices(WORDS, k=self.WORDS_PER_PROMPT)
        limit = self._output.limit(index)
        return Prompt(
            index=index,
            prompt=f"Write a long story that uses these words: {' '.join(words)}.",
            max_tokens=limit,
            extra=self._output.extra(limit),
        )


class MadeUpPrompts:
    """Prompts of so many tokens each."""

    def __init__(
        self,
        seed: int,
        lengths: Lengths,
        output: Output,
        *,
        rule: TokenRule,
        prefix: SharedPrefix | None = None,
        sessions: SessionForm | None = None,
        labels: str = "",
    ) -> None:
        """Make none yet.

        Args:
            seed: decides everything that is drawn.
            lengths: of the prompts, chat template included; in sessions, of what the user newly says in each turn.
            output: limits and body fields.
            rule: how text is counted.
            prefix: what prompts share.
            sessions: how conversations go.
            labels: tells workloads with one seed apart.
        """
        self._rule = rule
        self._lengths = lengths
        self._output = output
        self._prefix = prefix
        self._sessions = sessions
        self._labels = f"{seed}/{labels}"
        self._maker = TextMaker(seed, rule)
        parts = [f"input={lengths.name}", output.name, f"seed={self._labels}"]
        parts += [f"prefix={prefix.name}"] if prefix is not None else []
        parts += [f"sessions={sessions.name}"] if sessions is not None else []
        identity = f"made-up text, {' '.join(parts)}"
        self.facts = WorkloadFacts(
            name=labels or "made-up",
            kind="synthetic",
            source=identity,
            sha256=endless_digest(f"{identity} {rule.overhead}", lambda index: self.prompt(index).sha256),
            shared_prefix_share=prefix.share if prefix is not None else None,
            tokens_counted_by=rule.counted_by,
        )

    @property
    def converses(self) -> bool:
        """A session has more than one turn."""
        return self._sessions is not None and self._sessions.turns > 1

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index: the first turn, where it begins a session."""
        return self._turn(index, 1)

    def session(self, prompt: Prompt) -> SessionPlan:
        """The conversation that a prompt of this workload belongs to."""
        form = self._sessions or SessionForm(1, 0.0)
        turns = [self._turn(prompt.index, number) for number in range(1, form.turns + 1)]
        return SessionPlan(turns[0].session or "", turns, [0.0, *[form.think_s] * (form.turns - 1)])

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        """The next turn of the prompt's session; ``None`` after the last."""
        if self._sessions is None or prompt.turn is None or prompt.turn >= self._sessions.turns:
            return None
        return self.session(prompt).next_turn(prompt, reply_text)

    def _turn(self, index: int, turn: int) -> Prompt:
        asked = self._lengths.at(unit(self._labels, "input", index, turn))
        limit = self._output.limit(index, turn)
        first = turn == 1
        # No tokenizer can count a later turn's template: what surrounds it there is the conversation's.
        words = max(1, asked - self._rule.overhead) if first else asked
        group, shared = None, ""
        if self._prefix is not None and first:
            place = self._prefix.group(unit(self._labels, "group", index))
            group = f"g{place}"
            common = min(max(0, self._prefix.tokens(asked) - self._rule.ahead), words)
            shared = self._maker.text(f"{self._labels}/group/{place}", common, opens=True)
            words -= common
        own = self._maker.text(f"{self._labels}/{index}/{turn}", words, opens=not shared)
        return Prompt(
            index=index,
            prompt=f"{shared} {own}" if shared and own else shared or own,
            max_tokens=limit,
            prefix_group=group,
            session=None if self._sessions is None else f"s{index}",
            turn=None if self._sessions is None else turn,
            input_tokens=asked if first else None,
            extra=self._output.extra(limit),
        )
