"""Before load: how lengths are counted for the server under test, and whether its context takes what will be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from llm_locust.plugin.interrupts import say
from llm_locust.plugin.options import RunOptions
from llm_locust.plugin.workload_options import AUTO, ESTIMATE, SERVER
from llm_locust.records import Outcome, UsageError, WorkloadFacts
from llm_locust.records.run import RunSpec, TokenRule
from llm_locust.streaming import StreamClient
from llm_locust.telemetry.probe import Probe
from llm_locust.telemetry.server_facts import ServerFacts
from llm_locust.telemetry.tokenizing import CannotCount, FileTokenizer, ServerTokenizer, Tokenizer
from llm_locust.users.base import LLMUser
from llm_locust.users.headers import proxy_here
from llm_locust.workload import (
    Prompt,
    PromptsFile,
    ShareGPTFile,
    TracePrompts,
    Workload,
    fixed,
    load_workload,
    needs_counting,
)
from llm_locust.workload.calibration import NotAdditive, calibrate
from llm_locust.workload.context import Beyond, beyond_context
from llm_locust.workload.words import WORDS

CHECK_INDEX = -1
MOST_PAGE_BYTES = 64 * 1024 * 1024
"""``/tokenize`` answers with every token."""
CHECKED = 4
"""Prompts that are counted before load, to prove the arithmetic."""
SAMPLED_TEXTS = 32
"""Texts of a file whose characters per token stand for all of it."""
WORST_SHARE = 0.01
USAGE_WORDS = 8

SAMPLING_FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "repeat_penalty", "ignore_eos", "min_tokens",
)  # fmt: skip


class Settled(NamedTuple):
    """What will be sent, now that the server was asked."""

    run: RunSpec
    facts: WorkloadFacts


def settle_workload(
    run: RunSpec,
    options: RunOptions,
    builders: Sequence[LLMUser],
    headers: Mapping[str, str],
    connect: Callable[[], StreamClient],
    *,
    shared_prompts: bool,
) -> Settled:
    """The run with its prompts' lengths true for the server, and the facts about them.

    Args:
        run: the run to come.
        options: what was asked for.
        builders: one of each user class; lengths are counted for the first one's requests.
        headers: sent along, as the key is.
        connect: makes a client for the one request that a tokenizer file may need.
        shared_prompts: whether stages of the run send the same prompts.

    Raises:
        UsageError: the tokenizer that was asked for cannot be used, or a prompt is longer than the server's context.
    """
    probe = Probe(
        run.host,
        headers,
        ca_file=run.ca_file,
        insecure=run.insecure,
        proxy=proxy_here(run.proxy),
        keep_alive=True,
        most_bytes=MOST_PAGE_BYTES,
    )
    try:
        counting = _Counting(run, options, builders[0], probe, connect)
        spec = options.workload
        if needs_counting(spec):
            spec = msgspec.structs.replace(spec, tokens=counting.rule(load_workload(spec)))
        workload = load_workload(spec)
        facts = msgspec.structs.replace(workload.facts, notes=list(workload.facts.notes))
        for note in facts.notes:
            say(f"WARNING: {note}")
        if needs_counting(spec):
            facts.tokens_counted_by = spec.tokens.counted_by
            facts.longest_off_share = counting.worst_off(workload)
            _tell_lengths(spec.tokens, facts)
        facts.sampling = sampling_of(builders, workload)
        facts.cache_state = cache_state(
            facts, reused=options.reuse_prompts, shared=shared_prompts, reset=run.reset_prefix_cache
        )
        limit = ServerFacts(probe, run.model, metrics=False).plain().get("context_limit_tokens")
        if isinstance(limit, int):
            _check_context(workload, facts, limit, counting)
        return Settled(msgspec.structs.replace(run, workload=fixed(spec, workload)), facts)
    finally:
        probe.close()


class _Counting:
    """The tokenizer that was asked for, once somebody needs it."""

    def __init__(
        self, run: RunSpec, options: RunOptions, builder: LLMUser, probe: Probe, connect: Callable[[], StreamClient]
    ) -> None:
        self._run = run
        self._asked = options.tokenizer
        self._builder = builder
        self._probe = probe
        self._connect = connect
        self._tokenizer: Tokenizer | None = None
        self._looked = False
        self.why_not = ""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """``None`` when lengths can only be estimated; then ``why_not`` says why."""
        if not self._looked:
            self._looked = True
            self._tokenizer = self._find()
        return self._tokenizer

    def count(self, prompt: Prompt) -> int | None:
        """The input tokens of a prompt's request; ``None`` when nobody can tell."""
        if self.tokenizer is None:
            return None
        try:
            return len(self.tokenizer.tokens(self._builder.whole_body(prompt)))
        except CannotCount:
            return None

    def rule(self, estimated: Workload) -> TokenRule:
        """How text is counted."""
        if self.tokenizer is None:
            return _estimate(self.why_not)
        source: Any = "file" if isinstance(self.tokenizer, FileTokenizer) else SERVER
        try:
            rule = calibrate(self._tokens_of, source=source, counted_by=self.tokenizer.counted_by)
        except (NotAdditive, CannotCount) as why:
            if self._asked == AUTO:
                return _estimate(f"{self.tokenizer.counted_by}: {why}")
            raise UsageError(f"--tokenizer {self._asked}: lengths cannot be had by it: {why}") from None
        if source == "file":
            rule = self._with_template(rule)
        if isinstance(estimated, ShareGPTFile):
            texts = [estimated.prompt(index).text for index in range(min(SAMPLED_TEXTS, estimated.facts.prompts or 0))]
            tokens = sum(max(len(self._tokens_of(text)) - rule.overhead, 1) for text in texts)
            rule = msgspec.structs.replace(rule, characters_per_token=round(sum(map(len, texts)) / tokens, 4))
        return rule

    def worst_off(self, workload: Workload) -> float | None:
        """The largest deviation of a few prompts; ``None`` when it cannot be told."""
        found = []
        for index in range(CHECKED):
            prompt = workload.prompt(index)
            counted = self.count(prompt)
            if prompt.input_tokens is not None and counted is not None:
                found.append(abs(counted - prompt.input_tokens) / prompt.input_tokens)
        return max(found, default=None) if not isinstance(self.tokenizer, FileTokenizer) else None

    def _find(self) -> Tokenizer | None:
        if self._asked == ESTIMATE:
            return None
        if self._asked not in (AUTO, SERVER):
            return FileTokenizer(self._asked)
        try:
            return ServerTokenizer(self._probe)
        except CannotCount as why:
            if self._asked == SERVER:
                raise UsageError(
                    f"--tokenizer server: {self._run.host} cannot count tokens: {why}; "
                    "give --tokenizer estimate, or the path of a tokenizer.json"
                ) from None
            self.why_not = str(why)
            return None

    def _tokens_of(self, text: str) -> Sequence[object]:
        assert self.tokenizer is not None
        return self.tokenizer.tokens(self._builder.whole_body(_prompt(text)))

    def _with_template(self, rule: TokenRule) -> TokenRule:
        """A file knows no chat template: what it adds is the difference to the usage of one small request."""
        words = [rule.openers[0], *(rule.words[place % len(rule.words)] for place in range(USAGE_WORDS - 1))]
        text = " ".join(WORDS[place] for place in words)
        client = self._connect()
        try:
            request = self._builder.build_request(_prompt(text), f"{self._run.run_id}.count.check")
            reply = client.stream(request, deadline_s=self._run.deadline_s)
        finally:
            client.close()
        if reply.outcome is not Outcome.OK or reply.prompt_tokens is None or reply.prompt_tokens < USAGE_WORDS:
            return rule
        return msgspec.structs.replace(
            rule,
            overhead=reply.prompt_tokens - USAGE_WORDS,
            counted_by=f"{self._asked}, and the chat template by the usage of one request",
        )


