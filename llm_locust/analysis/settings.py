"""What differs between the settings of runs, each thing under a name of its own: a comparison may be about one of them.

Strategy: every run is read as a table of named values. What only follows from something else (the digest of a workload whose
prompt lengths differ) is not a difference of its own. An address says where a server is, not what it is, so it is noted, and
is what the comparison is about only where nothing else differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llm_locust.analysis.words import number
from llm_locust.records import Manifest, StageSpec, UsageError, format_slo
from llm_locust.records.comparison import SettingDifference, SettingRole
from llm_locust.records.manifest import StageManifest
from llm_locust.records.summary import RunSummary

HOST = "host"

MODEL_FACTS = frozenset(
    {
        "model_id", "model_root", "model_digest", "model_file", "model_revision", "weights_sha256", "quantization_dtype",
        "tokenizer_revision", "chat_template_sha256",
    }
)  # fmt: skip
"""Facts that make a model the one it is: another model, or quantisation, is one thing, however many of them differ."""

ENGINE_FACTS = frozenset({"engine", "engine_version", "image_digest"})

FOLLOWING_FACTS = frozenset({"kv_cache_size_tokens", "kv_cache_max_concurrency", "gpu_residency", "model_ids"})
"""Facts that follow from others and from what was free in memory; they are noted."""

WORKLOAD_OPTIONS = frozenset(
    {
        "prompts", "trace", "trace_format", "trace_from", "trace_to", "input_tokens", "output_tokens", "shared_prefix",
        "sessions", "mix", "max_tokens", "tokenizer",
    }
)  # fmt: skip
"""Options that decide what is sent: where the digest of the workload is the same, so is all that they say."""

SAMPLING_OPTIONS = frozenset(
    {"temperature", "top_p", "sampling_seed", "stop", "ignore_eos", "min_tokens", "extra_body"}
)
"""Options that set fields of every request's body, which the workload's digest may hold."""

OTHERWISE_COMPARED = frozenset(
    {
        "rates", "concurrency", "arrivals", "stage_time", "requests", "repeats", "warmup_time", "cooldown", "seed",
        "max_in_flight", "deadline", "slo", "gate", "quality", "cancel", "model", "no_stream", "facts", "insecure", "proxy",
        "workload_kind",
    }
)  # fmt: skip
"""Options whose meaning stands elsewhere in the manifest, in one form."""

WITHOUT_MEANING = frozenset(
    {
        "run_dir", "metrics", "metrics_interval", "metrics_map", "ready_timeout", "dry_run", "price_per_hour",
        "price_input", "price_output", "max_requests", "max_output_tokens", "max_minutes", "max_failures", "stop_on_fail",
        "require_rate", "require_pass", "api_key_env", "basic_auth_env", "ca_file", "max_stages", "resolution", "rounds",
        "prometheus_port", "prometheus_host", "json_lines", "no_html",
    }
)  # fmt: skip
"""Options that change no figure of a stage that ran to its end."""

LOAD_SETTINGS = frozenset(
    {
        "load", "arrivals", "rates", "concurrency", "condition", "trace", "window", "warmup", "cooldown", "shuffle", "burst",
        "time_scale", "rate_scale", "trace_jitter", "idle", "unload", "cold_share",
    }
)  # fmt: skip
"""When requests are sent, and what the server is brought to before: runs of one service may each try something else."""

LOAD_GENERATOR = frozenset({"seed", "workers", "generator", "receive_times"})

FACTS_OF_A_RECORD = frozenset({"owner", "evidence_location", "retest_when", "startup_peak_memory_gb"})
"""Facts that say nothing of what the service is."""

ALWAYS_KNOWN = frozenset(
    {
        HOST, "load", "arrivals", "rates", "concurrency", "window", "warmup", "cooldown", "workload", "workload_kind",
        "seed", "model", "engine", "slo", "gates", "quality", "cancel", "deadline", "max_in_flight", "streaming",
        "tls_verified", "proxy", "users", "output_token_source", "receive_times", "llm-locust", "locust", "python",
        "generator", "workers", "trace", "condition", "sampling", "cache_state", "synthetic_engine", "tokens_counted_by",
    }
)  # fmt: skip
"""Names that ``--allow`` takes whether or not they differ, beside those of facts and options."""


def differing(
    manifests: Sequence[Manifest],
    summaries: Sequence[RunSummary],
    *,
    points_in_common: bool,
    allowed: Sequence[str] = (),
) -> list[SettingDifference]:
    """What is not the same in all runs: the one thing that is compared, what may differ too, and what is only noted.

    Args:
        manifests: Of the runs, the first being what the others are held against.
        summaries: Theirs, in the same order.
        points_in_common: Some rate or concurrency was run in all of them: then the load is what they share, and points that
            only one has are no difference of settings.
        allowed: Names of things that may differ beside the one.

    Raises:
        UsageError: more than one thing differs that was not allowed; or an allowed name is none.
    """
    values = _values(manifests, summaries)
    found = _not_alike(values)
    noted = {name for name in found if name == HOST or name in FOLLOWING_FACTS}
    for name in _explained(found, points_in_common):
        found.pop(name, None)
    _check_names(allowed, known=ALWAYS_KNOWN | set(values), found=found)
    open_ = [name for name in found if name not in noted and name not in allowed]
    if len(open_) > 1:
        raise UsageError(_refusal(found, open_))
    if not open_ and HOST in found and not (found.keys() & set(allowed)):
        open_ = [HOST]
    roles: dict[str, SettingRole] = {
        name: "compared" if name in open_ else "allowed" if name in allowed else "noted" for name in found
    }
    order = ("compared", "allowed", "noted")
    differences = [SettingDifference(name=name, values=_in_words(of), role=roles[name]) for name, of in found.items()]
    return sorted(differences, key=lambda difference: order.index(difference.role))


def differing_services(manifests: Sequence[Manifest], summaries: Sequence[RunSummary]) -> list[SettingDifference]:
    """What keeps runs from being of one service, as ``compared``; what else is not the same in them, as ``noted``.

    When requests were sent may differ, and what made and watched the load. What served them, what was sent and what it was
    held to may not; an address says where a server is, not what it is. Another digest is another workload, whatever it
    comes from: nobody could tell from it whether the same requests were sent.

    Args:
        manifests: Of the runs, the first being what the others are held against.
        summaries: Theirs, in the same order.
    """
    found = _not_alike(_values(manifests, summaries))
    gone = set(WORKLOAD_OPTIONS)  # what they make of a workload is in its digest
    for cause, effects in _FOLLOWS.items():
        if cause in found:
            gone |= effects
    may = LOAD_SETTINGS | LOAD_GENERATOR | FOLLOWING_FACTS | FACTS_OF_A_RECORD | {HOST}
    versions = {name for manifest in manifests for name in manifest.versions} - ENGINE_FACTS
    return [
        SettingDifference(
            name=name, values=_in_words(of), role="noted" if name in may or name in versions else "compared"
        )
        for name, of in found.items()
        if name not in gone - LOAD_SETTINGS
    ]


def _values(manifests: Sequence[Manifest], summaries: Sequence[RunSummary]) -> dict[str, list[Any]]:
    """Every setting that some run has, by name, with its value in each run; ``None`` is what is not said."""
    tables = [_table(manifest, summary) for manifest, summary in zip(manifests, summaries, strict=True)]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: [table.get(name) for table in tables] for name in names}


def _not_alike(values: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: of for name, of in values.items() if any(value != of[0] for value in of)}


def _explained(found: Mapping[str, Any], points_in_common: bool) -> set[str]:
    """What follows from another difference."""
    gone: set[str] = set()
    load = {"load", "arrivals", "rates", "concurrency", "condition"}
    if points_in_common:
        gone |= load
    elif "load" in found:  # open arrivals against a closed loop: one thing, whatever it takes to say it
        gone |= (load - {"load"}) | {"cooldown", "trace"}
    if "workload" not in found:
        gone |= WORKLOAD_OPTIONS
    elif found.keys() & (WORKLOAD_OPTIONS | SAMPLING_OPTIONS | {"seed", "trace"}):
        gone |= {"workload", "workload_kind"}
    for cause, effects in _FOLLOWS.items():
        if cause in found:
            gone |= effects
    return gone


_REPLAY = frozenset({"trace", "rates", "window"})
_FOLLOWS: Mapping[str, frozenset[str]] = {
    "model": frozenset({"tokens_counted_by"}),
    **dict.fromkeys(SAMPLING_OPTIONS, frozenset({"sampling"})),
    "reuse_prompts": frozenset({"cache_state"}),
    "reset_prefix_cache": frozenset({"cache_state"}),
    "time_scale": _REPLAY,
    "rate_scale": _REPLAY,
    "trace_jitter": _REPLAY,
}
"""What differs because something else does."""


def _check_names(allowed: Sequence[str], known: set[str] | frozenset[str], found: Mapping[str, Any]) -> None:
    for name in allowed:
        if name not in known:
            differs = f"what differs here is {', '.join(found)}" if found else "nothing differs here"
            raise UsageError(f"--allow {name}: no setting is called so; {differs}")


def _refusal(found: Mapping[str, list[Any]], open_: Sequence[str]) -> str:
    lines = [f"  {name}: {' against '.join(_in_words(found[name]))}" for name in open_]
    others = " ".join(f"--allow {name}" for name in open_[1:])
    return "\n".join(
        [
            f"the runs differ in {len(open_)} things, so that a difference between their figures could not be put down to "
            "one of them:",
            *lines,
            f"Run them again with one thing changed, or allow the others by name, e.g. {others}",
        ]
    )


def _in_words(values: Sequence[Any]) -> list[str]:
    """The values of one setting; of one that has several parts those parts that differ."""
    tables = [value for value in values if isinstance(value, dict)]
    if len(tables) < len(values):
        return [_words(value) for value in values]
    parts = list(dict.fromkeys(part for table in tables for part in table))
    differ = [part for part in parts if any(table.get(part) != tables[0].get(part) for table in tables)]
    return [
        ", ".join(_words(table.get(part)) if part == "name" else f"{part} {_words(table.get(part))}" for part in differ)
        for table in tables
    ]


def _words(value: Any) -> str:
    if value is None:
        return "not said"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple):
        return ", ".join(_words(item) for item in value) or "none"
    return str(value)


def _table(manifest: Manifest, summary: RunSummary) -> dict[str, Any]:
    """Every setting of a run that may matter, by name; ``None`` is what is not said."""
    facts = {**manifest.facts, **manifest.server_facts_start}
    workload = manifest.workload
    table: dict[str, Any] = {
        HOST: manifest.host,
        "model": {"name": manifest.model} | {name: facts[name] for name in sorted(MODEL_FACTS & facts.keys())},
        "engine": {name: facts.get(name, manifest.versions.get(name)) for name in sorted(ENGINE_FACTS)},
        "synthetic_engine": manifest.synthetic_engine,
    }
    table |= {name: facts[name] for name in sorted(facts.keys() - MODEL_FACTS - ENGINE_FACTS)}
    table |= _load(manifest.stages)
    table |= {
        "workload": f"{workload.name} (SHA-256 {workload.sha256[:12]})",
        "workload_kind": workload.kind,
        "tokens_counted_by": workload.tokens_counted_by,
        "sampling": workload.sampling,
        "cache_state": workload.cache_state,
        "seed": manifest.seed,
        "slo": format_slo(manifest.slo) or "none",
        "gates": sorted(manifest.gates) or "the defaults",
        "quality": manifest.quality or "no check",
        "cancel": manifest.cancel or "nobody leaves",
        "deadline": "not known" if manifest.deadline_s is None else f"{number(manifest.deadline_s)} s",
        "max_in_flight": manifest.max_in_flight or "no cap",
        "streaming": manifest.streaming,
        "tls_verified": manifest.tls_verified,
        "proxy": manifest.proxy,
        "users": manifest.users,
        "output_token_source": sorted({name for stage in summary.stages for name in stage.token_sources}),
        "receive_times": _commonest_clock(summary),
        "generator": {name: manifest.machine.get(name) for name in ("system", "machine", "cpus")},
        "workers": max((len(stage.workers) for stage in manifest.stages), default=0),
    }
    engine = {"engine", "engine_version"}
    table |= {name: version for name, version in manifest.versions.items() if name not in engine}
    skipped = OTHERWISE_COMPARED | WITHOUT_MEANING
    table |= {name: value for name, value in sorted(manifest.options.items()) if name not in skipped}
    return table


def _commonest_clock(summary: RunSummary) -> str | None:
    counts: dict[str, int] = {}
    for stage in summary.stages:
        for clock, count in stage.clock_sources.items():
            counts[clock] = counts.get(clock, 0) + count
    return max(counts, key=lambda clock: counts[clock], default=None)


def _load(stages: Sequence[StageManifest]) -> dict[str, Any]:
    """When requests were sent."""
    specs = [stage.spec for stage in stages]
    opened = [spec for spec in specs if spec.mode == "open"]
    replays = {msgspec.json.encode(msgspec.structs.replace(s.replay, path="")).decode() for s in specs if s.replay}
    return {
        "load": sorted({"open arrivals" if spec.mode == "open" else "closed loop" for spec in specs}),
        "arrivals": sorted({spec.arrivals for spec in opened}),
        "rates": sorted({spec.rate_rps for spec in opened if spec.rate_rps is not None}),
        "concurrency": sorted({spec.concurrency for spec in specs if spec.concurrency is not None}),
        "condition": sorted({spec.condition or "" for spec in specs} - {""}),
        "trace": sorted(replays),
        "window": sorted({_window(spec) for spec in specs}),
        "warmup": sorted({f"{number(spec.warmup_s)} s" for spec in specs}),
        "cooldown": sorted({f"{number(spec.cooldown_s)} s" for spec in opened}),
    }


def _window(spec: StageSpec) -> str:
    if spec.window_s is not None:
        return f"{number(spec.window_s)} s"
    return f"{spec.requests} requests" if spec.requests is not None else "until stopped"
