"""The matrix's file: what is shipped, and how a mistake in one's own is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.matrix.config import MatrixConfig, parse_config, placeholders, read_config, shipped_configs
from llm_locust.matrix.running import refuse_unfinished
from llm_locust.matrix.scenarios import variants
from llm_locust.records import UsageError

SMALL = """
name = "small"
[engine]
name = "E"
version = "1.2.3"
command = ["sh", "-c", "serve {model} {port}"]
[values]
model = "m"
[[axis]]
name = "cache"
settings = [ { name = "off", flags = ["--off"] }, { name = "on", flags = ["--on"] } ]
[[prompts]]
name = "short"
input_tokens = 64
[load]
concurrency = [1, 4]
requests_per_slot = 5
"""


def parsed(text: str, folder: Path = Path("/there")) -> MatrixConfig:
    return parse_config(text, "m.toml", folder)


def test_both_shipped_matrices_can_be_read_by_their_names() -> None:
    assert set(shipped_configs()) == {"vllm", "llama_cpp"}
    for name in shipped_configs():
        read_config(name)


def test_the_shipped_vllm_matrix_lets_no_switch_to_a_default() -> None:
    config = read_config("vllm")
    command = config.engine.command
    assert (config.engine.name, config.engine.version) == ("vLLM", "0.25.1")
    for flag, value in {
        "--generation-config": "vllm", "--host": "{host}", "--max-model-len": "{max_model_len}",
        "--gpu-memory-utilization": "{gpu_memory_utilization}", "--tensor-parallel-size": "{tensor_parallel}",
        "--pipeline-parallel-size": "1", "--data-parallel-size": "1", "--max-num-seqs": "64",
        # Without chunked prefill vLLM refuses a batch that is smaller than the context.
        "--max-num-batched-tokens": "{max_model_len}",
    }.items():  # fmt: skip
        assert command[command.index(flag) + 1] == value
    assert config.engine.host == "127.0.0.1"
    assert {variant.name: variant.flags for variant in variants(config)} == {
        "baseline": ["--no-enable-prefix-caching", "--no-enable-chunked-prefill"],
        "prefix-caching": ["--enable-prefix-caching", "--no-enable-chunked-prefill"],
        "chunked-prefill": ["--no-enable-prefix-caching", "--enable-chunked-prefill"],
    }
    assert config.load.rounds == 3
    assert config.load.concurrency == [1, 4, 16]


def test_the_longest_prompt_and_its_reply_fit_the_context_of_the_shipped_matrix() -> None:
    config = read_config("vllm")
    longest = max(int(prompts.input_tokens or 0) for prompts in config.prompts)
    assert longest + config.load.output_tokens <= int(config.values["max_model_len"])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("concurrency = [1, 4]", "concurency = [1, 4]", "load.concurency: no such key; did you mean concurrency?"),
        ("concurrency = [1, 4]", "", "load.concurrency: is missing"),
        ("concurrency = [1, 4]", "concurrency = [1, 1]", "load.concurrency: 1 is there twice"),
        ("concurrency = [1, 4]", "concurrency = [0]", "load.concurrency"),
        ("requests_per_slot = 5", "", "load: give either requests_per_slot or stage_seconds"),
        ("requests_per_slot = 5", "requests_per_slot = 5\nslo = 'e2el=3'", "load.slo: --slo 'e2el=3'"),
        ("input_tokens = 64", "input_tokens = '64k'", "prompts short: input_tokens"),
        ("input_tokens = 64", "mix = { long = 1 }", "prompts short: mix.long: no prompts of that name"),
        ("input_tokens = 64", "", "prompts short: give either input_tokens, or a mix"),
        ("{model} {port}", "{modle}", "engine.command: {modle} is filled in from nowhere: values has model"),
        ("serve {model}", "serve", None),
        ('"sh", "-c"', '"sh", "--api-key=abc"', "engine.command: a key in a command ends up in files"),
        ('"on"', '"off"', "axis cache: off is there twice"),
        ('name = "short"', 'name = "a/b"', "prompts[0].name: "),
        ('version = "1.2.3"', 'version = ""', "engine.version"),
        ('version = "1.2.3"', 'version = "1"\nenvironment = { HF_TOKEN = "x" }', "engine.environment.HF_TOKEN: leave"),
        ('version = "1.2.3"', 'version = "1"\nurls = { off = "localhost:1" }', "engine.urls.off"),
        ('flags = ["--on"]', "facts = { gpu = 1 }", "axis cache, on: facts.gpu: no such fact"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_file_and_key(before: str, after: str, said: str | None) -> None:
    text = SMALL.replace(before, after)
    if said is None:
        parsed(text)
        return
    assert text != SMALL
    with pytest.raises(UsageError) as caught:
        parsed(text)
    assert str(caught.value).startswith("m.toml: ")
    assert said in str(caught.value)


def test_a_name_that_is_no_file_lists_the_shipped_ones() -> None:
    with pytest.raises(UsageError, match="give a file, or a shipped one: llama_cpp, vllm"):
        read_config("vlm")


def test_urls_are_those_of_settings() -> None:
    config = parsed(SMALL.replace('version = "1.2.3"', 'version = "1"\nurls = { cold = "http://h:1" }'))
    with pytest.raises(UsageError, match=r"engine\.urls\.cold: no settings are called so: there are off, on"):
        variants(config)


def test_facts_are_looked_for_beside_the_file() -> None:
    assert parsed('facts = "facts.toml"\n' + SMALL).facts == "/there/facts.toml"


@pytest.mark.parametrize("text", ["<MODEL>", "/models/<NAME>", "REPLACE_ME", "replace-me", "TODO", "your-model", "..."])
def test_a_run_refuses_what_nobody_has_filled_in(text: str) -> None:
    config = parsed(SMALL.replace('model = "m"', f'model = "{text}"'))
    assert placeholders(config) == [("values.model", text)]
    with pytest.raises(UsageError, match=r"values\.model"):
        refuse_unfinished(config)


@pytest.mark.parametrize("text", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "0123abcd", "tiny"])
def test_names_of_models_are_no_placeholders(text: str) -> None:
    assert placeholders(parsed(SMALL.replace('model = "m"', f'model = "{text}"'))) == []


def test_the_shipped_vllm_matrix_is_refused_until_it_is_filled_in() -> None:
    with pytest.raises(UsageError, match=r"values\.model = '<MODEL>'\n  values\.revision = '<REVISION>'"):
        refuse_unfinished(read_config("vllm"))


def test_a_run_refuses_a_path_that_is_not_there_and_a_command_that_is_not_installed() -> None:
    with pytest.raises(UsageError, match=r"values\.model: there is no /no/such/model"):
        refuse_unfinished(parsed(SMALL.replace('model = "m"', 'model = "/no/such/model"')))
    with pytest.raises(UsageError, match=r"engine\.command: 'no-such-engine' is not on this machine's path"):
        refuse_unfinished(parsed(SMALL.replace('"sh"', '"no-such-engine"')))


def test_engines_that_run_already_need_no_command_here() -> None:
    text = SMALL.replace('"sh"', '"no-such-engine"')
    text = text.replace('version = "1.2.3"', 'version = "1"\nurls = { off = "http://h:1", on = "http://h:2" }')
    refuse_unfinished(parsed(text))
