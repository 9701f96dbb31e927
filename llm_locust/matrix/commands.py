"""Every command of a matrix as a list of words: the engine's, the simulator's, ours, and those of vLLM's bench.

All are pure: what is written down by a dry run is what a run starts.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from llm_locust.bundled_files import bundled
from llm_locust.matrix.config import Load, MatrixConfig, Prompts
from llm_locust.matrix.scenarios import Scenario, Unit, Variant
from llm_locust.records import parse_slo
from llm_locust.workload.lengths import parse_lengths

SMOKE_CONTEXT_ROOM = 64
"""Tokens of the simulator's context beyond the longest prompt and its reply."""
SMOKE_DECODE_MS = 10
SMOKE_PREFILL_TPS = 1_000_000

BENCH_METRICS = "ttft,tpot,itl,e2el"
_BENCH_LIMITS = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2el"}
"""Our limits by the names that vLLM's bench has for them."""
_BENCH_API = {"chat.py": ("openai-chat", "/v1/chat/completions"), "completions.py": ("openai", "/v1/completions")}


class Files(NamedTuple):
    """Where a matrix keeps its files."""

    folder: Path

    def run_dir(self, unit: Unit) -> Path:
        """The run folders of a unit."""
        return self.folder / "runs" / unit.name

    def mix(self, prompts: Prompts) -> Path:
        """The file of a mix."""
        return self.folder / "mixes" / f"{prompts.name}.toml"

    def facts(self, variant: Variant) -> Path:
        """The facts about one variant."""
        return self.folder / "facts" / f"{variant.name}.toml"

    def prompts(self, prompts: Prompts) -> Path:
        """Exported prompts, for vLLM's bench."""
        return self.folder / "prompts" / f"{prompts.name}.jsonl"


def smoke_config(config: MatrixConfig) -> MatrixConfig:
    """The same matrix as a test of the protocol: a few short requests in every round, and no limits to judge by."""
    load = msgspec.structs.replace(
        config.load,
        warmup_seconds=0.2,
        requests_per_slot=2,
        stage_seconds=None,
        output_tokens=4,
        slo="",
        deadline_seconds=60.0,
        processes=0,
    )
    return msgspec.structs.replace(config, load=load, facts=None)


def server_command(config: MatrixConfig, variant: Variant, port: int) -> list[str]:
    """What starts the engine of a variant."""
    words = [*config.engine.command, *variant.flags]
    return [config.fill(word, host=config.engine.host, port=port) for word in words]


def simulator_command(config: MatrixConfig, variant: Variant, port: int) -> list[str]:
    """What starts the simulator in its place."""
    load = config.load
    longest = max(_longest(prompts) for prompts in config.prompts)
    settings = {
        "host": "127.0.0.1",
        "port": port,
        "slots": max(load.concurrency),
        "max-model-len": longest + load.output_tokens + SMOKE_CONTEXT_ROOM,
        "prefill-tps": SMOKE_PREFILL_TPS,
        "decode-ms": SMOKE_DECODE_MS,
    }
    words = ["llm-locust", "simulate"]
    for name, value in settings.items():
        words += [f"--{name}", str(value)]
    return [*words, *variant.simulator]


def _longest(prompts: Prompts) -> int:
    if prompts.input_tokens is None:
        return 1
    return math.ceil(parse_lengths(str(prompts.input_tokens), "lengths").at(1 - 1e-9))


def locust_command(
    config: MatrixConfig,
    unit: Unit,
    *,
    url: str,
    files: Files,
    metrics: Sequence[str] = (),
    facts: Path | None = None,
) -> list[str]:
    """The locust run of a unit: all its concurrencies in every round.

    Args:
        config: The matrix.
        unit: Which of its units.
        url: Of the engine.
        files: Where run folders go, and mixes are.
        metrics: Pages to read beside the engine's own.
        facts: What a client cannot see.
    """
    load = config.load
    words = [
        "locust",
        "-f",
        f"{bundled('locustfiles') / load.locustfile},{bundled('shapes') / 'concurrency_ladder.py'}",
    ]
    words += ["--headless", "--only-summary", "--loglevel", "WARNING", "--host", url]
    words += ["--processes", str(load.processes)] if load.processes else []
    words += ["--concurrency", ",".join(map(str, load.concurrency)), "--rounds", str(load.rounds)]
    words += ["--warmup-time", f"{load.warmup_seconds:g}"]
    if load.requests_per_slot is not None:
        words += ["--repeats", str(load.requests_per_slot)]
    else:
        words += ["--stage-time", f"{load.stage_seconds:g}"]
    words += ["--deadline", f"{load.deadline_seconds:g}", *workload_options(config, unit.place, files)]
    words += ["--slo", load.slo] if load.slo else []
    words += ["--facts", str(facts)] if facts is not None else []
    for page in ("host", *metrics) if metrics else ():
        words += ["--metrics", page]
    return [*words, "--run-dir", str(files.run_dir(unit)), *(config.fill(word) for word in load.options)]


