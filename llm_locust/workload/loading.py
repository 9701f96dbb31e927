"""The workload that a run asks for, and the proof that a worker has the same one.

Sources are registered in :data:`SOURCES`; the first that takes a specification loads it. A new one is a line there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from llm_locust.arrivals.stage_replay import load_trace
from llm_locust.records import UsageError
from llm_locust.records.run import SliceSpec, SourceSpec, TokenRule, WorkloadSpec
from llm_locust.workload.lengths import EMPIRICAL, parse_lengths
from llm_locust.workload.made_up import DEFAULT_TOKENS, MadeUpPrompts, SyntheticPrompts
from llm_locust.workload.mix import Mix
from llm_locust.workload.output import Output
from llm_locust.workload.prompt import Workload
from llm_locust.workload.prompts_file import PromptsFile
from llm_locust.workload.sessions import parse_sessions
from llm_locust.workload.shared_prefix import parse_shared_prefix
from llm_locust.workload.sharegpt import ShareGPTFile, is_sharegpt
from llm_locust.workload.trace_prompts import TracePrompts


@dataclass(frozen=True)
class Source:
    """One kind of source."""

    takes: Callable[[SourceSpec], bool]
    """Whether a specification means this one."""
    load: Callable[[SourceSpec, Output, int, TokenRule, str], Workload]
    """From the specification, what is asked of replies, seed, token rule, and a label that tells slices apart."""
    counts: Callable[[SourceSpec], bool]
    """Whether its lengths depend on how text is counted."""


def _never(_: SourceSpec) -> bool:
    return False


def _always(_: SourceSpec) -> bool:
    return True


def _is_file(spec: SourceSpec) -> bool:
    return spec.prompts_file is not None


def _is_sharegpt(spec: SourceSpec) -> bool:
    return spec.prompts_file is not None and is_sharegpt(spec.prompts_file)


def _is_made_up(spec: SourceSpec) -> bool:
    return any((spec.input_tokens, spec.shared_prefix, spec.sessions))


def _is_trace(spec: SourceSpec) -> bool:
    return spec.trace_file is not None


def _tells_lengths(spec: SourceSpec) -> bool:
    assert spec.trace_file is not None
    return load_trace(spec.trace_file, spec.trace_format).log is None


def _load_sharegpt(spec: SourceSpec, output: Output, _seed: int, rule: TokenRule, _label: str) -> Workload:
    assert spec.prompts_file is not None
    return ShareGPTFile(
        spec.prompts_file, characters_per_token=rule.characters_per_token, output=output, kind=spec.kind
    )


def _load_file(spec: SourceSpec, output: Output, _seed: int, _rule: TokenRule, _label: str) -> Workload:
    assert spec.prompts_file is not None
    return PromptsFile(spec.prompts_file, spec.max_tokens, output=output, kind=spec.kind)


def _load_made_up(spec: SourceSpec, output: Output, seed: int, rule: TokenRule, label: str) -> Workload:
    text = spec.input_tokens or DEFAULT_TOKENS
    return MadeUpPrompts(
        seed,
        parse_lengths(text, "--input-tokens", _measured(spec, "input_tokens", text)),
        output,
        rule=rule,
        prefix=None if spec.shared_prefix is None else parse_shared_prefix(spec.shared_prefix),
        sessions=None if spec.sessions is None else parse_sessions(spec.sessions),
        labels=label,
    )


def _load_trace(spec: SourceSpec, output: Output, seed: int, rule: TokenRule, _label: str) -> Workload:
    assert spec.trace_file is not None
    trace = load_trace(spec.trace_file, spec.trace_format)
    return TracePrompts(trace, seed=seed, max_tokens=spec.max_tokens, output=output, rule=rule)


def _load_synthetic(spec: SourceSpec, output: Output, seed: int, _rule: TokenRule, label: str) -> Workload:
    return SyntheticPrompts(seed, spec.max_tokens, output=output, label=label)


SOURCES: dict[str, Source] = {
    "sharegpt": Source(_is_sharegpt, _load_sharegpt, _always),
    "jsonl": Source(_is_file, _load_file, _never),
    "made-up": Source(_is_made_up, _load_made_up, _always),
    "trace": Source(_is_trace, _load_trace, _tells_lengths),
    "synthetic": Source(_always, _load_synthetic, _never),
}
"""By name, in the order in which they are asked."""


def load_workload(spec: WorkloadSpec) -> Workload:
    """The workload that is asked for: a mix, a file of prompts, made-up ones, a trace's rows, else the built-in ones.

    From memory where it was loaded last and its files have not changed since: nothing about a workload does, and a file of
    prompts may be large.

    Raises:
        UsageError: a file is unusable, or options contradict each other.
    """
    global _last
    key = (msgspec.json.encode(msgspec.structs.replace(spec, sha256="")), _versions(spec))
    if _last is None or _last[0] != key:
        _last = (key, _load_anew(spec))
    return _last[1]


_Key = tuple[bytes, list[tuple[int, int] | None]]
_last: tuple[_Key, Workload] | None = None


def _versions(spec: WorkloadSpec) -> list[tuple[int, int] | None]:
    """Time of change and size of every file that prompts come from."""
    parts: list[SourceSpec] = [spec, *spec.mix]
    found: list[tuple[int, int] | None] = []
    for path in (path for part in parts for path in (part.prompts_file, part.trace_file) if path is not None):
        try:
            status = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return found


def _load_anew(spec: WorkloadSpec) -> Workload:
    if not spec.mix:
        return _load(spec, spec.seed, spec.tokens, "")
    source = spec.mix_file or "the mix"
    slices = {part.name: (part.weight, _load_slice(part, spec, source)) for part in spec.mix}
    return Mix(spec.seed, slices, name=Path(source).stem, source=source)


def needs_counting(spec: WorkloadSpec) -> bool:
    """Whether some lengths depend on how text is counted: made-up prompts, and replies measured in characters.

    Raises:
        UsageError: a file is unusable.
    """
    parts: Sequence[SourceSpec] = spec.mix or [spec]
    return any(_source_of(part).counts(part) for part in parts)


def fixed(spec: WorkloadSpec, workload: Workload) -> WorkloadSpec:
    """The specification with the digest of what it was found to be."""
    return msgspec.structs.replace(spec, sha256=workload.facts.sha256)


def workload_of(spec: WorkloadSpec) -> Workload:
    """The workload of a run, made again on a worker and proven to be the same.

    Raises:
        UsageError: this process's prompts are not those of the master.
    """
    workload = load_workload(spec)
    if workload.facts.sha256 != spec.sha256:
        named = spec.prompts_file or spec.trace_file or spec.mix_file or "the synthetic workload"
        raise UsageError(
            f"{named} is not the same here as on the master "
            f"(SHA-256 {workload.facts.sha256[:12]} against {spec.sha256[:12]}): copy the master's file to this machine"
        )
    return workload


def _source_of(spec: SourceSpec) -> Source:
    return next(source for source in SOURCES.values() if source.takes(spec))


def _load(spec: SourceSpec, seed: int, rule: TokenRule, label: str) -> Workload:
    if spec.prompts_file is not None:
        for name in ("input_tokens", "shared_prefix", "sessions"):
            if getattr(spec, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} is of made-up prompts, and --prompts {spec.prompts_file} brings its own: "
                    "give one of them"
                )
    lengths = None
    if spec.output_tokens is not None:
        measured = _measured(spec, "output_tokens", spec.output_tokens)
        lengths = parse_lengths(spec.output_tokens, "--output-tokens", measured)
    output = Output(
        spec.max_tokens, lengths=lengths, labels=f"{seed}/{label}", min_tokens=spec.min_tokens, extra=spec.extra
    )
    return _source_of(spec).load(spec, output, seed, rule, label)


def _measured(spec: SourceSpec, column: str, text: str) -> Sequence[int] | None:
    """The known lengths of the trace, for those that are drawn from them."""
    if text.strip() != EMPIRICAL or spec.trace_file is None:
        return None
    values = getattr(load_trace(spec.trace_file, spec.trace_format), column)
    known: list[int] = values[values > 0].tolist()
    return known


def _load_slice(part: SliceSpec, spec: WorkloadSpec, source: str) -> Workload:
    try:
        return _load(part, spec.seed, spec.tokens, part.name)
    except UsageError as error:
        raise UsageError(f"{source}: slice.{part.name}: {error}") from None
