"""What every process of a run must agree on: written by the master, sent to the workers before the first stage."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from llm_locust.records.leaving import Leaving
from llm_locust.records.quality import QualitySpec

API_KEY_VARIABLES = ("LLM_LOCUST_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for on each machine, in this order, unless ``--api-key-env`` names another variable."""


PROXY_AUTH_VARIABLE = "LLM_LOCUST_PROXY_AUTH"
"""Holds ``user:password`` for the proxy on each machine that sends through it."""


class UserChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One user class and its share of the arrivals."""

    name: str
    """The class's name."""
    weight: float
    """Its share is this / all weights."""


class TokenRule(msgspec.Struct, frozen=True, kw_only=True):
    """How made-up text is counted in tokens of the server under test: found once on the master, then data for every worker.

    A text of n words of these is ``overhead + n`` tokens of a request's input.
    """

    source: Literal["server", "file", "estimate"] = "estimate"
    """Who counted: the server, a tokenizer file, or nobody."""
    counted_by: str = "estimated: a word is taken for a token, the chat template for none"
    """The same in words, for the manifest."""
    words: list[int] = []
    """Places in the pool of words that are one token each after a space; empty: all, for nobody has counted."""
    openers: list[int] = []
    """... and at the beginning of a message."""
    overhead: int = 0
    """Tokens of a request beyond its text: chat template, system prompt, marks of beginning and end."""
    ahead: int = 0
    """... those of them that come before its text, and so are shared by all prompts; at most ``overhead``."""
    characters_per_token: float = 4.0
    """Of a file's own texts; the rule of thumb for English where nobody has counted."""


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where prompts come from, how long they and their replies are, and what else is asked for with each."""

    prompts_file: str | None = None
    """A file of prompts, JSONL or ShareGPT; ``None`` for made-up prompts."""
    trace_file: str | None = None
    """A trace whose rows the prompts are made for, where there is no file of prompts."""
    trace_format: str | None = None
    """``None``: as its first line looks."""
    input_tokens: str | None = None
    """Lengths of made-up prompts, as text: ``512``, ``lognormal:p50=400,p95=2000``, ..."""
    output_tokens: str | None = None
    """Output limits of prompts that name none, as text; ``None``: ``max_tokens``."""
    shared_prefix: str | None = None
    """``share=0.9,groups=4,zipf=1.1``; ``None``: made-up prompts share nothing."""
    sessions: str | None = None
    """``turns=4,think=2``; ``None``: made-up prompts are alone."""
    max_tokens: int
    """Output limit of a request whose prompt brings none of its own."""
    min_tokens: int | None = None
    """The least that is to be generated; -1: as many as the output limit."""
    extra: dict[str, Any] = {}
    """Body fields of every prompt, by their OpenAI names; a prompt's own go before them."""
    kind: Literal["synthetic", "representative"] | None = None
    """What a person says of a file of prompts; ``None``: what is known of it."""


class SliceSpec(SourceSpec, frozen=True, kw_only=True):
    """One named part of a mix."""

    name: str
    """As figures and gates name it."""
    weight: float
    """Its share is this / all weights."""


class WorkloadSpec(SourceSpec, frozen=True, kw_only=True):
    """What is sent; the digest lets every worker prove that it has the same prompts."""

    seed: int
    """Of everything random in it."""
    mix_file: str | None = None
    """Where the mix was read."""
    mix: list[SliceSpec] = []
    """The slices, in place of one source."""
    tokens: TokenRule = TokenRule()
    """How made-up text is counted."""
    sha256: str = ""
    """Digest of prompts and limits; empty until it was taken."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as a worker needs to know it. Holds no secrets: keys are read from each worker's own environment."""

    run_id: str
    """The run's name."""
    folder: str
    """The run folder's path, as seen by the master; a worker on another machine makes its own."""
    host: str
    """The base URL of the target, without credentials."""
    model: str | None
    """As requests name it; ``None``: the request names none."""
    deadline_s: float
    """The whole-request deadline, from ``sent``; also the longest time an arrival is held back by the cap."""
    max_in_flight: int | None
    """Requests in flight over all workers; ``None`` for no cap."""
    users: list[UserChoice]
    """The user classes and their shares."""
    workload: WorkloadSpec
    """What is sent."""
    streaming: bool = True
    """``False`` asks for whole replies: there is no TTFT or TPOT then."""
    api_key_env: str | None = None
    """The environment variable that holds the key on each worker; ``None`` for the usual ones."""
    basic_auth_env: str | None = None
    """The environment variable that holds ``user:password`` on each worker, sent as Basic credentials instead of a key."""
    headers: list[tuple[str, str]] = []
    """Further headers, as the person gave them: a value ``@env:NAME`` is read on each worker."""
    extra_body: dict[str, Any] = {}
    """Fields put into every request's body, over what the user class says."""
    reset_prefix_cache: bool = False
    """The server is asked to forget cached prefixes before every stage."""
    quality: QualitySpec | None = None
    """What replies are checked by; ``None``: only by user classes with a check of their own."""
    cancel: Leaving | None = None
    """Which requests their clients drop; ``None``: none."""
    ca_file: str | None = None
    """PEM certificates to trust instead of the system's, at this path on every worker."""
    insecure: bool = False
    """The server's certificate is not verified."""
    proxy: str | None = None
    """``http://host:port`` of the proxy that all requests go through; ``None`` for none."""
    without_secrets: bool = False
    """The host was typed on a web page: a process that would send it a key refuses to."""


def request_id(run_id: str, index: int) -> str:
    """The id of an arrival, sent as ``X-Request-Id``: a function of run and index, whichever worker sends it."""
    return f"{run_id}.{index}"
