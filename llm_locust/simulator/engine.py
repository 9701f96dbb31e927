"""The synthetic engine: continuous batching as a pure state machine. Virtual time in, tokens out.

No socket, no sleep and no clock: whoever drives it says what time it is, in integer nanoseconds that never go back.

Time passes in *steps*. At the start of a step every running request is sure of the KV block that its next token needs (or
the most recently admitted request is preempted), and then waiting requests are admitted, first come first served, while a
slot and the blocks of their prompt are free. At the end of the step each running request, newly admitted or not, has one
more token. A step of ``b`` running requests that prefills ``p`` prompt tokens in all takes

    p / prefill_tps  +  decode_ms * (1 + batch_slowdown * (b - 1)).

So one request of ``p`` prompt tokens and ``n`` reply tokens, alone, has its first token at ``p / prefill_tps + decode_ms``
and its last ``(n - 1) * decode_ms`` later. What arrives during a step waits for its end; prompts are never cut in pieces.
Steps follow each other without a gap, at exact times: an engine that is asked late answers with the times at which it
would have answered.

The weights are loaded for the first work, and stay until the engine has been idle for as long as the last request to say so
wished (for ever, if none did). Unloaded, it has forgotten its prefix cache and that wish.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from llm_locust.simulator.keep_alive import FOREVER_NS
from llm_locust.simulator.kv_cache import BlockPool, Lease, blocks_for, extend_chain


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineConfig:
    """How fast and how large the engine is."""

    slots: int
    """Requests that run at once."""
    prefill_tps: float
    """Prompt tokens prefilled per second, all requests together."""
    decode_ms: float
    """Milliseconds of a step that serves one request."""
    batch_slowdown: float = 0.0
    """What each further request of the batch adds to a step, as a share of ``decode_ms``."""
    queue_limit: int | None = None
    """Waiting requests beyond which the next is refused; ``None`` queues without bound."""
    kv_blocks: int
    block_size: int = 16
    """Tokens per block."""
    prefix_caching: bool = False
    load_ns: int = 0
    """A cold load: how long the first work waits for the weights, and again after an unload."""


@dataclass(slots=True, eq=False)
class Job:
    """One request as the engine sees it. Times are virtual nanoseconds; ``None`` until they happen."""

    prompt: Sequence[int]
    """Token ids; at least one."""
    reply: Sequence[int]
    """The token ids that the engine will say; at least one."""
    finish_reason: str = "length"
    keep_ns: int | None = None
    """How long the weights shall stay once the engine is idle; ``None`` leaves that as it is."""
    arrived_ns: int = 0
    admitted_ns: int | None = None
    """The first admission; a preemption does not change it."""
    load_wait_ns: int = 0
    """The part of its wait that was for a cold load."""
    first_ns: int | None = None
    last_ns: int | None = None
    """The latest token so far."""
    emitted: int = 0
    """Reply tokens so far."""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache at the first admission."""
    preemptions: int = 0
    over: bool = False
    """Finished or aborted: no more tokens will come."""
    lease: Lease = field(default_factory=Lease, repr=False)
    chain: list[int] = field(default_factory=list, repr=False)
    """Prefix-cache keys of its full blocks, as far as computed."""

    def tokens(self, count: int) -> Sequence[int]:
        """The first ``count`` tokens of prompt and reply."""
        return [*self.prompt, *self.reply[: count - len(self.prompt)]]


class Token(NamedTuple):
    """One token of one request, said at ``at_ns``."""

    job: Job
    position: int
    """0 for the first token of the reply."""
    at_ns: int
    gap_ns: int | None
    """Since this request's previous token; ``None`` for its first."""
    is_last: bool


@dataclass(slots=True)
class Totals:
    """What the engine has done since its start, in the units of vLLM's counters (tokens, requests)."""

    prompt_tokens: int = 0
    """Prompt tokens of requests whose prefill is done, cached ones included."""
    cached_prompt_tokens: int = 0
    """The part of ``prompt_tokens`` that came from the prefix cache."""
    generation_tokens: int = 0
    prefix_queries: int = 0
    """Prompt tokens looked up at first admission; 0 without a prefix cache."""
    prefix_hits: int = 0
    preemptions: int = 0
    rejections: int = 0
    steps: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    """Requests by finish reason; ``abort`` for those whose client left."""


