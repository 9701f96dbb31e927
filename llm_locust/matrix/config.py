"""The file of a matrix: TOML to typed values, with every mistake named by its key.

``[engine]`` says how one engine is started, each ``[[axis]]`` a list of settings that change it, each ``[[prompts]]`` what
is sent, ``[load]`` how. The matrix is every combination. ``{name}`` in a command is filled in from ``[values]``.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from llm_locust.records import UsageError, parse_slo
from llm_locust.records.facts import FACT_NAMES, FactValue
from llm_locust.streaming import names_a_secret
from llm_locust.workload.lengths import parse_lengths
from llm_locust.workload.shared_prefix import parse_shared_prefix

SMOKE, RUN = "protocol-smoke", "run"
CONFIGS = Path(__file__).parent / "configs"
OF_THE_ENGINE = frozenset({"host", "port"})
"""Places in a command that the matrix fills in itself."""

_PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_PLACEHOLDER = re.compile(
    r"<[^<>]+>|\b(?:replace|change|fill)[ _-]?(?:me|this|in)\b|\b(?:todo|fixme|tbd)\b|\byour[ _-]\w|^\.\.\.$|^x{3,}$",
    re.IGNORECASE,
)
_MOST_SCENARIOS = 1000

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=40)]
"""Part of the names of files."""
Words = Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an engine is started, seen to be up, asked what it is, and ended."""

    name: Annotated[str, Meta(min_length=1)]
    """As it calls itself: ``vLLM``, ``llama.cpp``."""
    version: Annotated[str, Meta(min_length=1)]
    """The version it must say it has, letter by letter, for the grade ``performance``."""
    command: Words
    """Its words; the flags of a setting are put after them."""
    version_command: list[str] = []
    """What prints its version; kept."""
    help_command: list[str] = []
    """What prints all its flags; kept, and held against the flags that are used."""
    environment: dict[str, str] = {}
    """Variables for it, beside those that are there. No secrets: it has those of whoever starts the matrix."""
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """0 takes a free one."""
    health: Annotated[str, Meta(pattern="^/")] = "/health"
    start_seconds: Seconds = 900.0
    """How long it may take until ``health`` answers 200."""
    stop_seconds: Seconds = 60.0
    """How long it may take to end before it is killed."""
    telemetry: bool = True
    """Sample the memory of its processes, and the GPUs, while it runs."""
    urls: dict[str, str] = {}
    """Engines that run already, by the name of their settings: nothing is started for those."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of an axis."""

    name: Name
    flags: list[str] = []
    """Put after the engine's command."""
    simulator: list[str] = []
    """What stands for them when the simulator takes the engine's place (``llm-locust simulate --help``)."""
    facts: dict[str, FactValue] = {}
    """Facts of the evidence record that follow from it."""


class Axis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing about the engine that is changed."""

    name: Name
    settings: Annotated[list[Setting], Meta(min_length=1)]


class Prompts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of prompts: of a length, or a mix of other kinds by weight."""

    name: Name
    input_tokens: str | int | None = None
    mix: dict[str, Annotated[float, Meta(gt=0)]] = {}
    shared_prefix: str | None = None
    """Overrides the one of the load."""


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is the same in every scenario."""

    concurrency: Annotated[list[Annotated[int, Meta(ge=1, le=100_000)]], Meta(min_length=1)]
    rounds: Annotated[int, Meta(ge=1, le=1000)] = 3
    warmup_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    """Load before every measured window."""
    requests_per_slot: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Measured requests of a round for each one in flight; or else"""
    stage_seconds: Seconds | None = None
    output_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 128
    """Of every reply: the end token is ignored, so that replies are as long everywhere."""
    shared_prefix: str | None = None
    slo: str = ""
    deadline_seconds: Seconds = 300.0
    seed: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 1
    processes: Annotated[int, Meta(ge=0, le=256)] = 0
    """Worker processes of locust; 0: one process does it all."""
    locustfile: Literal["chat.py", "completions.py"] = "chat.py"
    options: list[str] = []
    """Further options of locust."""


