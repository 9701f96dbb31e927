"""What a dry run writes: the plan for people and machines, and three scripts of commands. A run writes them too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from llm_locust.matrix.commands import (
    Files,
    bench_commands,
    export_command,
    locust_command,
    mix_text,
    prefix_of,
    requests_of,
    server_command,
    shell,
    simulator_command,
    without_bench_name,
)
from llm_locust.matrix.config import SMOKE, MatrixConfig, placeholders
from llm_locust.matrix.scenarios import Unit, Variant, scenarios, units, variants
from llm_locust.records import UsageError
from llm_locust.records.facts import FactValue, read_facts
from llm_locust.records.whole_file import write_whole
from llm_locust.report.inert import escape
from llm_locust.report.markdown_pieces import bullets, table

PLAN_JSON, PLAN_MD = "plan.json", "plan.md"
SERVERS_SH, LOCUST_SH, BENCH_SH = "servers.sh", "locust.sh", "vllm_bench.sh"
UNKNOWN_PORT = 8000
"""What commands show where a free port will be taken."""

WHY_SHARED = (
    "Prompts share prefixes in every setting, the baseline too: a prefix cache is measured by what it saves on the very "
    "same requests, so they must have something to save. Without a cache shared text is prefilled like any other, so the "
    "baseline and the settings that do not cache lose nothing by it."
)
WHY_SEEDS = (
    "Every kind of prompts has a seed of its own: with one for all, short prompts would begin as long ones do and leave "
    "their beginning in the cache. The seed is the same in every setting, and so is the digest of what is sent: results "
    "say where it is not."
)
WHY_FRESH = (
    "Rounds have fresh prompts: what comes again is at most the shared beginning. The engine's cache is as the warm-up "
    "before each window left it, not empty; nothing is reset between rounds."
)


def write_plan(config: MatrixConfig, mode: str, folder: Path) -> list[Path]:
    """Write the plan and its scripts into the folder; returns their paths.

    Raises:
        UsageError: the facts file cannot be read.
    """
    files = Files(folder.resolve())
    inputs = _inputs(config, files)  # what is wrong with the facts is said before anything is touched
    smoke = mode == SMOKE
    port = config.engine.port or UNKNOWN_PORT
    texts = {
        PLAN_JSON: "",  # made last: it names the others
        PLAN_MD: _markdown(config, mode),
        SERVERS_SH: _script(_servers(config, port, smoke=smoke)),
        LOCUST_SH: _script(_loads(config, files, port)),
        BENCH_SH: _script(_benches(config, files, port)),
    }
    if config.bench is None or requests_of(config.load, 1) is None:
        del texts[BENCH_SH]
    written = {**inputs, **{files.folder / name: text for name, text in texts.items()}}
    _clear(files.folder, keep=set(written))
    listing = sorted(str(path.relative_to(files.folder)) for path in written)
    plan = {**_plan(config, mode, files, port), "files": listing}
    written[files.folder / PLAN_JSON] = msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() + "\n"
    for path, text in written.items():
        write_text(path, text)
    return [folder / name for name in texts]


def plan_summary(config: MatrixConfig) -> list[str]:
    """How much the plan is, and what is still to be filled in, a line each."""
    load, all_ = config.load, scenarios(config)
    runs, starts = len(units(config)), [one for one in variants(config) if one.name not in config.engine.urls]
    counts = [requests_of(load, scenario.concurrency) for scenario in all_]
    windows = len(all_) * load.rounds
    requests = sum(count for count in counts if count is not None) * load.rounds
    measured = f"{requests:,} measured requests" if requests else f"{windows} windows of {load.stage_seconds:g} s"
    return [
        f"{len(all_)} scenarios in {runs} locust runs, {len(starts)} starts of {config.engine.name}, {load.rounds} rounds: "
        f"{measured}, and {windows} warm-ups of {load.warmup_seconds:g} s",
        *(f"still to be filled in: {key} = {text!r}" for key, text in placeholders(config)),
    ]


def _clear(folder: Path, keep: set[Path]) -> None:
    """Remove what an earlier plan wrote into the folder and this one does not, and nothing else.

    Raises:
        UsageError: what stands there as a plan is none of this version's.
    """
    try:
        earlier = msgspec.json.decode((folder / PLAN_JSON).read_bytes(), type=_Earlier)
    except FileNotFoundError:
        return
    except msgspec.MsgspecError:
        raise UsageError(
            f"--output-dir {folder}: {PLAN_JSON} there is no plan of this version: give another folder"
        ) from None
    old = [(folder / name).resolve() for name in earlier.files]
    for path in old:
        if path.is_relative_to(folder) and path not in keep:
            path.unlink(missing_ok=True)
    for parent in {path.parent for path in old} - {folder}:
        if parent.is_relative_to(folder) and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


class _Earlier(msgspec.Struct):
    files: list[str]


def _inputs(config: MatrixConfig, files: Files) -> dict[Path, str]:
    """The files that our commands read, as texts: mixes, and facts about each variant.

    Raises:
        UsageError: the facts file cannot be read.
    """
    found = {files.mix(prompts): mix_text(config, prompts) for prompts in config.prompts if prompts.mix}
    for variant in variants(config):
        if facts := facts_of(config, variant):
            lines = [f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in facts.items()]
            found[files.facts(variant)] = "".join(lines)
    return found


def facts_of(config: MatrixConfig, variant: Variant) -> dict[str, FactValue]:
    """What is known about a variant: by the facts file, and by its settings where the file leaves a blank.

    Raises:
        UsageError: the facts file cannot be read, or contradicts a setting.
    """
    if config.facts is None:
        return variant.facts
    facts = read_facts(Path(config.facts))
    for name, value in variant.facts.items():
        if name in facts.values and facts.values[name] != value:
            raise UsageError(
                f"{facts.where(name)}: {name} is {facts.values[name]!r}, but {value!r} with the settings {variant.name}: "
                "leave it blank, the matrix fills it in"
            )
    return {**facts.values, **variant.facts}


def url_of(config: MatrixConfig, variant: Variant, port: int) -> str:
    """Where the engine of a variant is."""
    return config.engine.urls.get(variant.name, f"http://{config.engine.host}:{port}")


def write_text(path: Path, text: str) -> None:
    """Write whole, into a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def _facts_path(config: MatrixConfig, variant: Variant, files: Files) -> Path | None:
    return files.facts(variant) if facts_of(config, variant) else None


