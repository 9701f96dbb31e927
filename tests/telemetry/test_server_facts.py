"""What the server says of itself, engine by engine, from pages as real servers send them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from llm_locust.records.evidence import FIELD_TYPES
from llm_locust.simulator.process import running
from llm_locust.telemetry.probe import Probe
from llm_locust.telemetry.server_facts import ServerFacts

from .server import free_port, http, models, never, serving

VLLM = (Path(__file__).parent / "metrics" / "pages" / "vllm.txt").read_bytes()


def facts_of(url: str, model: str | None = None, **options: Any) -> dict[str, Any]:
    return ServerFacts(Probe(url, {}), model, **options).plain()


def test_vllm() -> None:
    card = {"id": "chat", "object": "model", "owned_by": "vllm", "root": "Qwen/Qwen3-8B", "max_model_len": 2048}
    adapter = {"id": "adapter", "object": "model", "owned_by": "vllm", "root": "/lora", "max_model_len": None}
    pages = {
        "/v1/models": http(200, {"data": [card, adapter]}),
        "/version": http(200, {"version": "0.32.0"}),
        "/metrics": http(200, VLLM),
    }
    with serving(pages) as server:
        found = facts_of(server.url, "chat")
    config = found.pop("cache_config_info")
    assert found == {
        "engine": "vLLM",
        "engine_version": "0.32.0",
        "model_id": "chat",
        "model_ids": ["chat", "adapter"],
        "model_root": "Qwen/Qwen3-8B",
        "context_limit_tokens": 2048,
        "kv_cache_size_tokens": 46592,
        "kv_cache_max_concurrency": 22.75,
        "prefix_caching": True,  # its cache dtype is "auto", which says nothing
    }
    assert config["0"]["num_gpu_blocks"] == "364"
    assert "num_cpu_blocks" not in config["0"]  # "None"


def test_caches_of_several_engines_are_kept_apart_and_never_added_up() -> None:
    line = 'vllm:cache_config_info{{cache_dtype="fp8",engine="{}",kv_cache_size_tokens="{}"}} 1\n'
    page = line.format(0, 1000) + line.format(1, 2000)
    with serving({"/metrics": http(200, page), "/v1/models": models("m", owner="vllm")}) as server:
        found = facts_of(server.url)
        assert facts_of(server.url, metrics=False).keys() == {"engine", "model_id", "model_ids"}
    assert "kv_cache_size_tokens" not in found
    assert found["kv_cache_dtype"] == "fp8"
    assert {name: config["kv_cache_size_tokens"] for name, config in found["cache_config_info"].items()} == {
        "0": "1000",
        "1": "2000",
    }


def test_llama_cpp() -> None:
    template = "{% for message in messages %}…{% endfor %}"
    meta = {"n_ctx": 2048, "n_ctx_train": 8192, "n_params": 134515008, "size": 96576768, "ftype": "Q4_1"}
    card = {"id": "smollm2", "object": "model", "owned_by": "llamacpp", "meta": meta}
    props = {
        "default_generation_settings": {"n_ctx": 2048},
        "total_slots": 4,
        "model_ftype": "Q4_1",
        "model_path": "/models/SmolLM2.Q4_1.gguf",
        "chat_template": template,
        "build_info": "b1-7e4c0a9",
    }
    pages = {"/v1/models": http(200, {"data": [card]}), "/props": http(200, props)}
    with serving(pages) as server:
        found = facts_of(server.url)
    assert found == {
        "engine": "llama.cpp",
        "engine_version": "b1-7e4c0a9",
        "model_id": "smollm2",
        "model_ids": ["smollm2"],
        "context_limit_tokens": 2048,
        "context_of_all_slots_tokens": 8192,
        "max_active_sequences": 4,
        "chat_template_sha256": hashlib.sha256(template.encode()).hexdigest(),
        "quantization_dtype": "Q4_1",
        "model_file": "SmolLM2.Q4_1.gguf",
        "model_file_bytes": 96576768,
        "model_parameters": 134515008,
        "model_context_tokens": 8192,
    }


def test_ollama() -> None:
    show = {
        "template": "{{ .Prompt }}",
        "parameters": "stop    <|im_end|>\nnum_ctx                        8192\n",
        "details": {"family": "llama", "parameter_size": "1.2B", "quantization_level": "Q8_0"},
        "model_info": {"general.architecture": "llama", "llama.context_length": 131072},
    }
    loaded = {"name": "llama3.2:latest", "size": 2_000, "size_vram": 1_000, "digest": "a0", "context_length": 4096}
    pages = {
        "/v1/models": models("llama3.2:latest", owner="library"),
        "/api/version": http(200, {"version": "0.12.6"}),
        "/api/show": http(200, show),
        "/api/ps": http(200, {"models": [loaded]}),
    }
    with serving(pages) as server:
        facts = ServerFacts(Probe(server.url, {}), "llama3.2")
        pages["/api/ps"] = http(200, {"models": []})
        unloaded = ServerFacts(Probe(server.url, {}), "llama3.2")
    assert facts.plain() == {
        "engine": "Ollama",
        "engine_version": "0.12.6",
        "model_id": "llama3.2",
        "model_ids": ["llama3.2:latest"],
        "context_limit_tokens": 4096,
        "chat_template_sha256": hashlib.sha256(b"{{ .Prompt }}").hexdigest(),
        "quantization_dtype": "Q8_0",
        "model_family": "llama",
        "model_size": "1.2B",
        "model_context_tokens": 131072,
        "model_num_ctx_tokens": 8192,
        "model_digest": "a0",
    }
    assert facts.loaded is not None
    assert facts.loaded.residency == 0.5
    assert unloaded.loaded is None
    assert facts.plain().keys() - unloaded.plain().keys() == {"context_limit_tokens", "model_digest"}


def test_the_synthetic_engine_for_real() -> None:
    with running(model="small", slots=3) as (base_url, _):
        found = facts_of(base_url)
    assert (found["engine"], found["model_id"]) == ("llm-locust-simulator", "small")
    assert found["context_limit_tokens"] > 0
    assert found["kv_cache_size_tokens"] > 0
    assert found["prefix_caching"] in (True, False)
    assert found["cache_config_info"].keys() == {"0"}


def test_facts_are_values_that_the_record_takes() -> None:
    import msgspec

    with running() as (base_url, _):
        found = facts_of(base_url)
    shared = found.keys() & FIELD_TYPES.keys()
    assert {"engine", "engine_version", "model_id", "context_limit_tokens", "kv_cache_size_tokens"} <= shared
    for name in shared:
        assert msgspec.convert(found[name], FIELD_TYPES[name]) == found[name]
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", {"data": None, "models": {}}, {"data": [{"id": 7}, "x", {"meta": 5}], "version": {}}],
    ids=["empty", "page", "list", "null", "odd"],
)
def test_pages_of_another_form_leave_blanks(body: object) -> None:
    paths = ("/v1/models", "/version", "/props", "/api/version", "/api/show", "/api/ps", "/metrics")
    with serving(dict.fromkeys(paths, http(200, body))) as server:
        assert facts_of(server.url) == {}
    llama = dict.fromkeys(paths, http(200, body, Server="llama.cpp"))
    with serving(llama) as server:
        assert facts_of(server.url) == {"engine": "llama.cpp"}


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "many", None, [], {}, 2**63])
def test_counts_that_are_none_are_left_out(value: object) -> None:
    card = {"id": "m", "owned_by": "llamacpp", "max_model_len": value, "meta": {"n_params": value, "ftype": value}}
    props = {"default_generation_settings": {"n_ctx": value}, "total_slots": value, "chat_template": value}
    pages = {"/v1/models": http(200, {"data": [card]}), "/props": http(200, props)}
    with serving(pages) as server:
        found = facts_of(server.url)
    assert found.keys() - {"engine", "model_id", "model_ids"} <= {"quantization_dtype", "chat_template_sha256"}
    assert all(isinstance(text, str) for name, text in found.items() if name != "model_ids")


def test_a_server_that_is_gone_says_nothing() -> None:
    assert facts_of(f"http://127.0.0.1:{free_port()}") == {}


def test_all_pages_together_are_bounded_in_time() -> None:
    paths = ("/v1/models", "/version", "/props", "/api/version", "/metrics")
    with serving(dict.fromkeys(paths, never)) as server:
        assert facts_of(server.url, budget_s=0.2) == {}
    assert len(server.asked) <= len(paths)
