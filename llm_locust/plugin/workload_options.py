"""The options that say what is sent, and the specification that they make of it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from llm_locust.plugin.option_values import flag_of, flag_set, given, listed, required, whole
from llm_locust.plugin.stage_options import StageOptions
from llm_locust.records import UsageError
from llm_locust.records.run import WorkloadSpec
from llm_locust.records.stage import TraceReplay
from llm_locust.workload.mix_file import read_mix, sampling_value

AUTO, SERVER, ESTIMATE = "auto", "server", "estimate"
"""Words for ``--tokenizer``; anything else is a file."""
_OF_ONE_SOURCE = ("prompts", "input_tokens", "shared_prefix", "sessions", "workload_kind")
KINDS = ("synthetic", "representative")
_LIMIT = "limit"


class WorkloadOptions(StageOptions, frozen=True, kw_only=True):
    """What shapes are asked for, and what is to be sent."""

    workload: WorkloadSpec
    """Before it was looked at: without digest, and lengths estimated."""
    tokenizer: str
    """``auto``, ``server``, ``estimate``, or a file."""
    reset_prefix_cache: bool


def read_workload_options(namespace: Namespace, trace: TraceReplay | None, seed: int) -> dict[str, Any]:
    """The fields of :class:`WorkloadOptions` that are its own.

    Args:
        namespace: the parsed options.
        trace: what ``--trace`` names.
        seed: of everything that is drawn.

    Raises:
        UsageError: a value that cannot be used, or options that contradict each other.
    """
    prompts = given(namespace, "prompts")
    kind: Any = given(namespace, "workload_kind")
    if kind is not None and kind not in KINDS:
        raise UsageError(f"--workload-kind {kind!r}: one of {', '.join(KINDS)}")
    if kind == "representative" and prompts is None:
        raise UsageError("--workload-kind representative: made-up prompts are not; give your users' own with --prompts")
    if given(namespace, "output_tokens") is not None and given(namespace, "max_tokens") not in (None, "128"):
        raise UsageError("--output-tokens and --max-tokens both limit the reply: give one of them")
    spec = WorkloadSpec(
        prompts_file=str(Path(prompts).resolve()) if prompts else None,
        trace_file=trace.path if trace else None,
        trace_format=trace.format if trace else None,
        input_tokens=given(namespace, "input_tokens"),
        output_tokens=given(namespace, "output_tokens"),
        shared_prefix=given(namespace, "shared_prefix"),
        sessions=given(namespace, "sessions"),
        max_tokens=required(whole(namespace, "max_tokens", at_least=1)),
        min_tokens=_min_tokens(namespace),
        extra=_body_fields(namespace),
        kind=kind,
        seed=seed,
    )
    mix = given(namespace, "mix")
    if mix is not None:
        for name in _OF_ONE_SOURCE:
            if given(namespace, name) is not None:
                raise UsageError(
                    f"{flag_of(name)} is for one source; with --mix, each slice of {mix} has its own: write it there"
                )
        path = str(Path(mix).resolve())
        spec = msgspec.structs.replace(spec, mix_file=path, mix=read_mix(path, spec))
    tokenizer = given(namespace, "tokenizer") or AUTO
    if tokenizer not in (AUTO, SERVER, ESTIMATE) and not Path(tokenizer).is_file():
        raise UsageError(
            f"--tokenizer {tokenizer}: neither {AUTO}, {SERVER} nor {ESTIMATE}, and no such file; "
            "give one of the three, or the path of a tokenizer.json"
        )
    return {
        "workload": spec,
        "tokenizer": tokenizer,
        "reset_prefix_cache": flag_set(namespace, "reset_prefix_cache"),
    }


def _min_tokens(namespace: Namespace) -> int | None:
    if given(namespace, "min_tokens") == _LIMIT:
        return -1
    return whole(namespace, "min_tokens", at_least=0)


def _body_fields(namespace: Namespace) -> dict[str, Any]:
    """The sampling options as body fields, by their OpenAI names."""
    found: dict[str, Any] = {}
    for name in ("temperature", "top_p"):
        text = given(namespace, name)
        if text is not None:
            try:
                value: float | None = float(text)
            except ValueError:
                value = None
            found[name] = sampling_value(name, value if value is not None else text, f"{flag_of(name)} {text}")
    if (seed := whole(namespace, "sampling_seed", at_least=0)) is not None:
        found["seed"] = seed
    if stops := listed(namespace, "stop"):
        found["stop"] = stops
    if flag_set(namespace, "ignore_eos"):
        found["ignore_eos"] = True
    return found
