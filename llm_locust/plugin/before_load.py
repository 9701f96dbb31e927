"""Before load: which stages there will be, what they would cost, and whether the server takes a request at all."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import msgspec
from locust.env import Environment
from locust.runners import MasterRunner

from llm_locust.bundled_files import bundled
from llm_locust.dispatch import RequestBuilder, as_workers_read_it
from llm_locust.plugin.interrupts import say
from llm_locust.plugin.option_sources import standing
from llm_locust.plugin.option_table import DEFAULTS
from llm_locust.plugin.option_values import flag_of, given_options
from llm_locust.plugin.options import RunOptions
from llm_locust.plugin.run_setup import user_choices
from llm_locust.plugin.shape import SHAPE_OPTIONS, WITHOUT_A_SHAPE, StageShape
from llm_locust.records import Clock, StageSpec, UsageError
from llm_locust.records.gates import format_gate, parse_gate
from llm_locust.records.run import RunSpec
from llm_locust.streaming import StreamClient, StreamRequest
from llm_locust.streaming.redaction import safe_line
from llm_locust.telemetry.prefix_cache import reset_prefix_cache
from llm_locust.telemetry.probe import Probe
from llm_locust.telemetry.readiness import FirstRequestFailed, await_ready, check_one_request
from llm_locust.telemetry.target import TargetFacts
from llm_locust.telemetry.unloading import unload_model
from llm_locust.users.headers import proxy_here
from llm_locust.workload import Prompt, Workload, load_workload

CONNECT_S = 30.0
MOST_STAGES = 10_000
"""A shape that yields for ever is listed so far."""
CHECK_INDEX = -1
"""The prompt of the one request before load: none that a stage sends, where the workload has more of them."""
CHECK_TOKENS = 16


def stages_of(environment: Environment, options: RunOptions, users: int) -> list[StageSpec]:
    """The stages of the shape; without one of ours, Locust's users are a closed loop that lasts until it is stopped.

    Raises:
        UsageError: the shape lacks an option, or has no stages.
    """
    shape = environment.shape_class
    if isinstance(shape, StageShape):
        stages = _listed_by_a_person(shape, options)
        _refuse_what_it_does_not_read(shape, environment)
        if not stages:
            raise UsageError(f"the shape {type(shape).__name__} has no stages: yield at least one from stages()")
        for stage in stages:
            _refuse_a_cap_below(stage.concurrency, options)
        return stages
    if shape is None:
        _refuse_what_nobody_reads(environment)
    _refuse_a_cap_below(users, options)
    return [
        StageSpec(
            stage=0,
            mode="closed",
            concurrency=users,
            by_users=True,
            warmup_s=options.warmup_s if options.warmup_given else 0.0,
            window_s=None,
            cooldown_s=0.0,
            seed=options.seed,
            first_index=0,
        )
    ]


EXPECTED_SAMPLE = 64
"""Prompts looked at for an expected answer."""


def refuse_what_cannot_be_measured(options: RunOptions, workload: Workload) -> None:
    """Gates and checks on what this workload has nothing of would end the run undetermined, after all the load.

    Raises:
        UsageError: a gate on a slice that there is not, or a check for expected answers that no prompt has.
    """
    has_own_log = options.workload.trace_file is not None and workload.facts.kind == "representative"
    slices = set(workload.facts.slices)
    for gate in map(parse_gate, options.gates):
        if gate.slice is not None and gate.slice not in slices and not has_own_log:
            known = (
                f"it has {', '.join(sorted(slices))}"
                if slices
                else "it has none (--mix, or slice in --prompts, names some)"
            )
            raise UsageError(f"--gate {format_gate(gate)}: the workload has no slice {gate.slice!r}: {known}")
    if options.quality is not None and str(options.quality) == "expected":
        count = min(workload.facts.prompts or EXPECTED_SAMPLE, EXPECTED_SAMPLE)
        if all(workload.prompt(index).expected is None for index in range(count)):
            raise UsageError(
                'no prompt has an expected answer to check by: give --prompts FILE with "expected" in its lines, '
                "or another --quality"
            )


def _refuse_what_it_does_not_read(shape: StageShape, environment: Environment) -> None:
    """An option that says which stages there are, and that this shape does not read: the person means another shape."""
    if shape.takes is None or environment.parsed_options is None:
        return
    if ignored := [name for name in _unread(environment) if name not in standing()]:
        taken = ", ".join(flag_of(name) for name in sorted(shape.takes))
        raise UsageError(f"the shape {type(shape).__name__} does not read {_flags(ignored)}; it reads {taken}")


def _refuse_what_nobody_reads(environment: Environment) -> None:
    """An option of stages where no shape makes any: the person forgot the shape."""
    if ignored := [name for name in _unread(environment) if name not in standing()]:
        raise UsageError(
            f"{_flags(ignored)}: no shape reads {'it' if len(ignored) == 1 else 'them'}: add one, e.g. "
            f"-f {_with_a_shape(environment, ignored)}"
        )


def unread_warning(environment: Environment) -> list[str]:
    """Options of a config file or of variables, which other runs share, that mean nothing for this one."""
    ignored = [name for name in _unread(environment) if name in standing()]
    return [f"{_flags(ignored)}, from a config file or a variable: nothing reads it in this run"] if ignored else []


def _unread(environment: Environment) -> list[str]:
    """Options that were given another value than their default, and that this run's stages are not made of."""
    shape = environment.shape_class
    if environment.parsed_options is None:
        return []
    if shape is None:
        names = WITHOUT_A_SHAPE
    elif isinstance(shape, StageShape) and shape.takes is not None:
        names = SHAPE_OPTIONS - shape.takes
    else:
        return []
    given = given_options(environment.parsed_options)
    return sorted(name for name in names if given.get(name) not in (None, DEFAULTS[name]))


