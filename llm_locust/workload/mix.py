"""A mix: named slices of other workloads, each with its share of the arrivals.

Of every thousand arrivals each slice has its exact share (to a thousandth, and never none), in an order that the seed
shuffles anew for each thousand. So a slice's own prompts are taken one after the other, and a file in it is used up before
it begins again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from llm_locust.records import UsageError, WorkloadFacts
from llm_locust.workload.digest import endless_digest
from llm_locust.workload.made_up import MadeUpPrompts
from llm_locust.workload.prompt import Prompt, Workload
from llm_locust.workload.prompts_file import PromptsFile
from llm_locust.workload.sessions import SessionPlan

BLOCK = 1000


class Mix:
    """Several workloads in one; the index of a prompt tells which slice it is of, and which of its prompts."""

    def __init__(self, seed: int, slices: Mapping[str, tuple[float, Workload]], *, name: str, source: str) -> None:
        """Mix them.

        Args:
            seed: of the order.
            slices: weight and workload of each, by name.
            name: of the whole.
            source: where it is from.

        Raises:
            UsageError: no slices, or weights that give no shares.
        """
        self._names = list(slices)
        self._workloads = [workload for _, workload in slices.values()]
        self._counts = counts_of([weight for weight, _ in slices.values()], source)
        self._seed = seed
        self._block = lru_cache(maxsize=64)(self._order)
        facts = [workload.facts for workload in self._workloads]
        made_by = " ".join(
            f"{name}={count}:{one.sha256}" for name, count, one in zip(self._names, self._counts, facts, strict=True)
        )
        shares = [one.shared_prefix_share for one in facts]
        lasts = [
            one.prompts * BLOCK // count
            for one, count in zip(facts, self._counts, strict=True)
            if one.prompts is not None and count
        ]
        self.facts = WorkloadFacts(
            name=name,
            # One slice of made-up text, and the whole is no picture of what users send.
            kind="synthetic" if any(one.kind == "synthetic" for one in facts) else "representative",
            source=source,
            sha256=endless_digest(f"mix seed={seed} {made_by}", lambda index: self.prompt(index).sha256),
            prompts=min(lasts, default=None),
            dropped={
                f"{slice_name}: {why}": count
                for slice_name, one in zip(self._names, facts, strict=True)
                for why, count in one.dropped.items()
            },
            slices=self._names,
            notes=list(dict.fromkeys(note for one in facts for note in one.notes)),
            shared_prefix_share=shares[0] if len(set(shares)) == 1 else None,
            tokens_counted_by=next((one.tokens_counted_by for one in facts if one.tokens_counted_by), None),
        )

    @property
    def converses(self) -> bool:
        """Some slice has sessions of more than one turn."""
        return any(workload.converses for workload in self._workloads)

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index."""
        block, at = divmod(index, BLOCK)
        place, rank = self._block(block)[at]
        own = self._workloads[place].prompt(block * self._counts[place] + rank)
        name = self._names[place]
        session = None if own.session is None else f"{name}/{own.session}"
        return msgspec.structs.replace(own, index=index, slice=name, session=session)

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        """The next turn of the prompt's session; ``None`` after the last."""
        if prompt.session is None:
            return None
        return self.session(prompt).next_turn(prompt, reply_text)

    def session(self, prompt: Prompt) -> SessionPlan:
        """The conversation that a prompt of this workload belongs to."""
        block, at = divmod(prompt.index, BLOCK)
        place, rank = self._block(block)[at]
        workload = self._workloads[place]
        first = workload.prompt(block * self._counts[place] + rank)
        if not isinstance(workload, MadeUpPrompts | PromptsFile):
            return SessionPlan("", [prompt], [0.0])
        plan = workload.session(first)
        turns = [
            msgspec.structs.replace(turn, index=prompt.index, slice=prompt.slice, session=prompt.session)
            for turn in plan.turns
        ]
        return SessionPlan(prompt.session or "", turns, plan.think_s)

    def _order(self, block: int) -> list[tuple[int, int]]:
        """For each place in a block: the slice, and how many of it came before in the block."""
        order = [place for place, count in enumerate(self._counts) for _ in range(count)]
        random.Random(f"{self._seed}/mix/{block}").shuffle(order)
        seen = [0] * len(self._counts)
        found = []
        for place in order:
            found.append((place, seen[place]))
            seen[place] += 1
        return found


def counts_of(weights: Sequence[float], source: str) -> list[int]:
    """How many of :data:`BLOCK` arrivals each slice has: the largest remainders, and at least one each.

    Raises:
        UsageError: no slices, too many, or weights that sum to 0.
    """
    total = sum(weights)
    if not weights or total <= 0:
        raise UsageError(f"{source}: the weights sum to 0: at least one slice needs a share of the arrivals")
    taken = [weight for weight in weights if weight > 0]
    if len(taken) > BLOCK // 10:
        raise UsageError(f"{source}: {len(taken)} slices, more than {BLOCK // 10}; put some of them together")
    exact = [weight / total * BLOCK for weight in weights]
    counts = [max(int(share), 1 if share > 0 else 0) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda place: (int(exact[place]) - exact[place], place))
    for place in by_remainder * BLOCK:
        if sum(counts) >= BLOCK:
            break
        counts[place] += weights[place] > 0
    while sum(counts) > BLOCK:  # slices of less than a thousandth were given one
        counts[counts.index(max(counts))] -= 1
    return counts