def workload_options(config: MatrixConfig, place: int, files: Files) -> list[str]:
    """What is sent: the same for every engine setting, with a seed of its own for each kind of prompts."""
    load, prompts = config.load, config.prompts[place]
    # With one seed for all, short prompts would begin as the long ones do, and warm the prefix cache for them.
    words = ["--seed", str(load.seed + place), "--max-tokens", str(load.output_tokens), "--ignore-eos"]
    words += ["--tokenizer", "server"]
    if prompts.mix:
        return [*words, "--mix", str(files.mix(prompts))]
    words += ["--input-tokens", str(prompts.input_tokens)]
    shared = prefix_of(prompts, load)
    return [*words, "--shared-prefix", shared] if shared else words


def prefix_of(prompts: Prompts, load: Load) -> str | None:
    """What its prompts share."""
    return prompts.shared_prefix if prompts.shared_prefix is not None else load.shared_prefix


def mix_text(config: MatrixConfig, prompts: Prompts) -> str:
    """The mix as the file that ``--mix`` reads."""
    by_name = {other.name: other for other in config.prompts}
    tables = []
    for name, weight in prompts.mix.items():
        lines = [f'[slice."{name}"]', f"weight = {weight:g}", f'input_tokens = "{by_name[name].input_tokens}"']
        shared = prompts.shared_prefix or prefix_of(by_name[name], config.load)
        lines += [f'shared_prefix = "{shared}"'] if shared else []
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def requests_of(load: Load, concurrency: int) -> int | None:
    """Measured requests of one round; ``None`` when it ends by time."""
    return None if load.requests_per_slot is None else load.requests_per_slot * concurrency


def export_command(config: MatrixConfig, place: int, url: str, files: Files) -> list[str] | None:
    """What writes the prompts for vLLM's bench, one file for all scenarios of a kind; ``None`` for rounds by time."""
    prompts, load = config.prompts[place], config.load
    of_rounds = [requests_of(load, concurrency) for concurrency in load.concurrency]
    if None in of_rounds:
        return None
    count = load.rounds * sum(number for number in of_rounds if number is not None)
    words = ["llm-locust", "workload", "export", str(files.prompts(prompts)), "--count", str(count), "--host", url]
    words += ["--completions"] if load.locustfile == "completions.py" else []
    return [*words, *workload_options(config, place, files)]


def bench_commands(config: MatrixConfig, scenario: Scenario, url: str, files: Files) -> list[list[str]]:
    """vLLM's bench for every round of a scenario: first a file of the round's own prompts, then the run; empty without.

    Every round of every scenario gets lines of its own out of the exported prompts.
    """
    load, prompts = config.load, scenario.unit.prompts
    count = requests_of(load, scenario.concurrency)
    if config.bench is None or count is None:
        return []
    backend, endpoint = _BENCH_API[load.locustfile]
    limits = parse_slo(load.slo)
    goodput = [f"{_BENCH_LIMITS[name]}:{limit:g}" for name, limit in limits.items() if name in _BENCH_LIMITS]
    exported, folder = files.prompts(prompts), files.folder / "vllm_bench"
    commands = []
    for number in range(load.rounds):
        first = _first_line(load, scenario.concurrency, number)
        name = f"{scenario.name}.round{number}"
        part = files.folder / "prompts" / f"{name}.jsonl"
        commands.append(["sed", "-n", f"{first},{first + count - 1}w {part}", str(exported)])
        commands.append(
            [
                *(config.fill(word) for word in config.bench.command),
                "--base-url", url, "--backend", backend, "--endpoint", endpoint,
                "--dataset-name", "custom", "--dataset-path", str(part), "--custom-output-len", "-1",
                "--skip-chat-template", "--disable-shuffle", "--no-oversample",
                "--num-prompts", str(count), "--num-warmups", str(scenario.concurrency),
                "--max-concurrency", str(scenario.concurrency), "--request-rate", "inf",
                "--ignore-eos", "--temperature", "0", "--seed", str(load.seed + scenario.unit.place),
                "--percentile-metrics", BENCH_METRICS, "--metric-percentiles", "50,95,99",
                *(["--goodput", *goodput] if goodput else []),
                "--save-result", "--save-detailed", "--result-dir", str(folder), "--result-filename", f"{name}.json",
            ]
        )  # fmt: skip
    return commands


def without_bench_name(load: Load) -> list[str]:
    """Limits that vLLM's bench does not know."""
    return [name for name in parse_slo(load.slo) if name not in _BENCH_LIMITS]


def _first_line(load: Load, concurrency: int, number: int) -> int:
    """The line, from 1, at which the prompts of a round of a concurrency begin."""
    before = load.concurrency[: load.concurrency.index(concurrency)]
    per_slot = load.requests_per_slot or 0
    return 1 + per_slot * (number * sum(load.concurrency) + sum(before))


def shell(words: Sequence[str]) -> str:
    """A command as a shell reads it."""
    return shlex.join(words)


def startable(words: Sequence[str]) -> list[str]:
    """The command as it is started here: our own tools by this very interpreter, wherever it is on the path."""
    modules = {"locust": "locust", "llm-locust": "llm_locust"}
    first, *others = words
    return [sys.executable, "-m", modules[first], *others] if first in modules else [*words]
