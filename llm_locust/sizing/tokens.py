"""The tokens of the prompts that a run would send: their output limits and an estimate of their input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from llm_locust.sizing.contracts import Tokens
from llm_locust.workload import Prompt, PromptsFile, Workload
from llm_locust.workload.made_up import MadeUpPrompts
from llm_locust.workload.mix import Mix

Ints = npt.NDArray[np.int64]

CHARACTERS_PER_TOKEN = 4
"""The rule of thumb for English text; the server's tokenizer and chat template decide."""

MOST_SUMMED = 50_000
"""Prompts of a run up to which every one is made to count its tokens (about half a second)."""

SAMPLED = 1_000
"""Prompts made for a stage of a larger run; its tokens are then an extrapolation."""


def tokens_by_stage(workload: Workload, sent: Sequence[Sequence[int] | Ints]) -> list[Tokens]:
    """The tokens of the prompts with these numbers, stage by stage."""
    if isinstance(workload, PromptsFile):
        return _file_tokens(workload, sent)
    summed = sum(map(len, sent)) <= MOST_SUMMED
    random = np.random.default_rng(0)
    found = []
    for numbers in sent:
        exact = summed or len(numbers) <= SAMPLED
        # Not every k-th: a workload that repeats itself could keep step with it.
        places = range(len(numbers)) if exact else random.integers(0, len(numbers), SAMPLED).tolist()
        prompts = [workload.prompt(int(numbers[place])) for place in places]
        scale = 1.0 if exact else len(numbers) / SAMPLED
        sums = [_of_conversation(workload, prompt) for prompt in prompts]
        output, characters = sum(out for out, _ in sums), sum(into for _, into in sums)
        found.append(_tokens(round(output * scale), round(characters * scale), exact))
    return found


def _file_tokens(workload: PromptsFile, sent: Sequence[Sequence[int] | Ints]) -> list[Tokens]:
    """Of prompts that start over when they are exhausted: each as often as it is sent."""
    prompts = [workload.prompt(index) for index in range(workload.facts.prompts or 1)]
    per_prompt = np.array([_of_conversation(workload, prompt) for prompt in prompts], dtype=np.int64)
    found = []
    for numbers in sent:
        output, characters = _times_sent(numbers, len(prompts)) @ per_prompt
        found.append(_tokens(int(output), int(characters), True))
    return found


def _of_conversation(workload: Workload, prompt: Prompt) -> tuple[int, int]:
    """Output tokens at most and characters of input, of a prompt and of all turns that may follow it.

    Every turn sends the whole conversation again, the model's replies at their longest included.
    """
    if not isinstance(workload, MadeUpPrompts | PromptsFile | Mix) or not workload.converses:
        return prompt.max_tokens, len(prompt.text)
    output = characters = said = 0
    for turn in workload.session(prompt).turns:
        said += len(turn.text)
        characters += said + output * CHARACTERS_PER_TOKEN
        output += turn.max_tokens
    return output, characters


def _times_sent(numbers: Sequence[int] | Ints, prompts: int) -> Ints:
    """How often each prompt of a file comes."""
    if isinstance(numbers, range):  # of a plan that is too large to be drawn
        passes, rest = divmod(len(numbers), prompts)
        further = (np.arange(prompts) - numbers.start) % prompts < rest
        return passes + further.astype(np.int64)
    return np.bincount(np.asarray(numbers, np.int64) % prompts, minlength=prompts).astype(np.int64)


def _tokens(output: int, characters: int, exact: bool) -> Tokens:
    return Tokens(output_at_most=output, input_estimated=-(-characters // CHARACTERS_PER_TOKEN), exact=exact)


def tokens_in_all(of_stages: Sequence[Tokens | None]) -> Tokens | None:
    """The sum over the stages; ``None`` when those of a stage are not known."""
    known = [tokens for tokens in of_stages if tokens is not None]
    if len(known) < len(of_stages):
        return None
    return Tokens(
        output_at_most=sum(tokens.output_at_most for tokens in known),
        input_estimated=sum(tokens.input_estimated for tokens in known),
        exact=all(tokens.exact for tokens in known),
    )