def _locust(config: MatrixConfig, unit: Unit, files: Files, port: int) -> list[str]:
    url = url_of(config, unit.variant, port)
    return locust_command(config, unit, url=url, files=files, facts=_facts_path(config, unit.variant, files))


def _plan(config: MatrixConfig, mode: str, files: Files, port: int) -> dict[str, Any]:
    smoke = mode == SMOKE
    return {
        "mode": mode,
        "config": msgspec.to_builtins(config),
        "notes": _notes(config),
        "engines": [
            {
                "variant": variant.name,
                "url": url_of(config, variant, port),
                "command": None
                if variant.name in config.engine.urls and not smoke
                else (simulator_command if smoke else server_command)(config, variant, port),
                "facts": facts_of(config, variant),
            }
            for variant in variants(config)
        ],
        "runs": [
            {
                "unit": unit.name,
                "variant": unit.variant.name,
                "prompts": unit.prompts.name,
                "command": _locust(config, unit, files, port),
            }
            for unit in units(config)
        ],
        "scenarios": [
            {
                "scenario": scenario.name,
                "unit": scenario.unit.name,
                "concurrency": scenario.concurrency,
                "rounds": config.load.rounds,
                "requests_per_round": requests_of(config.load, scenario.concurrency),
                "vllm_bench": bench_commands(config, scenario, url_of(config, scenario.unit.variant, port), files),
            }
            for scenario in scenarios(config)
        ],
    }


def _servers(config: MatrixConfig, port: int, *, smoke: bool) -> Iterable[str]:
    yield "# The engine of each setting. One at a time: start one, run its loads, end it, start the next."
    for variant in variants(config):
        yield f"\n# {variant.name}"
        if smoke:
            yield shell(simulator_command(config, variant, port))
        elif variant.name in config.engine.urls:
            yield f"# runs already: {config.engine.urls[variant.name]}"
        else:
            prefix = [f"{name}={shell([value])}" for name, value in config.engine.environment.items()]
            yield " ".join([*prefix, shell(server_command(config, variant, port))])


def _loads(config: MatrixConfig, files: Files, port: int) -> Iterable[str]:
    load = config.load
    yield "# Our runs: each has a stage for every concurrency in every round, a warm-up before each."
    for unit in units(config):
        flights = ", ".join(map(str, load.concurrency))
        yield f"\n# {unit.name}: {flights} in flight, {load.rounds} rounds"
        yield shell(_locust(config, unit, files, port))


