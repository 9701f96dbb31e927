"""The grid, and every command of it: pure, so what is written down is what is run."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from llm_locust.matrix.commands import (
    Files,
    bench_commands,
    export_command,
    locust_command,
    mix_text,
    server_command,
    simulator_command,
    smoke_config,
    startable,
)
from llm_locust.matrix.config import MatrixConfig, read_config
from llm_locust.matrix.scenarios import scenarios, units, variants

FILES = Files(Path("/out"))
URL = "http://127.0.0.1:8000"


@pytest.fixture
def vllm() -> MatrixConfig:
    config = read_config("vllm")
    return msgspec.structs.replace(config, values={**config.values, "model": "/m", "revision": "abc"})


def option(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def unit_of(config: MatrixConfig, name: str) -> object:
    return next(unit for unit in units(config) if unit.name == name)


def test_the_default_matrix_is_36_scenarios_in_12_runs_on_3_engines(vllm: MatrixConfig) -> None:
    names = [scenario.name for scenario in scenarios(vllm)]
    assert len(names) == len(set(names)) == 36
    assert names[:4] == ["baseline.512.c1", "baseline.512.c4", "baseline.512.c16", "baseline.2K.c1"]
    assert names[-1] == "chunked-prefill.mixed.c16"
    assert len(units(vllm)) == 12
    assert [variant.name for variant in variants(vllm)] == ["baseline", "prefix-caching", "chunked-prefill"]


def test_settings_of_several_axes_are_combined_and_their_flags_with_them() -> None:
    config = read_config("llama_cpp")
    found = {variant.name: variant.flags for variant in variants(config)}
    assert len(found) == 6
    assert found["2-slots-context-4096"] == ["--slots", "2", "--context", "4096"]


def test_the_servers_command_ends_with_the_flags_of_its_setting_and_has_no_place_left(vllm: MatrixConfig) -> None:
    baseline = server_command(vllm, variants(vllm)[0], 8123)
    assert baseline[:5] == ["vllm", "serve", "/m", "--revision", "abc"]
    assert option(baseline, "--port") == "8123"
    assert option(baseline, "--host") == "127.0.0.1"
    assert baseline[-2:] == ["--no-enable-prefix-caching", "--no-enable-chunked-prefill"]
    assert not any("{" in word for word in baseline)


def test_servers_of_two_settings_differ_in_one_flag(vllm: MatrixConfig) -> None:
    baseline, *others = (server_command(vllm, variant, 8000) for variant in variants(vllm))
    for other in others:
        assert len(other) == len(baseline)
        assert sum(one != two for one, two in zip(baseline, other, strict=True)) == 1


def test_our_run_has_all_concurrencies_all_rounds_a_warm_up_and_the_servers_lengths(vllm: MatrixConfig) -> None:
    words = locust_command(vllm, units(vllm)[1], url=URL, files=FILES)
    assert words[0] == "locust"
    assert words[2].endswith("concurrency_ladder.py")
    assert all(Path(path).is_file() for path in words[2].split(","))
    for flag, value in {
        "--host": URL, "--concurrency": "1,4,16", "--rounds": "3", "--repeats": "20", "--warmup-time": "10",
        "--input-tokens": "2048", "--max-tokens": "128", "--tokenizer": "server", "--shared-prefix": "share=0.5,groups=4",
        "--run-dir": "/out/runs/baseline.2K",
    }.items():  # fmt: skip
        assert option(words, flag) == value
    assert "--ignore-eos" in words
    assert "--reuse-prompts" not in words  # rounds have fresh prompts


def test_what_is_sent_is_the_same_in_every_setting_and_another_for_every_kind_of_prompts(vllm: MatrixConfig) -> None:
    sent: dict[str, set[tuple[str, ...]]] = {}
    seeds = {}
    for unit in units(vllm):
        words = locust_command(vllm, unit, url=URL, files=FILES)
        sent.setdefault(unit.prompts.name, set()).add(tuple(words[: words.index("--run-dir")]))
        seeds[unit.prompts.name] = option(words, "--seed")
    assert {len(of) for of in sent.values()} == {1}
    assert seeds == {"512": "1", "2K": "2", "8K": "3", "mixed": "4"}


def test_a_mix_is_a_file_with_a_slice_for_each_length_and_its_prefix(vllm: MatrixConfig) -> None:
    mixed = units(vllm)[3]
    words = locust_command(vllm, mixed, url=URL, files=FILES)
    assert option(words, "--mix") == "/out/mixes/mixed.toml"
    assert not {"--input-tokens", "--shared-prefix"} & set(words)
    assert tomllib.loads(mix_text(vllm, mixed.prompts)) == {
        "slice": {
            name: {"weight": 1, "input_tokens": length, "shared_prefix": "share=0.5,groups=4"}
            for name, length in (("512", "512"), ("2K", "2048"), ("8K", "8192"))
        }
    }


def test_rounds_by_time_and_further_options_reach_locust(vllm: MatrixConfig) -> None:
    load = msgspec.structs.replace(
        vllm.load,
        requests_per_slot=None,
        stage_seconds=90.0,
        slo="ttft=500",
        options=["--model", "{model}"],
        processes=2,
    )
    config = msgspec.structs.replace(vllm, load=load)
    words = locust_command(
        config, units(config)[0], url=URL, files=FILES, metrics=["http://127.0.0.1:9/metrics"], facts=Path("/f.toml")
    )
    assert option(words, "--stage-time") == "90"
    assert "--repeats" not in words
    assert option(words, "--slo") == "ttft=500"
    assert option(words, "--facts") == "/f.toml"
    assert option(words, "--processes") == "2"
    assert words[-2:] == ["--model", "/m"]
    assert [words[at + 1] for at, word in enumerate(words) if word == "--metrics"] == [
        "host",
        "http://127.0.0.1:9/metrics",
    ]
    assert bench_commands(config, scenarios(config)[0], URL, FILES) == []
    assert export_command(config, 0, URL, FILES) is None


def test_vllms_bench_sends_the_same_load_with_prompts_of_its_own_for_every_round(vllm: MatrixConfig) -> None:
    config = msgspec.structs.replace(
        vllm, load=msgspec.structs.replace(vllm.load, slo="ttft=500,tpot=100,e2e=3000,max_gap=900")
    )
    scenario = next(one for one in scenarios(config) if one.name == "prefix-caching.8K.c4")
    commands = bench_commands(config, scenario, URL, FILES)
    assert len(commands) == 6
    split, bench = commands[2], commands[3]
    # A round is 20 + 80 + 320 prompts; the second one's four in flight come after its first 20.
    assert split == ["sed", "-n", "441,520w /out/prompts/prefix-caching.8K.c4.round1.jsonl", "/out/prompts/8K.jsonl"]
    assert bench[:5] == ["vllm", "bench", "serve", "--model", "/m"]
    for flag, value in {
        "--backend": "openai-chat", "--endpoint": "/v1/chat/completions", "--dataset-name": "custom",
        "--dataset-path": "/out/prompts/prefix-caching.8K.c4.round1.jsonl", "--custom-output-len": "-1",
        "--num-prompts": "80", "--max-concurrency": "4", "--request-rate": "inf", "--temperature": "0",
        "--percentile-metrics": "ttft,tpot,itl,e2el", "--base-url": URL,
        "--result-filename": "prefix-caching.8K.c4.round1.json",
    }.items():  # fmt: skip
        assert option(bench, flag) == value
    at = bench.index("--goodput")
    assert bench[at + 1 : at + 5] == ["ttft:500", "tpot:100", "e2el:3000", "--save-result"]
    assert {"--ignore-eos", "--skip-chat-template", "--disable-shuffle"} <= set(bench)


def test_every_round_of_every_concurrency_has_lines_of_its_own_in_the_exported_prompts(vllm: MatrixConfig) -> None:
    words = export_command(vllm, 0, URL, FILES)
    assert words is not None
    taken: list[int] = []
    for scenario in scenarios(vllm)[:3]:
        for split in bench_commands(vllm, scenario, URL, FILES)[::2]:
            first, last = map(int, split[2].split("w")[0].split(","))
            taken += range(first, last + 1)
    assert sorted(taken) == list(range(1, int(option(words, "--count")) + 1))


def test_a_smoke_test_keeps_scenarios_rounds_and_lengths_and_is_short_otherwise(vllm: MatrixConfig) -> None:
    short = smoke_config(vllm)
    assert [one.name for one in scenarios(short)] == [one.name for one in scenarios(vllm)]
    assert short.load.rounds == 3
    assert short.prompts == vllm.prompts
    assert short.load.requests_per_slot == 2
    words = simulator_command(short, variants(short)[1], 8123)
    assert words[:2] == ["llm-locust", "simulate"]
    assert option(words, "--slots") == "16"
    assert option(words, "--max-model-len") == str(8192 + 4 + 64)
    assert words[-1] == "--prefix-caching"


def test_our_own_tools_are_started_by_this_interpreter() -> None:
    assert startable(["locust", "-f", "x"])[1:] == ["-m", "locust", "-f", "x"]
    assert startable(["llm-locust", "simulate"])[1:] == ["-m", "llm_locust", "simulate"]
    assert startable(["vllm", "serve"]) == ["vllm", "serve"]
