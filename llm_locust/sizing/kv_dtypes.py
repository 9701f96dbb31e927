"""How many bytes an engine stores one value of its KV cache in: the names that engines use, and plain numbers."""

from __future__ import annotations

import difflib
import math

import msgspec

from llm_locust.records import UsageError


class KvDtype(msgspec.Struct, frozen=True, kw_only=True):
    """The type of the cached keys and values, which need not be that of the weights."""

    name: str
    bytes: float
    """Per value; exact, for every type here is a whole number of half bits."""


# llama.cpp's quantized types hold 32 values a block: 16-bit scale (and 16-bit minimum for _1), then the values.
_BYTES = {
    "float32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
_SHORT = {
    "fp32": "float32",
    "f32": "float32",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}

KV_DTYPES = tuple(_BYTES)
"""The names that are known."""

ASSUMED_KV_DTYPE = KvDtype(name="float16", bytes=2.0)
"""What a cache is taken to hold when neither option nor file says so: 16 bits are every engine's default."""


def kv_dtype(text: str) -> KvDtype:
    """``"fp8"``, ``"bf16"``, ``"q8_0"`` or a number of bytes.

    Raises:
        UsageError: neither.
    """
    name = text.strip().lower()
    name = _SHORT.get(name, name)
    if name in _BYTES:
        return KvDtype(name=name, bytes=_BYTES[name])
    try:
        size = float(name)
    except ValueError:
        size = math.nan
    if 1 / 8 <= size <= 8:  # from a bit on
        return KvDtype(name=f"{size:g} bytes", bytes=size)
    near = difflib.get_close_matches(name, [*_BYTES, *_SHORT], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"--kv-dtype {text!r}: {hint}Write {', '.join(KV_DTYPES)}, or the bytes of one value, such as 2 or 1"
    )


def known_kv_dtype(text: str | None) -> KvDtype | None:
    """The type that an engine or a file names; ``None`` for one that is not known here, ``auto`` among them."""
    name = (text or "").strip().lower().removeprefix("torch.")
    name = _SHORT.get(name, name)
    return KvDtype(name=name, bytes=_BYTES[name]) if name in _BYTES else None