def _benches(config: MatrixConfig, files: Files, port: int) -> Iterable[str]:
    yield "# The same load by vLLM's bench. Prompts first, from any running engine of the matrix (they count its tokens)."
    yield shell(["mkdir", "-p", str(files.folder / "prompts"), str(files.folder / "vllm_bench")])
    url = url_of(config, variants(config)[0], port)
    for place in range(len(config.prompts)):
        if (words := export_command(config, place, url, files)) is not None:
            yield shell(words)
    for scenario in scenarios(config):
        yield f"\n# {scenario.name}, with the engine of {scenario.unit.variant.name}"
        for words in bench_commands(config, scenario, url_of(config, scenario.unit.variant, port), files):
            yield shell(words)


def _script(lines: Iterable[str]) -> str:
    return "\n".join(["#!/bin/sh", *lines]) + "\n"


def _notes(config: MatrixConfig) -> list[str]:
    """What to know before it is run."""
    load, notes = config.load, [WHY_FRESH, WHY_SEEDS]
    if any(prefix_of(prompts, load) for prompts in config.prompts):
        notes.insert(0, WHY_SHARED)
    notes.append(
        f"Lengths are counted by the tokenizer of the server under test, and every reply has {load.output_tokens} tokens: "
        "its end token is ignored."
    )
    if any(prompts.mix for prompts in config.prompts):
        notes.append(
            "The make-up of a mix varies by chance from round to round, more so in few requests; the run's report has "
            "figures for each length in it."
        )
    notes.append(f"A scenario is graded as performance only on {config.engine.name} {config.engine.version}, exactly.")
    notes += config.notes
    if config.bench is not None:
        notes += _bench_notes(config)
    notes += [f"{key} is still to be filled in: {text}" for key, text in placeholders(config)]
    return notes


def _bench_notes(config: MatrixConfig) -> list[str]:
    bench, load = config.bench, config.load
    assert bench is not None
    if requests_of(load, 1) is None:
        return ["vLLM's bench counts requests and knows no rounds by time: there are no commands for it."]
    notes = [
        f"The flags of vLLM's bench were looked up in the source of {bench.checked_against}"
        + (
            "."
            if bench.checked_against == config.engine.version
            else f"; for {config.engine.version} they are unverified."
        )
    ]
    notes.append(
        "vLLM's bench warms up by sending the first of its prompts again and again, so with a prefix cache that one is "
        "found whole when it is measured; it draws no windows, and its percentiles are interpolated, ours are nearest rank."
    )
    if unknown := without_bench_name(load):
        notes.append(f"vLLM's bench has no limit on {', '.join(unknown)}: its goodput leaves them out.")
    return notes


def _markdown(config: MatrixConfig, mode: str) -> str:
    load, all_ = config.load, scenarios(config)
    axes = " x ".join(f"{{{', '.join(setting.name for setting in axis.settings)}}}" for axis in config.axis)
    prompts = ", ".join(prompts.name for prompts in config.prompts)
    flights = ", ".join(map(str, load.concurrency))
    what = f"{axes} x {{{prompts}}} x {{{flights}}} in flight"
    lasts = (
        f"{load.requests_per_slot} requests for each in flight"
        if load.requests_per_slot
        else f"{load.stage_seconds:g} s"
    )
    rows = [
        [
            scenario.name,
            " ".join(scenario.unit.variant.flags),
            scenario.unit.prompts.name,
            str(scenario.concurrency),
            str(requests_of(load, scenario.concurrency) or "by time"),
        ]
        for scenario in all_
    ]
    header = ["scenario", "engine flags", "prompts", "in flight", "requests a round"]
    shown = table(header, [[escape(cell) for cell in row] for row in rows], [True, True, True, False, False])
    first = f"**{len(all_)} scenarios** ({mode}): {escape(what)}."
    second = (
        f"Each: {load.rounds} rounds of {lasts}, {load.warmup_seconds:g} s of warm-up before every one. "
        f"{len(units(config))} locust runs, {len(variants(config))} starts of {escape(config.engine.name)} "
        f"{escape(config.engine.version)}."
    )
    scripts = (
        f"`{SERVERS_SH}`: the engines. `{LOCUST_SH}`: our runs. `{BENCH_SH}`: vLLM's bench, where there is one. "
        f"`{PLAN_JSON}`: all of it for machines."
    )
    blocks = [
        f"# Matrix {escape(config.name)}", first, second, scripts, "## To know", bullets(map(escape, _notes(config))),
        "## Scenarios", shown,
    ]  # fmt: skip
    return "\n\n".join(blocks) + "\n"