def _prompt(text: str) -> Prompt:
    return Prompt(index=CHECK_INDEX, prompt=text, max_tokens=1)


def _estimate(why: str) -> TokenRule:
    rule = TokenRule()
    return msgspec.structs.replace(rule, counted_by=f"{rule.counted_by} ({why})") if why else rule


def _tell_lengths(rule: TokenRule, facts: WorkloadFacts) -> None:
    if rule.source == ESTIMATE:
        say(f"lengths are {rule.counted_by}")
        return
    proof = (
        ""
        if facts.longest_off_share is None
        else f"; of {CHECKED} prompts the worst is {facts.longest_off_share:.2%} off"
    )
    say(f"lengths are counted by {rule.counted_by}: {rule.overhead} tokens around a prompt's text{proof}")
    if facts.longest_off_share is not None and facts.longest_off_share > WORST_SHARE:
        note = (
            f"A prompt counted before load is {facts.longest_off_share:.1%} off the length that was asked for: what "
            "surrounds its text is not shorter than that, or is not the same for every prompt."
        )
        facts.notes.append(note)
        say(f"WARNING: {note}")


def _check_context(workload: Workload, facts: WorkloadFacts, limit: int, counting: _Counting) -> None:
    """Name prompts that the server's context cannot take.

    Raises:
        UsageError: there is one; of a trace, whose rows nobody can shorten, it is only noted.
    """
    found: Beyond | None = beyond_context(workload, limit, counting.count)
    if found is None:
        return
    if found.refused and not isinstance(workload, TracePrompts):
        what = (
            workload.where(found.place) if isinstance(workload, PromptsFile | ShareGPTFile) else f"prompt {found.place}"
        )
        raise UsageError(f"{what}: {found.sentence}")
    facts.notes.append(f"Prompt {found.place}: {found.sentence}.")
    say(f"WARNING: prompt {found.place}: {found.sentence}")


def cache_state(facts: WorkloadFacts, *, reused: bool, shared: bool, reset: bool) -> str:
    """What the server's prefix cache meets, as a record says it."""
    if reused:
        prompts = "every stage and round measures with the same prompts (--reuse-prompts)"
    elif shared:
        prompts = "stages that are compared measure with the same prompts, one after the other"
    elif facts.prompts is not None:
        prompts = f"{facts.prompts:,} prompts, again from the first when they are used up"
    else:
        prompts = "every stage and round has prompts of its own"
    emptied = "emptied before every stage" if reset else "as the server had it, and as the stages before left it"
    return f"{prompts}; prefix cache {emptied}; warmed by other prompts of the same kind"


def sampling_of(builders: Iterable[LLMUser], workload: Workload) -> dict[str, Any]:
    """The sampling fields of a request's body; those that differ between requests as ``{"any of": [...]}``."""
    seen: dict[str, list[Any]] = {}
    for builder in builders:
        for index in range(CHECK_INDEX, 16):
            try:
                body = builder.whole_body(workload.prompt(index))
            except Exception:  # a mistake in a person's own class is named by the check of one request of each
                return {}
            fields = {**body, **options} if isinstance(options := body.get("options"), dict) else body
            for name in SAMPLING_FIELDS:
                if (value := fields.get(name)) not in seen.setdefault(name, []):
                    seen[name].append(value)
    kept = {name: values for name, values in seen.items() if values != [None] or name == "temperature"}
    return {name: values[0] if len(values) == 1 else {"any of": values} for name, values in kept.items()}
