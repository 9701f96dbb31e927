"""``--gate``, as the commands take it that judge a run anew: repeatable, and several gates may follow one ``--gate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from llm_locust.records import UsageError
from llm_locust.records.gates import GateSpec, parse_gates


def gate_option(meaning: str, metavar: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, as ``gates``, and the arguments that may follow it, as ``more``; declare it below other arguments.

    Args:
        meaning: What the gates are for, as the help begins.
        metavar: What the arguments are called in the usage line, where they can be something else.
    """
    option = click.option(
        "--gate",
        "gates",
        multiple=True,
        metavar="GATE",
        help=f"{meaning}: ttft_p95<=1000, faq:attainment>=0.99, http_503=0, or a TOML file of them. Several may follow one "
        "--gate.",
    )
    return lambda function: option(click.argument("more", nargs=-1, metavar=metavar)(function))


def given_gates(gates: Sequence[str], more: Sequence[str]) -> list[GateSpec] | None:
    """The gates that were given; ``None`` when none were.

    Raises:
        UsageError: arguments that follow no ``--gate``, or what is no gate.
    """
    if more and not gates:
        raise UsageError(f"unexpected argument {more[0]!r}: gates follow --gate: write --gate before it")
    return parse_gates([*gates, *more]) if gates else None