class Engine:
    """The state machine. ``submit`` and ``abort`` say what happens, ``advance`` what comes of it."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.totals = Totals()
        self.pool = BlockPool(config.kv_blocks)
        self.loaded_ns: int | None = 0 if config.load_ns == 0 else None
        """When the weights were, or will be, in memory; ``None`` before the first use and after an unload."""
        self.expires_ns: int | None = None
        """When the weights will go, if nothing comes before; ``None`` while there is work, or nothing to go."""
        self._keep_ns = FOREVER_NS
        self._clock_ns = 0
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []  # in the order of admission: the last is the first to be preempted
        self._batch: list[Job] = []
        self._step_end_ns: int | None = None
        self._memory_bound = False
        self._said: list[Token] = []

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for one."""
        return len(self._waiting)

    @property
    def next_ns(self) -> int | None:
        """When ``advance`` will next have something to do; ``None`` when idle."""
        if self._step_end_ns is not None:
            return self._step_end_ns
        return self._clock_ns if self._waiting or self._running else None

    def submit(self, job: Job, now_ns: int) -> bool:
        """A request arrives; it is taken into account by the first step that starts at or after ``now_ns``.

        Returns:
            Whether it was taken; ``False`` when as many as ``queue_limit`` are waiting already. Those that a free slot
            is about to take do not count as waiting.

        Raises:
            ValueError: it could never fit into the KV cache, or it is empty, or time went back.
        """
        if not job.prompt or not job.reply:
            raise ValueError("a job has at least one prompt token and one reply token")
        if blocks_for(len(job.prompt) + len(job.reply) - 1, self.config.block_size) > self.config.kv_blocks:
            raise ValueError(f"{len(job.prompt)} + {len(job.reply)} tokens never fit into the KV cache")
        self._run_until(now_ns, inclusive=False)
        job.arrived_ns = now_ns
        if self.config.queue_limit is not None:
            about_to_run = 0 if self._memory_bound else self.config.slots - len(self._running)
            if len(self._waiting) - about_to_run >= self.config.queue_limit:
                self.totals.rejections += 1
                return False
        self._waiting.append(job)
        self.expires_ns = None
        if job.keep_ns is not None:
            self._keep_ns = job.keep_ns
        return True

    def abort(self, job: Job, now_ns: int) -> None:
        """The client left: the request's slot and blocks are free at once. The step under way keeps its length."""
        self._run_until(now_ns, inclusive=False)
        if job.over:
            return
        if job in self._running:
            self._running.remove(job)
        else:
            self._waiting.remove(job)
        self._end(job, "abort")

    def preload(self, now_ns: int, keep_ns: int | None = None) -> int:
        """Load the weights now, unless that has been done; returns when they are, or were, in memory."""
        self._run_until(now_ns, inclusive=False)
        if self.loaded_ns is None:
            self.loaded_ns = self._step_end_ns = now_ns + self.config.load_ns
        if keep_ns is not None:
            self._keep_ns = keep_ns
        self._expire_if_idle(max(now_ns, self.loaded_ns))
        return self.loaded_ns

    def unload(self, now_ns: int) -> None:
        """Forget the weights: now, or once all requests have ended."""
        self._run_until(now_ns, inclusive=False)
        if self.loaded_ns is None and not self._waiting:
            return
        self._keep_ns = 0
        self._expire_if_idle(now_ns)
        self._run_until(now_ns, inclusive=False)

    def advance(self, now_ns: int) -> list[Token]:
        """Every token said up to and including ``now_ns`` and not yet handed out, in order of time and admission.

        Raises:
            ValueError: time went back.
        """
        self._run_until(now_ns, inclusive=True)
        said, self._said = self._said, []
        return said

    def _run_until(self, now_ns: int, *, inclusive: bool) -> None:
        """End the steps that end by ``now_ns``. One that would begin at that very time begins only if ``inclusive``."""
        if now_ns < self._clock_ns:
            raise ValueError(f"time went back from {self._clock_ns} to {now_ns}")
        while True:
            if self._step_end_ns is not None:
                if self._step_end_ns > now_ns:
                    return
                self._clock_ns = self._step_end_ns
                self._end_step()
            elif not self._waiting and not self._running:
                if self.expires_ns is not None and self.expires_ns <= now_ns:
                    self._forget()
                self._clock_ns = now_ns
                return
            elif self._clock_ns < now_ns or inclusive:
                self._begin_step()
            else:
                return

    def _begin_step(self) -> None:
        config = self.config
        if self.loaded_ns is None:
            self.loaded_ns = self._step_end_ns = self._clock_ns + config.load_ns
            return
        preempted = self._secure_next_blocks()
        prefill = 0
        self._memory_bound = False
        # As in vLLM, a step that had to preempt admits nobody: the victim would come straight back.
        while self._waiting and len(self._running) < config.slots and not preempted:
            computed = self._admit(self._waiting[0])
            if computed is None:
                self._memory_bound = True
                break
            prefill += computed
            self._running.append(self._waiting.popleft())
        self._batch = self._running.copy()
        slowdown = 1 + config.batch_slowdown * (len(self._batch) - 1)
        duration_ns = prefill * 1e9 / config.prefill_tps + config.decode_ms * 1e6 * slowdown
        self._step_end_ns = self._clock_ns + round(duration_ns)
        self.totals.steps += 1

    def _secure_next_blocks(self) -> bool:
        """Give each running request the block that its next token needs; returns whether somebody was preempted."""
        preempted = False
        position = 0
        while position < len(self._running):
            job = self._running[position]
            if job.lease.blocks >= blocks_for(len(job.prompt) + job.emitted, self.config.block_size):
                position += 1
            elif not self.pool.acquire(job.lease, (), 1):
                preempted = True
                victim = self._running.pop()
                self.pool.release(victim.lease)
                victim.preemptions += 1
                self.totals.preemptions += 1
                self._waiting.appendleft(victim)
        return preempted

    def _admit(self, job: Job) -> int | None:
        """Take the blocks that the request needs; returns the tokens to prefill, ``None`` if there are too few blocks."""
        size = self.config.block_size
        length = len(job.prompt) + job.emitted  # a preempted request computes again what it had said
        hits = 0
        if self.config.prefix_caching:
            extend_chain(job.chain, job.tokens(length), size)
            # The last token is always computed, or there would be nothing to predict the next one from.
            hits = self.pool.cached_prefix(job.chain[: (length - 1) // size])
        if not self.pool.acquire(job.lease, job.chain[:hits], blocks_for(length, size) - hits):
            return None
        for key in job.chain[hits:]:
            self.pool.publish(job.lease, key)
        if job.admitted_ns is None:
            job.admitted_ns = self._clock_ns
            job.load_wait_ns = max(0, (self.loaded_ns or 0) - job.arrived_ns)
            job.cached_tokens = hits * size
            if self.config.prefix_caching:
                self.totals.prefix_queries += length
                self.totals.prefix_hits += job.cached_tokens
        return length - hits * size

    def _end_step(self) -> None:
        self._step_end_ns = None
        for job in self._batch:
            if not job.over:
                self._say(job)
        self._batch = []

    def _say(self, job: Job) -> None:
        now_ns = self._clock_ns
        if self.config.prefix_caching:
            length = len(job.prompt) + job.emitted
            if length // self.config.block_size > len(job.chain):
                extend_chain(job.chain, job.tokens(length), self.config.block_size)
                self.pool.publish(job.lease, job.chain[-1])
        if job.first_ns is None:
            job.first_ns = now_ns
            self.totals.prompt_tokens += len(job.prompt)
            self.totals.cached_prompt_tokens += job.cached_tokens
        gap_ns = None if job.last_ns is None else now_ns - job.last_ns
        job.last_ns = now_ns
        job.emitted += 1
        self.totals.generation_tokens += 1
        is_last = job.emitted == len(job.reply)
        self._said.append(Token(job, job.emitted - 1, now_ns, gap_ns, is_last))
        if is_last:
            self._running.remove(job)
            self._end(job, job.finish_reason)

    def _end(self, job: Job, reason: str) -> None:
        self.pool.release(job.lease)
        job.over = True
        self.totals.finished[reason] += 1
        self._expire_if_idle(self._clock_ns)

    def _expire_if_idle(self, since_ns: int) -> None:
        if not self._waiting and not self._running:
            self.expires_ns = since_ns + self._keep_ns

    def _forget(self) -> None:
        self.loaded_ns = self.expires_ns = None
        self._keep_ns = FOREVER_NS
        self.pool = BlockPool(self.config.kv_blocks)