def _flags(names: Iterable[str]) -> str:
    return ", ".join(map(flag_of, names))


_SHAPE_OF = (
    ({"concurrency", "repeats"}, "concurrency_ladder.py"),
    ({"idle", "unload", "cold_share"}, "cold_start.py"),
    ({"resolution", "max_stages"}, "capacity_search.py"),
    ({"time_scale", "rate_scale", "trace_from", "trace_to", "trace_jitter"}, "trace_replay.py"),
    ({"burst"}, "burst.py"),
)
"""The shape that somebody who gives one of these means; else the rate ladder."""


def _with_a_shape(environment: Environment, names: Iterable[str]) -> str:
    """What to give for ``-f``: the locustfile as it was given, and a shape as it is found from here."""
    wanted = set(names)
    shape = bundled("shapes") / next((file for of, file in _SHAPE_OF if of & wanted), "rate_ladder.py")
    here = Path.cwd()
    shown = shape.relative_to(here) if shape.is_relative_to(here) else shape
    given = environment.parsed_locustfiles or ["locustfiles/chat.py"]
    files = [Path(file) for file in given]
    names_ = [str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files]
    return ",".join([*names_, str(shown)])


def _refuse_a_cap_below(concurrency: int | None, options: RunOptions) -> None:
    """A closed loop under a cap that is smaller would be another, smaller loop."""
    cap = options.max_in_flight
    if cap is not None and concurrency is not None and concurrency > cap:
        raise UsageError(
            f"--max-in-flight {cap} is less than the {concurrency} requests that a closed loop keeps in flight: "
            "leave the cap out, or lower the loop"
        )


def dry_run(environment: Environment, options: RunOptions, width: int) -> str:
    """What would be run, as text; nothing is sent."""
    from llm_locust.report.preview import preview_text  # scipy and tables: not for a process that makes load
    from llm_locust.sizing import preview

    given = environment.parsed_options
    assert given is not None
    workers = int(given.expect_workers) if isinstance(environment.runner, MasterRunner) else 1
    ahead = preview(
        stages_of(environment, options, given.num_users or 1),
        user_choices(environment),
        load_workload(options.workload),
        slo=options.slo,
        deadline_s=options.deadline_s,
        workers=workers,
        max_in_flight=options.max_in_flight,
        prices=options.prices,
        requirements=options.requirements,
        gates=[parse_gate(gate) for gate in options.gates],
        streaming=options.streaming,
    )
    return preview_text(ahead, width=width) + "".join(f"{line}\n" for line in _beside_the_preview(environment, options))


def _beside_the_preview(environment: Environment, options: RunOptions) -> list[str]:
    """What the preview's sums leave out."""
    found = []
    shape = environment.shape_class
    if isinstance(shape, StageShape) and shape.adaptive:
        found.append(
            f"The shape decides as it goes: this lists its stages as if each passed. It may run up to {options.most_stages} "
            "(--max-stages), and time, tokens and cost grow with them."
        )
    if load_workload(options.workload).converses:
        found.append(
            "Every arrival begins a conversation: rates and samples are of first turns, whose next ones come on top; tokens "
            "and cost count them all."
        )
    bounds = [
        f"{what} {value:,g}"
        for what, value in (
            ("--max-requests", options.bounds.max_requests),
            ("--max-output-tokens", options.bounds.max_output_tokens),
            ("--max-minutes", options.bounds.max_minutes),
        )
        if value is not None
    ]
    if bounds:
        found.append(f"Budgets end the run before that, whatever is planned: {', '.join(bounds)}.")
    found += leaving_warning(options)
    found += unread_warning(environment)
    return found


def leaving_warning(options: RunOptions) -> list[str]:
    """What a share of planned leavings does to gates that nobody chose."""
    if options.cancel is None or any(parse_gate(gate).name in ("error_rate", "attainment") for gate in options.gates):
        return []
    return [
        f"--cancel {options.cancel}: who leaves counts as failed, so the default gates (error rate <= 0.01, attainment >= "
        "0.95) will fail on it: choose gates that expect it, e.g. --gate 'error_rate<=0.15' 'http_503=0'."
    ]


