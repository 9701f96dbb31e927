"""Models whose KV cache is not layers x KV heads x head size x tokens, told by the key of ``config.json`` that says so.

Sliding windows, state-space and linear layers, latents, shared, crossed or uneven caches: each engine lays them out its own
way, so no formula is offered for them. Some keys stand in files of models that do not use them; those are read as meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec


class Uneven(msgspec.Struct, frozen=True, kw_only=True):
    """Why the formula does not hold."""

    kind: str
    """``sliding window``, ``Mamba``, ``MLA``, ..."""
    key: str
    """The key that told it."""
    reason: str
    """In a sentence, the key and its value included."""


_WHY = {
    "sliding window": "such layers keep only the last tokens of a request",
    "local attention": "such layers keep only a part of the tokens of a request",
    "linear attention": "such layers keep a state of fixed size instead of a cache that grows with tokens",
    "state space": "such layers keep a state of fixed size instead of a cache that grows with tokens",
    "hybrid": "layers of several kinds keep caches of different sizes",
    "MLA": "a compressed latent is cached instead of keys and values per head",
    "cross attention": "keys and values of another input are cached beside those of the tokens",
    "shared layers": "some layers use the cache of others",
    "uneven layers": "layers differ in KV heads or head size, or keys and values do",
    "no decoder": "it generates no tokens, so there is no cache between them",
}

_FULL = frozenset({"full_attention", "attention", "full", "global", "global_attention"})
"""Names of layers that keep every token."""

_LAYER_KINDS = {
    "sliding_attention": "sliding window",
    "chunked_attention": "local attention",
    "local_attention": "local attention",
    "linear_attention": "linear attention",
    "mamba": "state space",
    "mamba2": "state space",
}

_LAYER_LISTS = ("layer_types", "layers_block_type", "block_types")

_BY_KEY: tuple[tuple[str, str], ...] = (
    ("kv_lora_rank", "MLA"),
    ("compress_ratios", "MLA"),
    ("cross_attention_layers", "cross attention"),
    ("add_cross_attention", "cross attention"),
    ("num_kv_shared_layers", "shared layers"),
    ("use_cla", "shared layers"),
    ("block_configs", "uneven layers"),
    ("num_global_key_value_heads", "uneven layers"),
    ("global_head_dim", "uneven layers"),
    ("attention_k_eq_v", "uneven layers"),
    ("attention_chunk_size", "local attention"),
)
"""Keys that say it whatever the layers are called: any value but null, 0, false and an empty list."""

_BY_HYBRID_KEY: tuple[tuple[str, str], ...] = (
    ("attn_layer_period", "hybrid"),  # Jamba
    ("attn_layer_indices", "hybrid"),  # Bamba
    ("hybrid_override_pattern", "hybrid"),  # Nemotron-H
    ("hybrid_layer_pattern", "hybrid"),
    ("hybrid_layer_ids", "hybrid"),  # Zamba
    ("full_attention_interval", "linear attention"),  # Qwen3-Next
    ("linear_attn_config", "linear attention"),  # Kimi Linear
    ("linear_num_value_heads", "linear attention"),
    ("mamba_d_state", "state space"),
    ("mamba_d_ssm", "state space"),
    ("mamba_num_heads", "state space"),
    ("ssm_state_size", "state space"),
    ("ssm_cfg", "state space"),
    ("state_size", "state space"),  # Mamba
    ("attention_window_size", "local attention"),  # RecurrentGemma
    ("global_attn_every_n_layers", "local attention"),
    ("dense_attention_every_n_layers", "local attention"),
    ("interleaved_sliding_window", "sliding window"),
    ("sliding_window_pattern", "sliding window"),
    ("_sliding_window_pattern", "sliding window"),
)
"""Keys that say it unless a list of layers says that every one of them is full attention."""

_BY_FAMILY = {
    "mamba": "state space",
    "mamba2": "state space",
    "falcon_mamba": "state space",
    "rwkv": "state space",
    "xlstm": "state space",
    "jamba": "hybrid",
    "zamba": "hybrid",
    "zamba2": "hybrid",
    "bamba": "hybrid",
    "falcon_h1": "hybrid",
    "nemotron_h": "hybrid",
    "recurrent_gemma": "hybrid",
    "lfm2": "hybrid",
    "qwen3_next": "linear attention",
    "gemma2": "sliding window",
    "gemma3": "sliding window",
    "gemma3_text": "sliding window",
    "gemma3n": "sliding window",
    "gemma3n_text": "sliding window",
    "gemma4": "sliding window",
    "gemma4_text": "sliding window",
    "gpt_oss": "sliding window",
    "cohere2": "sliding window",
    "llama4_text": "local attention",
    "gpt_neo": "local attention",
    "deepseek_v2": "MLA",
    "deepseek_v3": "MLA",
    "mllama_text_model": "cross attention",
    "mllama": "cross attention",
}
"""Families that are so by default: their files may leave the keys out."""

_NO_DECODER = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")


def uneven_layers(
    config: Mapping[str, Any], text: Mapping[str, Any], *, layers: int | None, context: int | None
) -> Uneven | None:
    """Why the formula does not hold for this model; ``None`` when every layer keeps every token of its own.

    Args:
        config: The whole file.
        text: Its part that describes the layers that generate.
        layers: How many there are.
        context: The longest context that the model was made for, in tokens.
    """
    if config.get("is_encoder_decoder") is True:
        return _uneven("cross attention", "is_encoder_decoder", "true")
    checks: tuple[Callable[[], Uneven | None], ...] = (
        lambda: _by_keys(text, _BY_KEY),
        lambda: _value_heads(text),
        lambda: _no_decoder(config),
        lambda: _by_layers(text, layers, context),
    )
    return next((found for check in checks if (found := check()) is not None), None)


def _uneven(kind: str, key: str, value: str) -> Uneven:
    return Uneven(kind=kind, key=key, reason=f"{kind} ({key} = {value}): {_WHY[kind]}")


def _by_keys(text: Mapping[str, Any], keys: tuple[tuple[str, str], ...]) -> Uneven | None:
    for key, kind in keys:
        value = text.get(key)
        if not value or (key == "kv_lora_rank" and text.get("use_mla") is False):
            continue
        return _uneven(kind, key, _shown(value))
    return None


def _value_heads(text: Mapping[str, Any]) -> Uneven | None:
    """Lists of numbers by layer, and values of another size than keys."""
    for key in ("num_key_value_heads", "num_kv_heads", "head_dim"):
        if isinstance(text.get(key), list):
            return _uneven("uneven layers", key, "a list")
    keys, values = text.get("head_dim"), text.get("v_head_dim")
    if keys and values and keys != values:
        return _uneven("uneven layers", "v_head_dim", f"{_shown(values)} beside head_dim {_shown(keys)}")
    return None


def _no_decoder(config: Mapping[str, Any]) -> Uneven | None:
    names = config.get("architectures")
    told = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    if told and all(name.endswith(_NO_DECODER) for name in told):
        return _uneven("no decoder", "architectures", told[0])
    return None


def _by_layers(text: Mapping[str, Any], layers: int | None, context: int | None) -> Uneven | None:
    for key in _LAYER_LISTS:
        listed = text.get(key)
        if isinstance(listed, list) and listed:
            # A list of layers is the last word: windows and states that no layer uses are in many files.
            return _listed(key, [str(name) for name in listed])
    codes = text.get("attn_type_list")  # MiniMax: 1 is full attention, 0 is not
    if isinstance(codes, list) and any(code != 1 for code in codes):
        return _uneven("linear attention", "attn_type_list", f"0 for {sum(code != 1 for code in codes)} layers")
    kinds = text.get("attention_types")  # GPT-Neo: [[["global", "local"], 12]]
    if kinds and "local" in str(kinds):
        return _uneven("local attention", "attention_types", _shown(kinds))
    found = _by_keys(text, _BY_HYBRID_KEY) or _window(text, context)
    family = text.get("model_type")
    if found is None and isinstance(family, str) and family in _BY_FAMILY:
        found = _uneven(_BY_FAMILY[family], "model_type", family)
    return found


def _listed(key: str, names: list[str]) -> Uneven | None:
    others = [name for name in names if name not in _FULL]
    if not others:
        return None
    first = max(dict.fromkeys(others), key=others.count)
    told = f"{first} for {others.count(first)} of {len(names)} layers"
    kind = _LAYER_KINDS.get(first, "hybrid")
    return _uneven(kind, key, told)


def _window(text: Mapping[str, Any], context: int | None) -> Uneven | None:
    """A window that is set and used, and shorter than the longest context."""
    for key in ("sliding_window", "sliding_window_size"):
        window = text.get(key)
        if not window or text.get("use_sliding_window") is False:
            continue  # Qwen2 writes one down and does not use it
        if isinstance(window, int) and context is not None and window >= context:
            continue  # no token ever leaves it
        return _uneven("sliding window", key, _shown(window))
    return None


def _shown(value: object) -> str:
    if value is True:
        return "true"
    text = (
        str(value)
        if not isinstance(value, list | dict)
        else f"a list of {len(value)}"
        if isinstance(value, list)
        else "set"
    )
    return text[:40]
