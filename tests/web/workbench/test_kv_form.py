"""The KV preflight as a form: the figures of ``llm-locust kv``, and its refusals by field."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_kv import SMALL, data
from tests.web.workbench.asking import COMMA, refused, told, unit

SHAPE = {"layers": "32", "kv_heads": "8", "head_dim": "128"}


def test_the_worked_example_is_1_gib() -> None:
    found = told("kv", **SHAPE, tokens="8192")
    assert found["label"] == "Computed from your figures, not a test."
    assert found["estimate"]["bytes_per_request"] == 2**30  # 2 x 32 x 8 x 128 x 2 bytes x 8192 tokens
    assert ["Per token", "131,072 bytes"] in found["lines"]


def test_it_says_what_the_command_says() -> None:
    typed = told(
        "kv", **SHAPE, tokens="8192", kv_dtype="fp8", concurrency="4", engine_kv_gib="24.8", tp="2", block_size="32"
    )
    command = data(
        "--layers", 32, "--kv-heads", 8, "--head-dim", 128, "--tokens", 8192, "--kv-dtype", "fp8", "--concurrency", 4,
        "--engine-kv-gib", 24.8, "--tp", 2, "--block-size", 32,
    )  # fmt: skip
    assert {name: typed[name] for name in command} == command


def test_a_pasted_config_gives_the_shape_and_what_is_typed_wins() -> None:
    assert (
        told("kv", config=json.dumps(SMALL), tokens="2048")["estimate"]["bytes_per_token"] == 23_040
    )  # 2 x 30 x 3 x 64 x 2
    assert (
        told("kv", config=json.dumps(SMALL), tokens="2048", layers="15", kv_dtype="1")["estimate"]["bytes_per_token"]
        == 5_760
    )
    assert "--" not in json.dumps(told("kv", config=json.dumps(SMALL), tokens="2048")["lines"])


def test_a_hybrid_model_is_unavailable_with_the_reason() -> None:
    found = told("kv", config=json.dumps({**SMALL, "sliding_window": 512}), tokens="2048")
    assert (found["available"], found["estimate"], found["unavailable_key"]) == (False, None, "sliding_window")
    assert found["lines"][0][1].startswith("unavailable: sliding window (sliding_window = 512): such layers keep only")


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({}, {"tokens": "it is needed: prompt and output of one request together"}),
        (
            {"tokens": "10"},
            dict.fromkeys(("layers", "kv_heads", "head_dim"), "it is needed: write it, or paste a config.json"),
        ),
        ({**SHAPE, "tokens": "8,192"}, {"tokens": f"'8,192' {COMMA}"}),
        ({**SHAPE, "tokens": "0"}, {"tokens": "'0' is out of range: it is a number from 1 to 1e+09"}),
        ({**SHAPE, "tokens": "10", "engine_kv_gib": "24 GiB"}, {"engine_kv_gib": unit("24 GiB", "24")}),
        (
            {**SHAPE, "tokens": "10", "tp": "3"},
            {"tp": "8 KV heads cannot be shared by 3 GPUs; it is 1, 2, 4, 8, 16 or another multiple of 8"},
        ),
        ({"tokens": "10", "config": "[]"}, {"config": "not a JSON object: Expected `object`, got `array`"}),
        (
            {"tokens": "10", "config": '{"num_hidden_layers": "x"}'},
            {"config": "config.json: num_hidden_layers is 'x', and should be a whole number above 0"},
        ),
        ({"tokens": "10", "config": '{"a":' * 100_000}, {"config": "it is nested too deeply for a config.json"}),
        (
            {**SHAPE, "tokens": "1000000000", "concurrency": "1000000000"},
            {"tokens": "these numbers come to more than any memory holds (2^63 bytes): is one of them a slip? Check them"},
        ),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_named_by_field(fields: dict[str, str], messages: dict[str, str]) -> None:
    assert refused("kv", **fields) == messages


def test_an_unknown_type_of_the_cache_is_refused_with_those_that_are_known() -> None:
    assert refused("kv", **SHAPE, tokens="1", kv_dtype="fp9")["kv_dtype"].startswith(
        "'fp9': did you mean fp8? Write float32,"
    )
    unsettled = json.dumps({**SMALL, "torch_dtype": "float32"})
    assert refused("kv", config=unsettled, tokens="1") == {
        "kv_dtype": "it is needed (config.json: torch_dtype is float32, which the weights have and the cache need not)"
    }