def wait_for_server(host: str, headers: Mapping[str, str], options: RunOptions) -> TargetFacts:
    """Wait until the server is up, with a line of progress, at most ``--ready-timeout``.

    Raises:
        UsageError: it is not.
    """
    if options.insecure and host.startswith("https"):
        say(f"WARNING: --insecure: the certificate of {host} is not verified; keys and prompts may go to anybody")
    return await_ready(
        host,
        headers,
        timeout_s=options.ready_timeout_s,
        model=options.model,
        report=say,
        ca_file=options.ca_file,
        insecure=options.insecure,
        proxy=proxy_here(options.proxy),
    )


def prepare_server(spec: StageSpec, run: RunSpec, headers: Mapping[str, str]) -> None:
    """Bring the server into the state that a stage begins with.

    Raises:
        UsageError: the server cannot be brought into it.
    """
    if spec.unload_before:
        if run.model is None:
            raise UsageError("--unload: which model? The server lists none: name it with --model")
        say(f"asking the server to unload {run.model}")
        unload_model(
            run.host,
            run.model,
            headers,
            ca_file=run.ca_file,
            insecure=run.insecure,
            proxy=proxy_here(run.proxy),
        )
    if run.reset_prefix_cache:
        _empty_prefix_cache(run, headers)


def _empty_prefix_cache(run: RunSpec, headers: Mapping[str, str]) -> None:
    say("asking the server to empty its prefix cache")
    probe = Probe(run.host, headers, ca_file=run.ca_file, insecure=run.insecure, proxy=proxy_here(run.proxy))
    reset_prefix_cache(probe)


def connect(run: RunSpec, clock: Clock, *, keep_text: bool = False) -> StreamClient:
    """The stream client of a run, as a worker makes it and as the request before load is sent.

    Raises:
        UsageError: the base URL, the file of certificates or the proxy's credentials cannot be used.
    """
    return StreamClient(
        run.host,
        clock,
        connect_timeout_s=min(run.deadline_s, CONNECT_S),
        keep_text=keep_text,
        ca_file=run.ca_file,
        insecure=run.insecure,
        proxy=proxy_here(run.proxy),
    )


def check_one_of_each(
    run: RunSpec, builders: Iterable[RequestBuilder], facts: TargetFacts, clock: Clock, *, key_here: bool
) -> None:
    """One request of each user class, sent as the load will be: what cannot work is named before load.

    Args:
        run: the run to come.
        builders: one of each user class.
        facts: what the server said of itself.
        clock: this process's clock.
        key_here: whether this process has the key; a master need not.

    Raises:
        FirstRequestFailed: a request did not come out ok, and a key that only the workers have is not to blame.
    """
    spec = run.workload
    workload = load_workload(spec)
    prompt = workload.prompt(CHECK_INDEX)
    prompt = msgspec.structs.replace(
        prompt,
        max_tokens=min(prompt.max_tokens, CHECK_TOKENS),
        # More than the limit of this one request would be refused.
        extra={name: value for name, value in prompt.extra.items() if name != "min_tokens"},
    )
    client = connect(run, clock)
    try:
        for builder in builders:
            request = _made_by_a_person(builder, prompt, f"{run.run_id}.check")
            check_one_request(
                client, request, base_url=run.host, model=run.model, facts=facts, deadline_s=run.deadline_s
            )
    except FirstRequestFailed as error:
        if key_here or error.reply.status not in (401, 403):
            raise
        say(f"not checked before load: the master has no key ({error})")
    finally:
        client.close()


def _made_by_a_person(builder: RequestBuilder, prompt: Prompt, request_id: str) -> StreamRequest:
    """The request; a mistake in the user class is named where it stands, since that code is the person's own."""
    try:
        return builder.build_request(prompt, request_id)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{type(builder).__name__} cannot make a request: {_where(error)}") from error


def _listed_by_a_person(shape: StageShape, options: RunOptions) -> list[StageSpec]:
    try:
        shape.judge = None
        stages = list(islice(shape.stages(options), MOST_STAGES))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"the shape {type(shape).__name__} cannot list its stages: {_where(error)}") from error
    wrong = next((stage for stage in stages if not isinstance(stage, StageSpec)), None)
    if wrong is not None:
        raise UsageError(
            f"the shape {type(shape).__name__} yields {wrong!r}, which is no stage: yield options.open_stage(RATE)"
        )
    return list(map(as_workers_read_it, stages))


def _where(error: Exception) -> str:
    """``chat.py:12: NameError: name 'x' is not defined``: the innermost place outside this package."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).parents[1])
    place = next((f for f in reversed(frames) if not f.filename.startswith(package)), None)
    said = safe_line(f"{type(error).__name__}: {error}")
    return said if place is None else f"{Path(place.filename).name}:{place.lineno}: {said}"