class Bench(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands of ``vllm bench serve`` that send the same."""

    command: Words
    checked_against: str
    """The version in whose source the flags were looked up."""


class MatrixConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A matrix."""

    name: Name
    engine: Engine
    values: dict[str, str | int | float] = {}
    axis: Annotated[list[Axis], Meta(min_length=1)]
    prompts: Annotated[list[Prompts], Meta(min_length=1)]
    load: Load
    facts: str | None = None
    """A facts file (``llm-locust facts --template``), beside the matrix's."""
    bench: Bench | None = None
    notes: list[str] = []
    """What the plan says beside its own notes."""

    def fill(self, text: str, **more: str | int) -> str:
        """The text with every ``{name}`` filled in."""
        known = {**self.values, **more}
        return _PLACE.sub(lambda place: str(known[place[1]]), text)


def shipped_configs() -> dict[str, Path]:
    """The files that came along, by the name that ``--config`` takes."""
    return {path.stem: path for path in sorted(CONFIGS.glob("*.toml"))}


def read_config(name: str | Path) -> MatrixConfig:
    """The matrix of a file, or of a shipped one by its name.

    Raises:
        UsageError: there is no such file, or something in it cannot be used; the key is named.
    """
    shipped = shipped_configs()
    path = shipped.get(str(name), Path(name))
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"--config {name}: {error.strerror}: give a file, or a shipped one: {', '.join(shipped)}"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--config {path}: not UTF-8 text (byte {error.start})") from None
    return parse_config(text, str(path), path.resolve().parent)


def parse_config(text: str, source: str, folder: Path) -> MatrixConfig:
    """The matrix in a TOML text; see :func:`read_config`. Paths in it are looked for from ``folder``."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not TOML: {error}") from None
    try:
        config = msgspec.convert(found, MatrixConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {_in_words(str(error), found)}") from None
    if config.facts is not None:
        config = msgspec.structs.replace(config, facts=str((folder / config.facts).resolve()))
    for key, problem in _problems(config):
        raise UsageError(f"{source}: {key}: {problem}")
    return config


def placeholders(config: MatrixConfig) -> list[tuple[str, str]]:
    """Values that nobody has filled in yet (``<MODEL>``, ``REPLACE_ME``), with their keys."""
    return [(key, text) for key, text in strings(msgspec.to_builtins(config)) if _PLACEHOLDER.search(text)]


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text in nested tables and lists, with its key: ``axis[0].settings[1].name``."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from strings(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from strings(inner, f"{key}[{place}]")


def _in_words(message: str, found: Mapping[str, Any]) -> str:
    """msgspec's sentence with the key in front: ``load.rounds: Expected `int`, got `str```."""
    said, _, path = message.partition(" - at `$")
    key = path.rstrip("`").lstrip(".").replace("[...]", ".*")
    if unknown := re.search(r"unknown field `(.*)`", said):
        whole = f"{key}.{unknown[1]}" if key else unknown[1]
        near = difflib.get_close_matches(unknown[1], _KEYS, n=1)
        return f"{whole}: no such key" + (f"; did you mean {near[0]}?" if near else "")
    if missing := re.search(r"missing required field `(.*)`", said):
        return f"{key}.{missing[1]}: is missing" if key else f"{missing[1]}: is missing"
    return f"{key}: {said}" if key else said


_KEYS = sorted(
    {
        field
        for table in (MatrixConfig, Engine, Setting, Axis, Prompts, Load, Bench)
        for field in table.__struct_fields__
    }
)


def _problems(config: MatrixConfig) -> Iterator[tuple[str, str]]:
    """What the types do not say; key and problem."""
    load = config.load
    if (load.requests_per_slot is None) == (load.stage_seconds is None):
        yield "load", "give either requests_per_slot or stage_seconds: how long a round measures"
    yield from _twice("load.concurrency", load.concurrency)
    yield from _twice("axis", [axis.name for axis in config.axis])
    yield from _twice("prompts", [prompts.name for prompts in config.prompts])
    for axis in config.axis:
        yield from _twice(f"axis {axis.name}", [setting.name for setting in axis.settings])
        for setting in axis.settings:
            for name in setting.facts:
                if name not in FACT_NAMES:
                    yield (
                        f"axis {axis.name}, {setting.name}: facts.{name}",
                        "no such fact (llm-locust facts --template)",
                    )
    yield from _unusable("load.slo", parse_slo, load.slo)
    yield from _unusable("load.shared_prefix", parse_shared_prefix, load.shared_prefix)
    for prompts in config.prompts:
        yield from _prompt_problems(prompts, config)
    yield from _command_problems(config)
    size = len(config.prompts) * len(load.concurrency)
    for axis in config.axis:
        size *= len(axis.settings)
    if size > _MOST_SCENARIOS:
        yield "axis", f"{size:,} scenarios, more than {_MOST_SCENARIOS:,}: fewer settings, prompts or concurrencies"


def _prompt_problems(prompts: Prompts, config: MatrixConfig) -> Iterator[tuple[str, str]]:
    key = f"prompts {prompts.name}"
    if (prompts.input_tokens is None) == (not prompts.mix):
        yield key, "give either input_tokens, or a mix of other prompts"
    if prompts.input_tokens is not None:
        yield from _unusable(f"{key}: input_tokens", lambda text: parse_lengths(text, "lengths"), prompts.input_tokens)
    yield from _unusable(f"{key}: shared_prefix", parse_shared_prefix, prompts.shared_prefix)
    plain = {other.name for other in config.prompts if other.input_tokens is not None}
    for name in prompts.mix:
        if name not in plain:
            yield f"{key}: mix.{name}", f"no prompts of that name with input_tokens: {', '.join(sorted(plain))}"


def _command_problems(config: MatrixConfig) -> Iterator[tuple[str, str]]:
    engine = config.engine
    commands = {
        "engine.command": engine.command,
        "engine.version_command": engine.version_command,
        "engine.help_command": engine.help_command,
        "bench.command": config.bench.command if config.bench else [],
        "load.options": config.load.options,
        **{f"axis {axis.name}, {s.name}: flags": s.flags for axis in config.axis for s in axis.settings},
    }
    known = config.values.keys() | OF_THE_ENGINE
    for name in config.values:
        if name in OF_THE_ENGINE:
            yield f"values.{name}", f"is given as engine.{name}"
    for key, words in commands.items():
        for word in words:
            for place in _PLACE.findall(word):
                if place not in known:
                    yield key, f"{{{place}}} is filled in from nowhere: values has {', '.join(sorted(config.values))}"
            if re.match(r"--?api[-_]key\b(?!-env)", word):
                yield key, "a key in a command ends up in files: put it into an environment variable instead"
    for name in engine.environment:
        if names_a_secret(name):
            yield f"engine.environment.{name}", "leave secrets out: the engine has the environment of the matrix"
    for name, url in engine.urls.items():
        if not re.match(r"https?://[^@\s]+$", url):
            yield f"engine.urls.{name}", f"{url!r} is no base URL such as http://127.0.0.1:8000"


def _twice(key: str, names: list[Any]) -> Iterator[tuple[str, str]]:
    for name in names:
        if names.count(name) > 1:
            yield key, f"{name} is there twice"


def _unusable(key: str, parse: Any, text: str | int | None) -> Iterator[tuple[str, str]]:
    if text is None:
        return
    try:
        parse(str(text))
    except UsageError as error:
        yield key, str(error)
