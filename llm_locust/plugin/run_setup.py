"""From options to a run: the target, the specification that workers get, and the manifest."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from locust.env import Environment

from llm_locust.plugin.options import RunOptions, given_options
from llm_locust.records import Clock, Manifest, UsageError
from llm_locust.records.facts import combine
from llm_locust.records.quality import QUALITY
from llm_locust.records.run import API_KEY_VARIABLES, RunSpec, UserChoice
from llm_locust.telemetry.devices.clock_offset import boot_id
from llm_locust.telemetry.master_process import this_process
from llm_locust.telemetry.target import TargetFacts
from llm_locust.users.base import LLMUser
from llm_locust.workload import fixed, load_workload


def llm_users(environment: Environment) -> list[type[LLMUser]]:
    """The users of this project, by name; the order is the same in every process."""
    found = [user for user in environment.user_classes if issubclass(user, LLMUser)]
    return sorted(found, key=lambda user: user.__name__)


def target_url(environment: Environment) -> str:
    """The server's base URL, from ``--host`` or a user class.

    Raises:
        UsageError: there is none, it is no URL, or it holds credentials.
    """
    host = environment.host or next((user.host for user in llm_users(environment) if user.host), None)
    if not host:
        raise UsageError("--host is missing: the server's base URL, e.g. --host http://127.0.0.1:8000")
    try:
        url = urlsplit(host)
        host.encode()
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        raise UsageError(f"--host {host!r}: write a base URL such as http://127.0.0.1:8000") from None
    if url.query or url.fragment:
        raise UsageError(
            "--host has a part after ? or #: write the base URL alone, and put a key into an environment variable"
        )
    if not usable:
        raise UsageError(f"--host {host!r}: write a base URL such as http://127.0.0.1:8000")
    if url.username or url.password:
        raise UsageError(
            "--host holds a user name or password: leave it out and put the key into " + API_KEY_VARIABLES[0]
        )
    return host.rstrip("/")


def user_choices(environment: Environment) -> list[UserChoice]:
    """The user classes with their weights, as a plan takes them."""
    return [UserChoice(name=user.__name__, weight=float(user.weight)) for user in llm_users(environment)]


def new_run_id() -> str:
    """Readable, sortable, unique: the start in UTC and four random digits."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def set_up_run(
    environment: Environment,
    options: RunOptions,
    host: str,
    facts: TargetFacts,
    clock: Clock,
    *,
    without_secrets: bool = False,
) -> tuple[RunSpec, Manifest]:
    """Everything a run needs to begin, for a server that is up.

    Raises:
        UsageError: something the person gave cannot be used.
    """
    model = options.model or (facts.models[0] if facts.models else None)
    workload = load_workload(options.workload)
    run_id = new_run_id()
    run = RunSpec(
        run_id=run_id,
        folder=str(Path(options.run_dir).resolve() / run_id),
        host=host,
        model=model,
        deadline_s=options.deadline_s,
        max_in_flight=options.max_in_flight,
        users=user_choices(environment),
        workload=fixed(options.workload, workload),
        streaming=options.streaming,
        api_key_env=options.api_key_env,
        basic_auth_env=options.basic_auth_env,
        headers=options.headers,
        extra_body=options.extra_body,
        reset_prefix_cache=options.reset_prefix_cache,
        quality=options.quality,
        cancel=options.cancel,
        ca_file=str(Path(options.ca_file).resolve()) if options.ca_file else None,
        insecure=options.insecure,
        proxy=options.proxy,
        without_secrets=without_secrets,
    )
    manifest = Manifest(
        run_id=run_id,
        state="running",
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        master=this_process(),
        host=host,
        model=model,
        synthetic_engine=facts.synthetic,
        users=[choice.name for choice in run.users],
        versions=_versions(facts),
        machine=_machine(clock),
        options=given_options(environment.parsed_options) if environment.parsed_options else {},
        command=_command(sys.argv[1:]),
        seed=options.seed,
        deadline_s=options.deadline_s,
        max_in_flight=options.max_in_flight,
        streaming=options.streaming,
        proxy=options.proxy,
        tls_verified=None if host.startswith("http://") else not options.insecure,
        slo=options.slo,
        gates=options.gates,
        quality=checked_by(environment, options),
        cancel=None if options.cancel is None else str(options.cancel),
        facts=combine(
            options.facts, {"engine": facts.engine, "engine_version": facts.version, "model_id": options.model}
        ),
        requirements=options.requirements,
        workload=workload.facts,
    )
    return run, manifest


def checked_by(environment: Environment, options: RunOptions) -> str | None:
    """What replies are checked by: the check named, and user classes with one of their own.

    Raises:
        UsageError: quality is to be part of good, and nothing checks it.
    """
    own = [f"{user.__name__}.check" for user in llm_users(environment) if user.check is not LLMUser.check]
    named = [] if options.quality is None else [str(options.quality)]
    if QUALITY in options.slo and not named and not own:
        raise UsageError(
            "--slo quality needs a check: --quality CHECK, or a user class that overrides check(); llm-locust options lists "
            "the shipped ones"
        )
    return ", ".join([*named, *own]) or None


def _command(arguments: Sequence[str]) -> list[str]:
    # A byte that is no UTF-8 comes as a lone surrogate, which JSON cannot hold.
    return ["locust", *(argument.encode("utf-8", "backslashreplace").decode() for argument in arguments)]


def _versions(facts: TargetFacts) -> dict[str, str]:
    found = {name: version(name) for name in ("llm-locust", "locust", "gevent", "numpy", "sseclient-py", "httptools")}
    found["python"] = platform.python_version()
    if facts.engine is not None:
        found["engine"] = facts.engine
    if facts.version is not None:
        found["engine_version"] = facts.version
    return found


def _machine(clock: Clock) -> dict[str, str | int | float | None]:
    """The master's machine; with its clock's anchor, samples taken on it can be put on the master's clock exactly."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "ram_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "clock_anchor_ns": clock.anchor_ns,
        "boot_id": boot_id(),
    }
