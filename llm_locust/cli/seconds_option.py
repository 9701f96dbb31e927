"""A length of time as a command takes it: in the words of Locust's options (90, 90s, 5m, 1.5h)."""

from __future__ import annotations

import click

from llm_locust.records.durations import parse_seconds


def a_length(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Callback of an option that holds seconds greater than 0.

    Raises:
        UsageError: another form; the option is named.
    """
    return None if text is None else parse_seconds(text, option.opts[0])


def a_place(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Callback of an option that holds a point in time, in seconds from the beginning: 0 is one too.

    Raises:
        UsageError: another form; the option is named.
    """
    return None if text is None else parse_seconds(text, option.opts[0], allow_zero=True)
