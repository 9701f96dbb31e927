"""``llm-locust kv`` as a user meets it: options, files and running engines in; lines, JSON and exit status out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from llm_locust.cli.kv import command
from llm_locust.records import UsageError
from llm_locust.simulator.process import running
from tests.telemetry.server import free_port, http, models, serving

PAGE = (Path(__file__).parents[1] / "telemetry" / "metrics" / "pages" / "vllm.txt").read_bytes()
SHAPE = ("--layers", "32", "--kv-heads", "8", "--head-dim", "128")
SMALL: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 576, "num_attention_heads": 9, "num_hidden_layers": 30,
    "num_key_value_heads": 3, "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
}  # fmt: skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def told(*arguments: object, status: int = 0) -> str:
    found = run(*arguments)
    assert found.exit_code == status, (found.output, found.exception)
    return " ".join(found.output.split())


def data(*arguments: object, status: int = 0) -> dict[str, Any]:
    found = run(*arguments, "--json")
    assert found.exit_code == status, (found.output, found.exception)
    decoded: dict[str, Any] = json.loads(found.stdout)
    return decoded


def refused(*arguments: object) -> str:
    found = run(*arguments)
    assert isinstance(found.exception, UsageError), found.output
    return str(found.exception)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SMALL))
    return path


def test_the_worked_example_is_1_gib_and_says_what_it_assumes_and_leaves_out() -> None:
    text = told(*SHAPE, "--tokens", 8192)
    assert "32 layers x 8 KV heads x 128; the cache holds float16 (2 bytes, assumed; else give --kv-dtype)" in text
    assert "Per token 131,072 bytes Per request 1.0 GiB: 8,192 tokens in 512 blocks of 16 In all 1.0 GiB: 1 at" in text
    for part in ("weights", "activations", "CUDA graphs", "workspace", "reserve of blocks", "fragmentation",
                 "prefix sharing", "offload", "parallelism"):  # fmt: skip
        assert part in text[text.index("Left out") :]


def test_json_holds_bytes() -> None:
    found = data(*SHAPE, "--context", 8192, "--kv-dtype", "fp8", "--concurrency", 4, "--engine-kv-gib", 24.8)
    assert found["available"] is True
    assert found["estimate"]["bytes_per_request"] == 2**29
    assert found["estimate"]["total_bytes"] == 2**31
    assert (found["fits"]["requests"], found["fits"]["source"]) == (49, "--engine-kv-gib")
    assert found["model"]["shape"]["dtype"] == {"name": "fp8", "bytes": 1.0}


def test_every_missing_number_is_named_by_its_option() -> None:
    assert refused() == (
        "numbers are missing: give --tokens, --layers, --kv-heads, --head-dim; "
        "a model's config.json has its shape: --config"
    )
    assert refused(*SHAPE) == "a number is missing: give --tokens"


def test_a_config_gives_the_shape_and_options_win_over_it(small: Path) -> None:
    found = data("--config", small, "--tokens", 2048)
    assert found["estimate"]["bytes_per_token"] == 23_040  # 2 x 30 x 3 x 64 x 2
    assert found["model"]["attention"] == "GQA"
    other = data("--config", small, "--tokens", 2048, "--layers", 15, "--kv-dtype", "1")
    assert other["estimate"]["bytes_per_token"] == 5_760
    assert other["model"]["sources"] == {
        "--layers": "--layers", "--kv-heads": "--config", "--head-dim": "--config", "--kv-dtype": "--kv-dtype",
    }  # fmt: skip
    assert "the model was made for 2,048 tokens" in told("--config", small, "--tokens", 4096)


def test_what_the_config_does_not_say_is_asked_for_by_its_option(small: Path) -> None:
    small.write_text(json.dumps({**SMALL, "torch_dtype": "float32", "num_hidden_layers": None}))
    message = refused("--config", small, "--tokens", 2048)
    assert message.startswith("numbers are missing: give --layers, --kv-dtype (")
    assert "torch_dtype is float32" in message


def test_a_model_without_a_formula_is_unavailable_with_the_key_and_status_4(small: Path) -> None:
    small.write_text(json.dumps({**SMALL, "sliding_window": 512}))
    text = told("--config", small, "--tokens", 2048, status=4)
    assert text.startswith(
        "KV cache unavailable: sliding window (sliding_window = 512): such layers keep only the last"
    )
    found = data("--config", small, "--tokens", 2048, status=4)
    assert (found["available"], found["unavailable_key"], found["estimate"]) == (False, "sliding_window", None)


def test_each_gpu_holds_its_share_and_repeated_heads_are_said(small: Path) -> None:
    text = told(*SHAPE, "--tokens", 8192, "--tp", 16)
    assert "Each GPU 128.0 MiB of that: 128.0 MiB a request, 16,384 bytes a token, 1 of 8 KV heads" in text
    assert "with 16 GPUs for 8 KV heads every head is stored 2 times" in text
    assert "3 KV heads cannot be shared by 2 GPUs" in refused("--config", small, "--tokens", 2048, "--tp", 2)


def test_ollama_multiplies_the_context_by_its_places() -> None:
    text = told(*SHAPE, "--tokens", 8192, "--ollama-num-parallel", 4, "--concurrency", 6)
    assert "In all 4.0 GiB: 4 places of Ollama" in text
    assert "of 6 requests at once 4 have a place, the rest wait" in text


def test_what_does_not_fit_is_said() -> None:
    text = told(*SHAPE, "--tokens", 8192, "--concurrency", 30, "--engine-kv-gib", 24.8)
    assert "Fits 24 requests at once in 24.8 GiB (--engine-kv-gib): 12,697 blocks, 203,152 tokens" in text
    assert "24 of 30 requests fit at once" in text
    assert "not even one request of this length fits" in told(*SHAPE, "--tokens", 8192, "--engine-kv-gib", 0.5)


def test_a_running_vllm_stands_beside_the_estimate_and_agrees(small: Path) -> None:
    card = {"id": "smollm2", "owned_by": "vllm", "max_model_len": 2048}
    pages = {
        "/v1/models": http(200, {"data": [card]}),
        "/version": http(200, {"version": "0.32.0"}),
        "/metrics": http(200, PAGE),
    }
    with serving(pages) as server:
        found = data("--config", small, "--tokens", 2048, "--host", server.url)
        text = told("--config", small, "--tokens", 2048, "--host", server.url)
    assert found["estimate"]["load"]["block_tokens"] == 128  # the engine's
    assert found["fits"] == {
        "budget_bytes": 2**30, "source": "the engine", "blocks": 364, "tokens": 46_592, "requests": 22,
    }  # fmt: skip
    (engine,) = found["engines"]
    assert (engine["figures"]["cache_tokens"], engine["requests"]) == (46_592, 22)
    assert "Engine says vLLM 0.32.0: 46,592 tokens of cache, blocks of 128, 1.0 GiB on each GPU" in text
    assert "22.75 of that length at once" in text
    assert "23045.6 bytes a token on each GPU: 0.024 % above the formula" in text


def test_a_model_without_a_formula_still_shows_the_engines_own_figures(small: Path) -> None:
    small.write_text(json.dumps({**SMALL, "kv_lora_rank": 512}))
    pages = {"/v1/models": models("m", owner="vllm"), "/metrics": http(200, PAGE)}
    with serving(pages) as server:
        text = told("--config", small, "--tokens", 2048, "--host", server.url, status=4)
    assert "unavailable: MLA (kv_lora_rank = 512)" in text
    assert "46,592 tokens of cache" in text


def test_the_simulator_is_asked_like_any_engine() -> None:
    with running() as server:
        found = data(*SHAPE, "--tokens", 512, "--host", server.base_url)
    (engine,) = found["engines"]
    figures = engine["figures"]
    assert figures["cache_tokens"] > 0
    assert engine["requests"] == figures["cache_tokens"] // figures["block_tokens"] // -(
        -512 // figures["block_tokens"]
    )


def test_a_host_that_does_not_answer_is_wrong_usage() -> None:
    assert "is it running there?" in refused(*SHAPE, "--tokens", 512, "--host", f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--tokens", "0"), "--tokens"),
        (("--layers", "1.5"), "--layers"),
        (("--engine-kv-gib", "nan"), "--engine-kv-gib"),
        (("--engine-kv-gib", "inf"), "--engine-kv-gib"),
        (("--engine-kv-gib", "0"), "--engine-kv-gib"),
    ],
)
def test_numbers_out_of_range_are_wrong_usage(arguments: tuple[str, ...], option: str) -> None:
    found = run(*SHAPE, "--tokens", "8192", *arguments)
    assert found.exit_code == 2
    assert option in found.output


def test_numbers_beyond_any_memory_are_refused_and_do_not_overflow() -> None:
    large = 10**9
    assert "is one of them a slip?" in refused(
        "--layers", large, "--kv-heads", 8, "--head-dim", large, "--tokens", large
    )
    assert data(*SHAPE, "--tokens", 1, "--engine-kv-gib", large)["fits"]["requests"] == large * 512


def test_what_a_server_writes_does_not_reach_the_terminal_as_it_is() -> None:
    pages = {"/v1/models": models("m", owner="vllm"), "/version": http(200, {"version": "1\x1b[31m[bold]"})}
    with serving(pages) as server:
        found = run(*SHAPE, "--tokens", 512, "--host", server.url)
    assert "\x1b" not in found.output
    assert "[bold]" in found.output
