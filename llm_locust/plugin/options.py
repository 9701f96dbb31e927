"""The options of a run as numbers, checked all at once and before load."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from llm_locust.dispatch import Bounds
from llm_locust.plugin.option_table import OPTION_NAMES, OPTIONS, Option, add_options, bind_to_loopback
from llm_locust.plugin.option_values import (
    flag_set,
    given,
    given_options,
    json_object,
    listed,
    number,
    required,
    seconds,
    whole,
)
from llm_locust.plugin.stage_options import read_stage_options
from llm_locust.plugin.workload_options import WorkloadOptions, read_workload_options
from llm_locust.records import Prices, Requirements, UsageError, parse_slo
from llm_locust.records.facts import NO_FACTS, Facts, read_facts
from llm_locust.records.gates import format_gate, parse_gates
from llm_locust.records.leaving import Leaving, parse_leaving
from llm_locust.records.quality import QualitySpec
from llm_locust.streaming import Proxy
from llm_locust.telemetry.metrics_targets import metrics_targets
from llm_locust.users.checks import parse_quality
from llm_locust.users.headers import parse_headers, refuse_two_credentials

__all__ = [
    "OPTIONS",
    "OPTION_NAMES",
    "Option",
    "RunOptions",
    "add_options",
    "bind_to_loopback",
    "given_options",
    "read_options",
]

STREAM_LIMITS = frozenset({"ttft", "tpot", "max_gap", "arrival_ttft"})
"""Limits that only a streamed reply can be held to."""

SHORTEST_INTERVAL_S = 0.1
"""Between two readings of a metrics page: ten pages of vLLM a second take the master 3 % of a core."""


class RunOptions(WorkloadOptions, frozen=True, kw_only=True):
    """The options as numbers, with every default worked out."""

    max_in_flight: int | None
    deadline_s: float
    slo: dict[str, float]
    gates: list[str]
    model: str | None
    streaming: bool
    api_key_env: str | None
    basic_auth_env: str | None
    headers: list[tuple[str, str]]
    extra_body: dict[str, Any]
    quality: QualitySpec | None
    cancel: Leaving | None
    ca_file: str | None
    insecure: bool
    proxy: str | None
    ready_timeout_s: float
    bounds: Bounds
    stop_on_fail: bool
    html: bool
    facts: Facts
    metrics: list[str]
    metrics_interval_s: float
    metrics_map: str | None
    requirements: Requirements
    dry_run: bool
    prices: Prices
    run_dir: str


def read_options(namespace: Namespace) -> RunOptions:
    """The options of this project, checked.

    Raises:
        UsageError: a value that cannot be used; what is allowed is said.
    """
    slo = parse_slo(given(namespace, "slo"))
    streaming = not flag_set(namespace, "no_stream")
    if not streaming and (limited := [name for name in slo if name in STREAM_LIMITS]):
        raise UsageError(
            f"--no-stream cannot be judged by {', '.join(limited)}: a whole reply has no first token. "
            "Limits that hold for it are e2e and arrival_e2e"
        )
    cancel = None if (leaving := given(namespace, "cancel")) is None else parse_leaving(leaving)
    if cancel is not None and cancel.after_events is not None and not streaming:
        raise UsageError("--cancel tokens=N needs a stream to count in: with --no-stream write after=SECONDS")
    max_failures = required(whole(namespace, "max_failures", at_least=0))
    metrics = listed(namespace, "metrics")
    metrics_targets(metrics, "http://host")  # what is wrong with an address is said before anything is waited for
    interval_s = seconds(namespace, "metrics_interval")
    if interval_s is not None and interval_s < SHORTEST_INTERVAL_S:
        raise UsageError(
            f"--metrics-interval {interval_s:g}: at least {SHORTEST_INTERVAL_S} s, or reading is load of its own"
        )
    if (metrics_map := given(namespace, "metrics_map")) is not None:
        from llm_locust.telemetry.metrics import load_mapping  # reads pages: not for a process that only makes load

        load_mapping(metrics_map)
    api_key_env, basic_auth_env = given(namespace, "api_key_env"), given(namespace, "basic_auth_env")
    headers = parse_headers(listed(namespace, "header"))
    if basic_auth_env is not None:
        refuse_two_credentials(basic_auth_env, api_key_env, headers, environment={})  # the keys are on the workers
    stage_options = read_stage_options(namespace, slo)
    if interval_s is None:  # a trend needs readings in every tenth of the window
        interval_s = min(1.0, max(_shortest_window_s(stage_options) / 20, SHORTEST_INTERVAL_S))
    return RunOptions(
        **stage_options,
        **read_workload_options(namespace, stage_options["trace"], stage_options["seed"]),
        max_in_flight=whole(namespace, "max_in_flight", at_least=1),
        deadline_s=required(seconds(namespace, "deadline")),
        slo=slo,
        gates=[format_gate(gate) for gate in parse_gates(listed(namespace, "gate"))],
        model=given(namespace, "model"),
        streaming=streaming,
        api_key_env=api_key_env,
        basic_auth_env=basic_auth_env,
        headers=headers,
        extra_body=json_object(namespace, "extra_body"),
        quality=None if (check := given(namespace, "quality")) is None else parse_quality(check),
        cancel=cancel,
        ca_file=given(namespace, "ca_file"),
        insecure=flag_set(namespace, "insecure"),
        proxy=Proxy.parse(proxy).url if (proxy := given(namespace, "proxy")) else None,
        ready_timeout_s=required(seconds(namespace, "ready_timeout", allow_zero=True)),
        bounds=Bounds(
            max_requests=whole(namespace, "max_requests", at_least=1),
            max_output_tokens=whole(namespace, "max_output_tokens", at_least=1),
            max_minutes=number(namespace, "max_minutes", "minutes"),
            failures_in_a_row=max_failures or None,
        ),
        facts=read_facts(Path(facts_file)) if (facts_file := given(namespace, "facts")) else NO_FACTS,
        metrics=metrics,
        metrics_interval_s=interval_s,
        metrics_map=metrics_map,
        stop_on_fail=flag_set(namespace, "stop_on_fail"),
        html=not flag_set(namespace, "no_html"),
        requirements=Requirements(
            rate_rps=number(namespace, "require_rate", "requests per second"),
            every_stage=flag_set(namespace, "require_pass"),
        ),
        dry_run=flag_set(namespace, "dry_run"),
        prices=Prices(
            per_hour=number(namespace, "price_per_hour", "a price"),
            input_per_million=number(namespace, "price_input", "a price"),
            output_per_million=number(namespace, "price_output", "a price"),
        ),
        run_dir=given(namespace, "run_dir") or "runs",
    )


_UNKNOWN_WINDOW_S = 5.0
"""For a closed stage of so many requests: nobody knows how long they will take."""


def _shortest_window_s(stage_options: dict[str, Any]) -> float:
    """How short a window may be expected."""
    if stage_options["requests"] is not None and stage_options["rates_rps"]:
        return float(stage_options["requests"] / max(stage_options["rates_rps"]))
    if stage_options["repeats"] is not None:
        return _UNKNOWN_WINDOW_S
    return float(stage_options["stage_time_s"])
