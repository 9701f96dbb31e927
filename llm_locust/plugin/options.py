"""The options of this project: a group of their own on Locust's command line, in its config file, and as variables.

Values stay text until :func:`read_options` turns them into numbers, all at once and before load: a config file, the
environment and the web UI's form all hand over text.
"""

from __future__ import annotations

import math
import re
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from locust.argument_parser import LocustArgumentParser

from llm_locust.arrivals import PROCESSES
from llm_locust.dispatch import Bounds
from llm_locust.records import Prices, Requirements, StageSpec, UsageError, parse_slo
from llm_locust.records.facts import NO_FACTS, Facts, read_facts
from llm_locust.records.gates import format_gate, parse_gates
from llm_locust.users.headers import parse_headers

GROUP = "LLM options"

MOST_ARRIVALS = 20_000_000
"""Of one stage: a plan is held in memory by every worker."""

STREAM_LIMITS = frozenset({"ttft", "tpot", "max_gap", "arrival_ttft"})
"""Limits that only a streamed reply can be held to."""


class Option(NamedTuple):
    """One option: a value, a bare flag (no metavar), or a value that may be repeated."""

    flag: str
    default: str | None
    metavar: str | None
    meaning: str
    repeated: bool = False
    several: bool = False
    """Repeated, and several values may follow one flag."""

    @property
    def name(self) -> str:
        """As an attribute of the parsed options."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "LOCUST_LLM_" + self.name.upper()


OPTIONS: tuple[Option, ...] = (
    Option("--rates", None, "R1,R2,...", "Arrival rates of the ladder in requests per second, e.g. 0.5,1,2"),
    Option("--stage-time", "60", "SECONDS", "Measurement window of a stage (90, 90s, 5m)"),
    Option(
        "--warmup-time",
        None,
        "SECONDS",
        "Load before the window, not measured. Default: twice the e2e limit, at least 10 s",
    ),
    Option(
        "--cooldown",
        None,
        "SECONDS",
        "Load goes on after the window until its requests have ended, at most this long. "
        "Default: the e2e limit, else 30 s",
    ),
    Option("--arrivals", "poisson", "PROCESS", f"Arrival process: {', '.join(PROCESSES)}"),
    Option("--seed", "1", "N", "Seed of arrivals and synthetic prompts"),
    Option(
        "--max-in-flight",
        None,
        "N",
        "Hold requests back beyond N in flight, over all workers; the wait is reported as cap wait. Default: no cap",
    ),
    Option(
        "--deadline", "120", "SECONDS", "Wall-clock limit of a whole request, stream included; then it is a timeout"
    ),
    Option(
        "--slo",
        None,
        "LIMITS",
        "Latency limits per request in milliseconds, judged jointly, e.g. ttft=500,tpot=100,e2e=3000",
    ),
    Option(
        "--gate",
        None,
        "GATE ...",
        "What a stage must hold to pass, instead of the defaults: 'ttft_p95<=1000' 'attainment>=0.99' 'http_503=0' "
        "'faq:ttft_p95<=800', or a TOML file of them; fixed before load",
        True,
        True,
    ),
    Option("--model", None, "NAME", "Model to ask for. Default: the first that the server lists"),
    Option("--max-tokens", "128", "N", "Output limit of requests whose prompt names none"),
    Option(
        "--prompts", None, "FILE", "Prompts as JSONL: prompt or messages, and max_tokens. Default: synthetic prompts"
    ),
    Option("--no-stream", None, None, "Ask for whole replies: no TTFT or TPOT then, and no limits on them"),
    Option(
        "--api-key-env",
        None,
        "NAME",
        "Environment variable that holds the API key on each worker. Default: LLM_LOCUST_API_KEY, then OPENAI_API_KEY",
    ),
    Option("--header", None, "'NAME: VALUE'", "A further request header; a secret as 'NAME: @env:VARIABLE'", True),
    Option("--extra-body", None, "JSON", 'Fields for every request\'s body, e.g. \'{"temperature": 0, "seed": 1}\''),
    Option("--ca-file", None, "FILE", "PEM certificates to trust instead of the system's"),
    Option("--insecure", None, None, "Do not verify the server's certificate; said loudly, and recorded"),
    Option("--ready-timeout", "60", "SECONDS", "How long to wait for the server to be up before the first stage"),
    Option("--max-requests", None, "N", "Budget: send at most N requests in the whole run"),
    Option("--max-output-tokens", None, "N", "Budget: let at most N tokens be generated in the whole run"),
    Option("--max-minutes", None, "MINUTES", "Budget: stop sending after so many minutes"),
    Option("--max-failures", "20", "N", "End a stage when N requests in a row have failed; 0: never"),
    Option("--stop-on-fail", None, None, "End the ladder after its first failing stage"),
    Option("--require-rate", None, "R", "Exit with 3 unless a rate of at least R per second was sustained"),
    Option("--require-pass", None, None, "Exit with 3 unless every stage passed"),
    Option(
        "--facts", None, "FILE", "TOML of what a client cannot see (llm-locust facts --template); goes into the records"
    ),
    Option("--dry-run", None, None, "Print stages, time, samples and cost, and send nothing"),
    Option("--price-per-hour", None, "PRICE", "For the dry run: what the machine costs per hour"),
    Option("--price-input", None, "PRICE", "For the dry run: what a million input tokens cost"),
    Option("--price-output", None, "PRICE", "For the dry run: what a million output tokens cost"),
    Option("--run-dir", "runs", "DIR", "Where run folders are made"),
)

OPTION_NAMES: tuple[str, ...] = tuple(option.name for option in OPTIONS)
_DEFAULTS = {option.name: option.default for option in OPTIONS}


def add_options(parser: LocustArgumentParser) -> None:
    """Add the option group to Locust's parser."""
    group = parser.add_argument_group(GROUP)
    for option in OPTIONS:
        common = {"env_var": option.variable, "help": option.meaning + _default_note(option)}
        if option.metavar is None:
            action = group.add_argument(option.flag, action="store_true", default=False, **common)
        elif option.several:
            action = group.add_argument(option.flag, metavar="GATE", action="extend", nargs="+", **common)
        elif option.repeated:
            action = group.add_argument(option.flag, metavar=option.metavar, action="append", **common)
        else:
            action = group.add_argument(option.flag, metavar=option.metavar, default=option.default, **common)
        # Locust's own add_argument would set these; an argument group's does not, and the web UI's form asks for them.
        vars(action).update(include_in_web_ui=True, is_secret=False, is_required=False, is_multiple=False)


