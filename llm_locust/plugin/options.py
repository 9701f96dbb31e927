"""The options of this project: a group of their own on Locust's command line, in its config file, and as variables.

Values stay text until :func:`read_options` turns them into numbers, all at once and before load: a config file, the
environment and the web UI's form all hand over text.
"""

from __future__ import annotations

import math
import re
from argparse import Namespace
from typing import Any

import msgspec
from locust.argument_parser import LocustArgumentParser

from llm_locust.arrivals import PROCESSES
from llm_locust.records import StageSpec, UsageError, parse_slo

GROUP = "LLM options"

_OPTIONS: tuple[tuple[str, str | None, str, str], ...] = (
    ("--rates", None, "R1,R2,...", "Arrival rates of the ladder in requests per second, e.g. 0.5,1,2"),
    ("--stage-time", "60", "SECONDS", "Measurement window of a stage (90, 90s, 5m)"),
    (
        "--warmup-time",
        None,
        "SECONDS",
        "Load before the window, not measured. Default: twice the e2e limit, at least 10 s",
    ),
    (
        "--cooldown",
        None,
        "SECONDS",
        "Load goes on after the window until its requests have ended, at most this long. "
        "Default: the e2e limit, else 30 s",
    ),
    ("--arrivals", "poisson", "PROCESS", f"Arrival process: {', '.join(PROCESSES)}"),
    ("--seed", "1", "N", "Seed of arrivals and synthetic prompts"),
    (
        "--max-in-flight",
        None,
        "N",
        "Hold requests back beyond N in flight, over all workers; the wait is reported as cap wait. Default: no cap",
    ),
    ("--deadline", "120", "SECONDS", "Wall-clock limit of a whole request, streaming included; then it is a timeout"),
    (
        "--slo",
        None,
        "LIMITS",
        "Latency limits per request in milliseconds, judged jointly, e.g. ttft=500,tpot=100,e2e=3000",
    ),
    ("--model", None, "NAME", "Model to ask for. Default: the first that the server lists"),
    ("--max-tokens", "128", "N", "Output limit of requests whose prompt names none"),
    ("--prompts", None, "FILE", "Prompts as JSONL: prompt or messages, and max_tokens. Default: synthetic prompts"),
    ("--run-dir", "runs", "DIR", "Where run folders are made"),
)

def option_table() -> list[tuple[str, str, str, str]]:
    """(flag, environment variable, default, meaning) of every option, for help and reference."""
    return [(f"{flag} {metavar}", _variable(flag), default or "", text) for flag, default, metavar, text in _OPTIONS]


def _variable(flag: str) -> str:
    return "LOCUST_LLM_" + flag.removeprefix("--").replace("-", "_").upper()


OPTION_NAMES: tuple[str, ...] = tuple(flag.removeprefix("--").replace("-", "_") for flag, *_ in _OPTIONS)


def add_options(parser: LocustArgumentParser) -> None:
    """Add the option group to Locust's parser."""
    group = parser.add_argument_group(GROUP)
    for flag, default, metavar, text in _OPTIONS:
        suffix = "" if default is None else f" (default: {default})"
        action = group.add_argument(
            flag,
            metavar=metavar,
            default=default,
            env_var=_variable(flag),
            help=text + suffix,
        )
        # Locust's own add_argument would set these; an argument group's does not, and the web UI's form asks for them.
        vars(action).update(include_in_web_ui=True, is_secret=False, is_required=False, is_multiple=False)


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
    model: str | None
    max_tokens: int
    prompts: str | None
    run_dir: str

    def open_stage(self, rate_rps: float) -> StageSpec:
        """A stage of open arrivals at this rate; its place in the run is set when it is run."""
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
    arrivals = _given(namespace, "arrivals") or "poisson"
    if arrivals not in PROCESSES:
        raise UsageError(f"--arrivals {arrivals!r}: one of {', '.join(PROCESSES)}")
    return RunOptions(
        rates_rps=_rates(_given(namespace, "rates")),
        stage_time_s=_required(_seconds(namespace, "stage_time")),
        warmup_s=warmup if warmup is not None else max(2 * (e2e_s or 0), 10.0),
        warmup_given=warmup is not None,
        cooldown_s=cooldown if cooldown is not None else (e2e_s or 30.0),
        arrivals=arrivals,
        seed=_required(_whole(namespace, "seed", at_least=0)),
        max_in_flight=_whole(namespace, "max_in_flight", at_least=1),
        deadline_s=_required(_seconds(namespace, "deadline")),
        slo=slo,
        model=_given(namespace, "model"),
        max_tokens=_required(_whole(namespace, "max_tokens", at_least=1)),
        prompts=_given(namespace, "prompts"),
        run_dir=_given(namespace, "run_dir") or "runs",
    )


def given_options(namespace: Namespace) -> dict[str, Any]:
    """The options of this project as the person gave them, for the manifest."""
    return {name: value for name in OPTION_NAMES if (value := _given(namespace, name)) is not None}


def _given(namespace: Namespace, name: str) -> str | None:
    value = getattr(namespace, name, None)
    return None if value is None or str(value).strip() == "" else str(value).strip()


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _required(value: Any) -> Any:
    assert value is not None  # these options have defaults; an emptied form field is reported by the readers below
    return value


_DEFAULTS = {flag.removeprefix("--").replace("-", "_"): default for flag, default, *_ in _OPTIONS}


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
