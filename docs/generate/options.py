"""``options.md``: the options that are added to Locust's command line."""

from __future__ import annotations

import argparse

from docs.generate.markdown import code, page, section, table, text

SUBJECTS: dict[str, tuple[str, ...]] = {
    "When to send": (
        "rates", "stage_time", "warmup_time", "cooldown", "requests", "rounds", "shuffle", "concurrency", "repeats",
        "arrivals", "resolution", "max_stages", "burst", "idle", "unload", "cold_share", "seed", "max_in_flight",
    ),
    "A trace": (
        "trace", "trace_format", "time_scale", "rate_scale", "trace_from", "trace_to", "trace_jitter",
    ),
    "What to send": (
        "model", "max_tokens", "prompts", "input_tokens", "output_tokens", "shared_prefix", "sessions", "mix", "tokenizer",
        "workload_kind", "temperature", "top_p", "sampling_seed", "stop", "ignore_eos", "min_tokens", "reuse_prompts",
        "reset_prefix_cache", "no_stream", "extra_body", "cancel",
    ),
    "How to reach the server": (
        "api_key_env", "basic_auth_env", "header", "ca_file", "insecure", "proxy", "ready_timeout", "deadline",
    ),
    "What decides": ("slo", "gate", "quality", "require_rate", "require_pass", "stop_on_fail", "facts"),
    "Budgets": ("max_requests", "max_output_tokens", "max_minutes", "max_failures"),
    "What is read of the server": ("metrics", "metrics_interval", "metrics_map"),
    "What comes out": (
        "run_dir", "dry_run", "json_lines", "prometheus_port", "prometheus_host", "price_per_hour", "price_input",
        "price_output",
    ),
}  # fmt: skip
"""Options by what they are about. One that is not here is listed at the end."""


def options_page() -> str:
    """Every option of ours, as Locust's own parser has it."""
    actions = {action.dest: action for action in _actions()}
    listed = [name for names in SUBJECTS.values() for name in names if name in actions]
    others = tuple(name for name in actions if name not in listed)
    parts = [
        section(
            subject,
            table(
                ("option", "what it says", "default", "variable", "web form"),
                (_row(actions[name]) for name in names if name in actions),
            ),
        )
        for subject, names in ({**SUBJECTS, "Others": others} if others else SUBJECTS).items()
    ]
    return page(
        "Options of `locust`",
        "What our locustfiles and shapes add to Locust's command line. `locust -f locustfiles/chat.py --help` and "
        "`llm-locust options` list the same. Each can also stand in `locust.conf`, in `pyproject.toml` under "
        "`[tool.locust]` (without the dashes), or be set by its variable. Locust's own options (`--host`, `--headless`, "
        "`--processes`, `--master`, `--worker`, `--web-port`, ...) are told in Locust's documentation.\n\n"
        "*Web form*: whether the option is a field of the start form in Locust's web UI. What such a value looks like in "
        "full, parameter by parameter, is on the page of [loads](loads.md); limits and gates are on the page of "
        "[judging](judging.md).",
        *parts,
    )


def _actions() -> list[argparse.Action]:
    from locust.argument_parser import get_parser

    import llm_locust.plugin  # noqa: F401 - its import registers the options
    from llm_locust.plugin.option_table import GROUP

    groups = get_parser(default_config_files=[])._action_groups
    return next(list(group._group_actions) for group in groups if group.title == GROUP)


def _row(action: argparse.Action) -> tuple[str, ...]:
    from llm_locust.plugin.option_table import OPTIONS

    ours = next(option for option in OPTIONS if option.name == action.dest)
    value = f"[{action.metavar}]" if action.nargs == "?" else action.metavar or ""
    flag = f"{ours.flag} {value}".strip()
    default = "" if ours.default is None else ours.default
    in_form = "yes" if getattr(action, "include_in_web_ui", False) and not getattr(action, "is_secret", False) else "no"
    again = " May be given again." if ours.repeated else ""
    return code(flag), text(ours.meaning + again), code(default), code(ours.variable), in_form
