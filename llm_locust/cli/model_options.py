"""What ``llm-locust kv`` and ``llm-locust size`` both ask of a model: its shape, by options or by its ``config.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType, IntParamType
from rich.console import Console
from rich.text import Text

from llm_locust.sizing.kv_cache import DEFAULT_BLOCK_TOKENS
from llm_locust.sizing.kv_dtypes import KvDtype
from llm_locust.sizing.model_config import read_model_config
from llm_locust.sizing.preflight import LEAST, MOST, Model, model_of


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
    """Put file and options together; see :func:`~llm_locust.sizing.preflight.model_of`.

    Raises:
        UsageError: numbers are missing (every one is named with its option), or the file cannot be used.
    """
    file = None if config is None else read_model_config(config)
    return model_of(file, layers, kv_heads, head_dim, dtype, also, engine_dtype)


def print_lines(lines: Iterable[tuple[str, str]], console: Console, width: int = 13) -> None:
    """Print names and what belongs to them; what a file or a server wrote is neither obeyed nor read as markup."""
    for name, text in lines:
        # Wrapped by hand: what goes on stands under what it belongs to.
        for index, part in enumerate(Text(text).wrap(console, max(20, console.width - width - 1))):
            console.print(Text(f"{name if index == 0 else '':<{width}} {part.plain.rstrip()}"), soft_wrap=True)
