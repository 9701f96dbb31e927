"""What of a Hugging Face ``config.json`` sets the size of the KV cache: layers, KV heads, head size and the cache's type.

The formula holds for layers that all keep every token of their own. A file that says otherwise (windows, state-space layers,
a latent, shared or crossed caches) is told apart in :mod:`llm_locust.sizing.uneven_layers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from llm_locust.records import UsageError
from llm_locust.sizing.kv_dtypes import KvDtype, known_kv_dtype
from llm_locust.sizing.uneven_layers import Uneven, uneven_layers


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says; ``None`` where it does not say it."""

    source: str
    """Where it was read."""
    model_type: str | None = None
    layers: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    kv_dtype: KvDtype | None = None
    kv_dtype_unknown: str | None = None
    """Why the file does not settle it."""
    context_tokens: int | None = None
    """The longest context that the model was made for."""
    uneven: Uneven | None = None
    """Why the formula does not hold; ``None`` when it does."""
    notes: list[str] = []
    """How a figure was come by where no key holds it."""

    @property
    def attention(self) -> str | None:
        """``MHA``, ``GQA`` or ``MQA``; ``None`` when one of the numbers of heads is not known."""
        if self.attention_heads is None or self.kv_heads is None:
            return None
        if self.kv_heads == self.attention_heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"


_LANGUAGE = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where files of multimodal models keep the part that generates; it may lie deeper still."""

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",  # Falcon
    "n_head_kv",
    "multi_query_group_num",  # ChatGLM
    "num_attention_groups",  # Step
)
_HEAD_DIM = ("head_dim", "kv_channels", "hidden_size_per_head")
_WIDTH = ("hidden_size", "n_embd", "d_model")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")

_OWN_HEAD_DIM = ("gemma", "qwen3")
"""Families whose default head is not hidden size / heads: without the key nothing can be concluded."""


def read_model_config(path: Path) -> ModelShape:
    """Read ``config.json``, or the one in the folder of a model.

    Raises:
        UsageError: there is none, it is not a JSON object, or a number in it is none.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        config = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise UsageError(f"--config {file}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"--config {file}: cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {file}: not a JSON object: {error}") from None
    return model_shape(config, str(file))


def model_shape(config: Mapping[str, Any], source: str = "config.json") -> ModelShape:
    """The shape in a decoded ``config.json``.

    Args:
        config: The object.
        source: Its name, for messages.

    Raises:
        UsageError: a count that is not a whole number above 0.
    """
    text, place = _language_part(config)
    fields = _Fields(text, source, place)
    kind = text.get("model_type")
    model_type = kind if isinstance(kind, str) else None
    notes = [f"the language part is under {place}"] if place else []
    layers, heads = fields.count(_LAYERS), fields.count(_HEADS)
    uneven = uneven_layers(config, text, layers=layers, context=fields.count(_CONTEXT))
    # Of such a model the single figures mean other things, or differ by layer: they are not read.
    kv_heads = _kv_heads(fields, model_type, heads, notes) if uneven is None else None
    head_dim = _head_dim(fields, model_type, heads, notes) if uneven is None else None
    dtype, unknown = _dtype(config, text)
    return ModelShape(
        source=source,
        model_type=model_type,
        layers=layers,
        attention_heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        kv_dtype=dtype,
        kv_dtype_unknown=unknown,
        context_tokens=fields.count(_CONTEXT),
        uneven=uneven,
        notes=notes,
    )


class _Fields:
    """Counts of one object, under whichever of their names it has."""

    def __init__(self, of: Mapping[str, Any], source: str, place: str) -> None:
        self.of = of
        self.nested = bool(place)
        self._where = f"{source}: {place}." if place else f"{source}: "

    def count(self, names: Sequence[str]) -> int | None:
        for name in names:
            value = self.of.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{self._where}{name} is {value!r}, and should be a whole number above 0")
            return value
        return None


def _language_part(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The object that describes the layers that generate, and its path (empty for the file itself)."""
    part, path = config, []
    while (inner := next((name for name in _LANGUAGE if isinstance(part.get(name), dict)), None)) is not None:
        part = part[inner]
        path.append(inner)
    return part, ".".join(path)


def _kv_heads(fields: _Fields, model_type: str | None, heads: int | None, notes: list[str]) -> int | None:
    of = fields.of
    grouped = of.get("new_decoder_architecture") is True or of.get("multi_query_attention") is True
    if of.get("multi_query") is True and not grouped:
        notes.append("one KV head: multi_query is true")
        return 1
    if of.get("multi_query") is False and not grouped:
        return heads
    attention = of.get("attn_config")  # MPT, DBRX
    if isinstance(attention, dict) and isinstance(attention.get("kv_n_heads"), int):
        return _Fields(attention, "attn_config", "").count(("kv_n_heads",))
    found = fields.count(_KV_HEADS)
    if found is not None or heads is None:
        return found
    if fields.nested and "num_key_value_heads" not in of and model_type != "llama":
        return None  # a nested object leaves out what is its family's default, and that is not always one per head
    notes.append(f"no number of KV heads in it: one for each of the {heads} attention heads")
    return heads


def _head_dim(fields: _Fields, model_type: str | None, heads: int | None, notes: list[str]) -> int | None:
    found = fields.count(_HEAD_DIM)
    if found is not None:
        return found
    width = fields.count(_WIDTH)
    own = (model_type or "").startswith(_OWN_HEAD_DIM)
    if width is None or heads is None or width % heads or own:
        return None
    notes.append(f"no head size in it: hidden size {width} / {heads} heads = {width // heads}")
    return width // heads


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[KvDtype | None, str | None]:
    """The type that the cache has when nobody sets one: that of the activations, however small the weights are."""
    for level in (config, text):
        quantization = level.get("quantization_config")
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            if isinstance(quantization, dict) and quantization.get(key):
                return None, f"quantization_config.{key} asks for a quantized cache, which not every engine then uses"
    for level in (text, config):
        for key in ("dtype", "torch_dtype"):
            said = level.get(key)
            if not isinstance(said, str):
                continue
            found = known_kv_dtype(said)
            if found is not None and found.bytes == 2:
                return found, None
            return None, f"{key} is {said}, which the weights have and the cache need not"
    return None, "it names no dtype"