def _default_note(option: Option) -> str:
    return "" if option.default is None else f" (default: {option.default})"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as numbers, with every default worked out."""

    rates_rps: list[float]
    stage_time_s: float
    warmup_s: float
    warmup_given: bool
    cooldown_s: float
    arrivals: str
    seed: int
    max_in_flight: int | None
    deadline_s: float
    slo: dict[str, float]
    gates: list[str]
    model: str | None
    max_tokens: int
    prompts: str | None
    streaming: bool
    api_key_env: str | None
    headers: list[tuple[str, str]]
    extra_body: dict[str, Any]
    ca_file: str | None
    insecure: bool
    ready_timeout_s: float
    bounds: Bounds
    stop_on_fail: bool
    facts: Facts
    requirements: Requirements
    dry_run: bool
    prices: Prices
    run_dir: str

    def open_stage(self, rate_rps: float) -> StageSpec:
        """A stage of open arrivals at this rate; its place in the run is set when it is run.

        Raises:
            UsageError: the rate is none, or would plan more arrivals than a machine can hold.
        """
        if not (math.isfinite(rate_rps) and rate_rps > 0):
            raise UsageError(f"a rate must be greater than 0, not {rate_rps:g}")
        arrivals = rate_rps * (self.warmup_s + self.stage_time_s + self.cooldown_s)
        if arrivals > MOST_ARRIVALS:
            raise UsageError(
                f"{rate_rps:g} req/s plans {arrivals:,.0f} arrivals in one stage, more than {MOST_ARRIVALS:,}: "
                "shorten the stage, or lower the rate"
            )
        return StageSpec(
            stage=0,
            rate_rps=rate_rps,
            arrivals=self.arrivals,
            warmup_s=self.warmup_s,
            window_s=self.stage_time_s,
            cooldown_s=self.cooldown_s,
            seed=self.seed,
            first_index=0,
        )


def read_options(namespace: Namespace) -> RunOptions:
    """The options of this project, checked.

    Raises:
        UsageError: a value that cannot be used; what is allowed is said.
    """
    slo = parse_slo(_given(namespace, "slo"))
    e2e_s = slo["e2e"] / 1000 if "e2e" in slo else None
    warmup = _seconds(namespace, "warmup_time", allow_zero=True)
    cooldown = _seconds(namespace, "cooldown", allow_zero=True)
    stage_time = _required(_seconds(namespace, "stage_time"))
    if warmup is not None and warmup > stage_time:
        raise UsageError(
            f"--warmup-time {warmup:g} s is longer than the measured window, --stage-time {stage_time:g} s: "
            "measure longer, or warm up less"
        )
    streaming = not _flag_set(namespace, "no_stream")
    if not streaming and (limited := [name for name in slo if name in STREAM_LIMITS]):
        raise UsageError(
            f"--no-stream cannot be judged by {', '.join(limited)}: a whole reply has no first token. "
            "Limits that hold for it are e2e and arrival_e2e"
        )
    max_failures = _required(_whole(namespace, "max_failures", at_least=0))
    arrivals = _given(namespace, "arrivals") or "poisson"
    if arrivals not in PROCESSES:
        raise UsageError(f"--arrivals {arrivals!r}: one of {', '.join(PROCESSES)}")
    return RunOptions(
        rates_rps=_rates(_given(namespace, "rates")),
        stage_time_s=stage_time,
        warmup_s=warmup if warmup is not None else max(2 * (e2e_s or 0), 10.0),
        warmup_given=warmup is not None,
        cooldown_s=cooldown if cooldown is not None else (e2e_s or 30.0),
        arrivals=arrivals,
        seed=_required(_whole(namespace, "seed", at_least=0)),
        max_in_flight=_whole(namespace, "max_in_flight", at_least=1),
        deadline_s=_required(_seconds(namespace, "deadline")),
        slo=slo,
        gates=[format_gate(gate) for gate in parse_gates(_list(namespace, "gate"))],
        model=_given(namespace, "model"),
        max_tokens=_required(_whole(namespace, "max_tokens", at_least=1)),
        prompts=_given(namespace, "prompts"),
        streaming=streaming,
        api_key_env=_given(namespace, "api_key_env"),
        headers=parse_headers(_list(namespace, "header")),
        extra_body=_json_object(namespace, "extra_body"),
        ca_file=_given(namespace, "ca_file"),
        insecure=_flag_set(namespace, "insecure"),
        ready_timeout_s=_required(_seconds(namespace, "ready_timeout", allow_zero=True)),
        bounds=Bounds(
            max_requests=_whole(namespace, "max_requests", at_least=1),
            max_output_tokens=_whole(namespace, "max_output_tokens", at_least=1),
            max_minutes=_number(namespace, "max_minutes", "minutes"),
            failures_in_a_row=max_failures or None,
        ),
        facts=read_facts(Path(facts_file)) if (facts_file := _given(namespace, "facts")) else NO_FACTS,
        stop_on_fail=_flag_set(namespace, "stop_on_fail"),
        requirements=Requirements(
            rate_rps=_number(namespace, "require_rate", "requests per second"),
            every_stage=_flag_set(namespace, "require_pass"),
        ),
        dry_run=_flag_set(namespace, "dry_run"),
        prices=Prices(
            per_hour=_number(namespace, "price_per_hour", "a price"),
            input_per_million=_number(namespace, "price_input", "a price"),
            output_per_million=_number(namespace, "price_output", "a price"),
        ),
        run_dir=_given(namespace, "run_dir") or "runs",
    )


def given_options(namespace: Namespace) -> dict[str, Any]:
    """The options of this project as the person gave them, for the manifest."""
    given: dict[str, Any] = {}
    for option in OPTIONS:
        if option.repeated:
            value: Any = _list(namespace, option.name) or None
        elif option.metavar is None:
            value = _flag_set(namespace, option.name) or None
        else:
            value = _given(namespace, option.name)
        if value is not None:
            given[option.name] = value
    return given


def _given(namespace: Namespace, name: str) -> str | None:
    value = getattr(namespace, name, None)
    return None if value is None or str(value).strip() == "" else str(value).strip()


def _flag_set(namespace: Namespace, name: str) -> bool:
    return getattr(namespace, name, False) is True


def _list(namespace: Namespace, name: str) -> list[str]:
    value = getattr(namespace, name, None) or []
    return value.splitlines() if isinstance(value, str) else [str(item) for item in value if str(item).strip()]


def _number(namespace: Namespace, name: str, what: str) -> float | None:
    text = _given(namespace, name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{_flag(name)} {text!r}: must be {what}, a number greater than 0")
    return value


def _json_object(namespace: Namespace, name: str) -> dict[str, Any]:
    text = _given(namespace, name)
    if text is None:
        return {}
    try:
        found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{_flag(name)}: not a JSON object ({error}); write for example '{{\"temperature\": 0}}'"
        ) from None
    return found


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _required(value: Any) -> Any:
    assert value is not None  # these options have defaults; an emptied form field is reported by the readers below
    return value


def _rates(text: str | None) -> list[float]:
    rates: list[float] = []
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        try:
            rate = float(item)
        except ValueError:
            raise UsageError(f"--rates {item!r}: write requests per second, comma-separated, e.g. 0.5,1,2") from None
        if math.isinf(rate):
            raise UsageError(
                "--rates inf: an unlimited rate is no arrival process. For as much as the server takes with N requests "
                "in flight, run without a shape: locust -f locustfiles/chat.py -u N -r N"
            )
        if not rate > 0:
            raise UsageError(f"--rates {item}: a rate must be greater than 0")
        rates.append(rate)
    return rates


_SECONDS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|h)?")
_UNIT_S = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(namespace: Namespace, name: str, *, allow_zero: bool = False) -> float | None:
    text = _given(namespace, name) or _DEFAULTS[name]
    if text is None:
        return None
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise UsageError(f"{_flag(name)} {text!r}: write seconds, or a number with s, m or h (90, 90s, 5m)")
    value = float(match[1]) * _UNIT_S[match[2]]
    if value == 0 and not allow_zero:
        raise UsageError(f"{_flag(name)} {text}: must be greater than 0")
    return value


def _whole(namespace: Namespace, name: str, *, at_least: int) -> int | None:
    text = _given(namespace, name) or _DEFAULTS[name]
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{_flag(name)} {text!r}: must be a whole number") from None
    if value < at_least:
        raise UsageError(f"{_flag(name)} {value}: must be at least {at_least}")
    return value
