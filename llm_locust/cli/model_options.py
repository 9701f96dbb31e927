"""What ``llm-locust kv`` and ``llm-locust size`` both ask of a model: its shape, by options or by its ``config.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from click.types import FloatParamType, IntParamType
from rich.console import Console
from rich.text import Text

from llm_locust.records import UsageError
from llm_locust.sizing.kv_cache import DEFAULT_BLOCK_TOKENS, KvShape
from llm_locust.sizing.kv_dtypes import ASSUMED_KV_DTYPE, KvDtype, kv_dtype
from llm_locust.sizing.model_config import ModelShape, read_model_config
from llm_locust.sizing.uneven_layers import Uneven

LEAST, MOST = 1e-9, 10**9
"""No size or speed of a replica lies outside: such a number is a slip, and what is made of it would not fit a record."""


class Count(IntParamType):
    """A whole number above 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number.

        Raises:
            click.BadParameter: it is none, or out of range.
        """
        found = int(super().convert(value, param, ctx))
        if not 1 <= found <= MOST:
            self.fail(f"{value!r} is not a whole number from 1 to {MOST:,}", param, ctx)
        return found


class Amount(FloatParamType):
    """A finite number, above 0 or from 0 on."""

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number.

        Raises:
            click.BadParameter: it is none, or out of range.
        """
        found = float(super().convert(value, param, ctx))
        if not (LEAST <= found <= MOST or (self._zero and found == 0)):
            self.fail(f"{value!r} is not a number {'from' if self._zero else 'above'} 0 up to {MOST:,}", param, ctx)
        return found


COUNT = Count()


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as far as its KV cache goes."""

    shape: KvShape | None
    """``None`` when the formula does not hold."""
    uneven: Uneven | None
    model_type: str | None
    attention: str | None
    context_tokens: int | None
    """The longest that it was made for, where a file says so."""
    sources: dict[str, str]
    """Where each figure is from."""
    notes: list[str]


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command; they arrive under the names of :func:`read_model`."""
    for option in reversed(
        (
            click.option(
                "--config",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="The model's config.json as Hugging Face has it, or the model's folder. Options win over it.",
            ),
            click.option("--layers", type=COUNT, metavar="N", help="Layers."),
            click.option("--kv-heads", type=COUNT, metavar="N", help="KV heads of a layer (1: MQA)."),
            click.option("--head-dim", type=COUNT, metavar="N", help="Size of one head."),
            click.option(
                "--kv-dtype",
                metavar="TYPE",
                help="What the cache holds, apart from the weights: bf16, fp8, q8_0, ... or the bytes of one value.  "
                "[default: the config's 16-bit type, or float16]",
            ),
            click.option(
                "--tp", type=COUNT, default=1, show_default=True, metavar="N", help="GPUs of tensor parallelism."
            ),
            click.option(
                "--block-size",
                type=COUNT,
                metavar="TOKENS",
                help=f"Tokens of a block of cache.  [default: a running engine's, or {DEFAULT_BLOCK_TOKENS}]",
            ),
        )
    ):
        command = option(command)
    return command


def read_model(
    config: Path | None,
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    dtype: str | None,
    also: Mapping[str, object] | None = None,
    engine_dtype: KvDtype | None = None,
) -> Model:
    """Put file and options together.

    Args:
        config: ``--config``.
        layers: ``--layers``.
        kv_heads: ``--kv-heads``.
        head_dim: ``--head-dim``.
        dtype: ``--kv-dtype``.
        also: Further options that must be given, by their names; those that are ``None`` are reported with the rest.
        engine_dtype: What a running engine says that its cache holds.

    Raises:
        UsageError: numbers are missing (every one is named with its option), or the file cannot be used.
    """
    missing = [name for name, value in (also or {}).items() if value is None]
    chosen = None if dtype is None else kv_dtype(dtype)
    file = read_model_config(config) if config is not None else None
    if file is not None and file.uneven is not None:
        _require(missing)
        return Model(
            shape=None,
            uneven=file.uneven,
            model_type=file.model_type,
            attention=None,
            context_tokens=file.context_tokens,
            sources={},
            notes=file.notes,
        )
    sources: dict[str, str] = {}
    counts: dict[str, int] = {}
    for option, given, said in (
        ("--layers", layers, file.layers if file else None),
        ("--kv-heads", kv_heads, file.kv_heads if file else None),
        ("--head-dim", head_dim, file.head_dim if file else None),
    ):
        value = given if given is not None else said
        if value is None:
            missing.append(option)
            continue
        counts[option] = value
        sources[option] = option if given is not None else "--config"
    notes = [] if file is None else list(file.notes)
    if chosen is not None:
        sources["--kv-dtype"] = "--kv-dtype"
    elif engine_dtype is not None:
        chosen, sources["--kv-dtype"] = engine_dtype, "the engine"
    elif file is None:
        chosen, sources["--kv-dtype"] = ASSUMED_KV_DTYPE, "assumed; else give --kv-dtype"
    elif file.kv_dtype is not None:
        chosen, sources["--kv-dtype"] = file.kv_dtype, "--config"
    else:
        missing.append(f"--kv-dtype ({file.source}: {file.kv_dtype_unknown})")
    _require(missing, file)
    assert chosen is not None
    return Model(
        shape=KvShape(
            layers=counts["--layers"], kv_heads=counts["--kv-heads"], head_dim=counts["--head-dim"], dtype=chosen
        ),
        uneven=None,
        model_type=file.model_type if file else None,
        attention=file.attention if file and kv_heads is None else None,
        context_tokens=file.context_tokens if file else None,
        sources=sources,
        notes=notes,
    )


def _require(missing: list[str], file: ModelShape | None = None) -> None:
    if not missing:
        return
    of_model = {"--layers", "--kv-heads", "--head-dim"} & set(missing)
    hint = ""
    if of_model:
        hint = "; a model's config.json has its shape: --config" if file is None else f"; {file.source} does not say it"
    raise UsageError(
        f"{'a number is' if len(missing) == 1 else 'numbers are'} missing: give {', '.join(missing)}{hint}"
    )


def print_lines(lines: Iterable[tuple[str, str]], console: Console, width: int = 13) -> None:
    """Print names and what belongs to them; what a file or a server wrote is neither obeyed nor read as markup."""
    for name, text in lines:
        # Wrapped by hand: what goes on stands under what it belongs to.
        for index, part in enumerate(Text(text).wrap(console, max(20, console.width - width - 1))):
            console.print(Text(f"{name if index == 0 else '':<{width}} {part.plain.rstrip()}"), soft_wrap=True)
