"""``config.json`` of model families: the keys as the real files have them, the figures that follow, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.records import UsageError
from llm_locust.sizing.model_config import ModelShape, model_shape, read_model_config

LLAMA_3_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "max_position_embeddings": 8192, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN3_06B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "head_dim": 128, "hidden_size": 1024, "max_position_embeddings": 40960,
    "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 8, "sliding_window": None, "torch_dtype": "bfloat16", "use_sliding_window": False,
}  # fmt: skip
QWEN2_7B: dict[str, Any] = {
    "hidden_size": 3584, "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2",
    "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072,
    "torch_dtype": "bfloat16", "use_sliding_window": False,
}  # fmt: skip
MIXTRAL: dict[str, Any] = {
    "hidden_size": 4096, "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32,
    "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "sliding_window": None, "torch_dtype": "bfloat16",
}  # fmt: skip


def figures(config: dict[str, Any]) -> tuple[int | None, int | None, int | None, str | None]:
    found = model_shape(config)
    assert found.uneven is None, found.uneven
    return found.layers, found.kv_heads, found.head_dim, found.attention


EVEN: dict[str, tuple[dict[str, Any], tuple[int, int, int, str]]] = {
    "Llama 3 8B: grouped, head size by division": (LLAMA_3_8B, (32, 8, 128, "GQA")),
    "Llama 2 7B: no number of KV heads": (
        {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32},
        (32, 32, 128, "MHA"),
    ),
    "Qwen3 0.6B: head size said, and not 1024 / 16": (QWEN3_06B, (28, 8, 128, "GQA")),
    "Qwen3, newer file with a list of layers": (
        {**QWEN3_06B, "layer_types": ["full_attention"] * 28}, (28, 8, 128, "GQA"),
    ),
    "Qwen2 7B: a window that is not used": (QWEN2_7B, (28, 4, 128, "GQA")),
    "Mixtral: experts change nothing": (MIXTRAL, (32, 8, 128, "GQA")),
    "Phi-4-mini: a window longer than the context": (
        {
            "model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 24, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 262144,
        },
        (32, 8, 128, "GQA"),
    ),
    "Phi-2: null KV heads": (
        {
            "model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": None,
        },
        (32, 32, 80, "MHA"),
    ),
    "Gemma 2B: one KV head": (
        {
            "model_type": "gemma", "hidden_size": 2048, "head_dim": 256, "num_attention_heads": 8,
            "num_hidden_layers": 18, "num_key_value_heads": 1,
        },
        (18, 1, 256, "MQA"),
    ),
    "GPT-2: other names": ({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12}, (12, 12, 64, "MHA")),
    "StarCoder: multi_query": (
        {"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_layer": 40, "multi_query": True},
        (40, 1, 128, "MQA"),
    ),
    "Falcon 7B: multi_query beside the old architecture": (
        {
            "model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32,
            "multi_query": True, "new_decoder_architecture": False, "num_kv_heads": 71,
        },
        (32, 1, 64, "MQA"),
    ),
    "Falcon 40B: the new architecture has groups": (
        {
            "model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60,
            "multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 8,
        },
        (60, 8, 64, "GQA"),
    ),
    "ChatGLM: groups and channels": (
        {
            "model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32, "num_layers": 28,
            "multi_query_attention": True, "multi_query_group_num": 2, "kv_channels": 128,
        },
        (28, 2, 128, "GQA"),
    ),
    "DBRX: KV heads in a part": (
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "attn_config": {"kv_n_heads": 8}},
        (40, 8, 128, "GQA"),
    ),
    "Granite 4 without Mamba layers, though its file has their keys": (
        {
            "model_type": "granitemoehybrid", "hidden_size": 2560, "num_attention_heads": 40, "num_hidden_layers": 40,
            "num_key_value_heads": 8, "mamba_d_state": 256, "layer_types": ["attention"] * 40,
        },
        (40, 8, 64, "GQA"),
    ),
    "MiniMax M2: every layer of type 1": (
        {
            "model_type": "minimax_m2", "head_dim": 128, "hidden_size": 3072, "num_attention_heads": 48,
            "num_hidden_layers": 62, "num_key_value_heads": 8, "attn_type_list": [1] * 62,
        },
        (62, 8, 128, "GQA"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EVEN)
def test_models_of_which_every_layer_keeps_every_token(case: str) -> None:
    config, expected = EVEN[case]
    assert figures(config) == expected


UNEVEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "Mistral 7B v0.1": (
        {**MIXTRAL, "model_type": "mistral", "sliding_window": 4096}, "sliding_window", "sliding window",
    ),
    "Phi-3 mini 4k": (
        {"model_type": "phi3", "max_position_embeddings": 4096, "sliding_window": 2047},
        "sliding_window", "sliding window",
    ),
    "Qwen2 with its window in use": ({**QWEN2_7B, "use_sliding_window": True, "sliding_window": 4096},
                                     "sliding_window", "sliding window"),
    "Gemma 2": ({"model_type": "gemma2", "sliding_window": 4096, "max_position_embeddings": 8192},
                "sliding_window", "sliding window"),
    "Gemma 2 without the key": ({"model_type": "gemma2"}, "model_type", "sliding window"),
    "Gemma 3, nested": (
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "sliding_window": 1024,
                                                 "num_hidden_layers": 34, "hidden_size": 2560}},
        "sliding_window", "sliding window",
    ),
    "GPT-OSS": (
        {"model_type": "gpt_oss", "head_dim": 64, "num_hidden_layers": 24, "sliding_window": 128,
         "layer_types": ["sliding_attention", "full_attention"] * 12},
        "layer_types", "sliding window",
    ),
    "EXAONE 4": ({"model_type": "exaone4", "sliding_window_pattern": "LLLG"},
                 "sliding_window_pattern", "sliding window"),
    "Llama 4": ({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "attention_chunk_size": 8192}},
                "attention_chunk_size", "local attention"),
    "GPT-Neo": ({"model_type": "gpt_neo", "attention_types": [[["global", "local"], 12]]},
                "attention_types", "local attention"),
    "RecurrentGemma": ({"model_type": "recurrent_gemma", "block_types": ["recurrent", "recurrent", "attention"]},
                       "block_types", "hybrid"),
    "Mamba": ({"model_type": "mamba", "state_size": 16, "num_hidden_layers": 64}, "state_size", "state space"),
    "Mamba of the first authors": ({"d_model": 2560, "n_layer": 64, "ssm_cfg": {"layer": "Mamba2"}},
                                   "ssm_cfg", "state space"),
    "Jamba": (
        {"model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096},
        "attn_layer_period", "hybrid",
    ),
    "Nemotron-H": ({"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*"}, "hybrid_override_pattern", "hybrid"),
    "Granite 4 hybrid": ({"model_type": "granitemoehybrid", "layer_types": ["mamba"] * 9 + ["attention"]},
                         "layer_types", "state space"),
    "Qwen3-Next": (
        {"model_type": "qwen3_next", "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
        "layer_types", "linear attention",
    ),
    "MiniMax 01": ({"model_type": "minimax", "attn_type_list": [0] * 7 + [1]}, "attn_type_list", "linear attention"),
    "DeepSeek V3": (
        {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_attention_heads": 128,
         "num_key_value_heads": 128, "num_hidden_layers": 61, "hidden_size": 7168, "v_head_dim": 128},
        "kv_lora_rank", "MLA",
    ),
    "Llama 3.2 Vision": (
        {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model", "num_hidden_layers": 40,
                                                 "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}},
        "cross_attention_layers", "cross attention",
    ),
    "T5": ({"model_type": "t5", "is_encoder_decoder": True, "num_layers": 12}, "is_encoder_decoder", "cross attention"),
    "Gemma 3n": ({"model_type": "gemma3n", "text_config": {"num_kv_shared_layers": 15}},
                 "num_kv_shared_layers", "shared layers"),
    "Nemotron NAS": ({"model_type": "nemotron-nas", "block_configs": [{}, {}]}, "block_configs", "uneven layers"),
    "OpenELM": ({"model_type": "openelm", "num_kv_heads": [3, 3, 4]}, "num_kv_heads", "uneven layers"),
    "values of another size": ({"model_type": "mimo", "head_dim": 192, "v_head_dim": 128}, "v_head_dim", "uneven layers"),
    "BERT": ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "architectures", "no decoder"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNEVEN)
def test_other_models_are_unavailable_and_the_key_that_told_it_is_named(case: str) -> None:
    config, key, kind = UNEVEN[case]
    found = model_shape(config)
    assert found.uneven is not None
    assert (found.uneven.key, found.uneven.kind) == (key, kind)
    assert f"{key} = " in found.uneven.reason
    assert found.kv_heads is None


def test_the_reason_counts_the_layers() -> None:
    found = model_shape(UNEVEN["GPT-OSS"][0]).uneven
    assert found is not None
    assert found.reason == (
        "sliding window (layer_types = sliding_attention for 12 of 24 layers): "
        "such layers keep only the last tokens of a request"
    )


def test_a_latent_that_is_switched_off_is_none() -> None:
    config = {**LLAMA_3_8B, "model_type": "deepseek_v2_small", "kv_lora_rank": 512, "use_mla": False}
    assert figures(config) == (32, 8, 128, "GQA")


def test_the_language_part_of_a_multimodal_model_is_read_not_its_vision_part() -> None:
    vision = {"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16}
    for place in ("text_config", "llm_config", "language_config"):
        found = model_shape({"model_type": "some_vl", "vision_config": vision, place: LLAMA_3_8B})
        assert (found.layers, found.kv_heads, found.head_dim) == (32, 8, 128)
        assert f"the language part is under {place}" in found.notes
    deep = model_shape({"thinker_config": {"audio_config": vision, "text_config": LLAMA_3_8B}})
    assert (deep.layers, deep.notes[0]) == (32, "the language part is under thinker_config.text_config")


def test_what_a_nested_part_leaves_out_is_its_familys_default_and_not_guessed() -> None:
    short = {"model_type": "mistral", "num_hidden_layers": 40, "num_attention_heads": 32, "hidden_size": 5120}
    assert model_shape({"text_config": short}).kv_heads is None  # of Mistral it is 8
    assert (
        model_shape({"text_config": {"model_type": "qwen3", "num_attention_heads": 32, "hidden_size": 2560}}).head_dim
        is None
    )
    llava = model_shape({"text_config": {"model_type": "llama", "vocab_size": 32064}})
    assert (llava.layers, llava.kv_heads, llava.head_dim) == (None, None, None)


def dtype(config: dict[str, Any]) -> tuple[str | None, str | None]:
    found: ModelShape = model_shape(config)
    return (found.kv_dtype.name if found.kv_dtype else None), found.kv_dtype_unknown


def test_the_cache_has_the_type_of_the_activations_not_of_quantized_weights() -> None:
    assert dtype({**LLAMA_3_8B, "quantization_config": {"quant_method": "awq", "bits": 4}}) == ("bfloat16", None)
    assert dtype({"dtype": "float16"}) == ("float16", None)
    assert dtype({"torch_dtype": "bfloat16", "text_config": {"model_type": "llama"}}) == ("bfloat16", None)
    assert dtype({"text_config": {"torch_dtype": "float16"}}) == ("float16", None)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "it names no dtype"),
        ({"torch_dtype": "float32"}, "torch_dtype is float32"),
        ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype is float8_e4m3fn"),
        (
            {**LLAMA_3_8B, "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}},
            "kv_cache_scheme",
        ),
        ({**LLAMA_3_8B, "quantization_config": {"kv_cache_quant_algo": "FP8"}}, "kv_cache_quant_algo"),
    ],
)
def test_where_the_file_does_not_settle_the_type_it_is_not_guessed(config: dict[str, Any], why: str) -> None:
    found, unknown = dtype(config)
    assert found is None
    assert unknown is not None
    assert why in unknown


@pytest.mark.parametrize("value", [0, -1, "32", 32.0, True, [32]])
def test_a_count_that_is_none_is_named_with_its_place(value: object) -> None:
    with pytest.raises(UsageError, match=r"text_config\.num_hidden_layers is "):
        model_shape({"text_config": {"num_hidden_layers": value}})


def test_a_file_or_a_folder_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(msgspec.json.encode(LLAMA_3_8B))
    assert read_model_config(file) == read_model_config(tmp_path)
    file.write_text("[1]")
    with pytest.raises(UsageError, match="not a JSON object"):
        read_model_config(file)
    with pytest.raises(UsageError, match="there is no such file"):
        read_model_config(tmp_path / "other.json")
