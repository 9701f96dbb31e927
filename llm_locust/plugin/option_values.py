"""Values of options from the text that a person, a config file, the environment or the web UI's form gave.

Every reader raises :class:`~llm_locust.records.UsageError` that names the option and says what is allowed.
"""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import msgspec

from llm_locust.plugin.option_table import DEFAULTS, OPTIONS
from llm_locust.records import UsageError
from llm_locust.records.durations import parse_seconds


def given_options(namespace: Namespace) -> dict[str, Any]:
    """The options of this project as the person gave them, for the manifest."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        if option.repeated:
            value: Any = listed(namespace, option.name) or None
        elif option.metavar is None:
            value = flag_set(namespace, option.name) or None
        else:
            value = given(namespace, option.name)
        if value is not None:
            found[option.name] = value
    return found


def given(namespace: Namespace, name: str) -> str | None:
    """The text of an option; ``None`` where there is none."""
    value = getattr(namespace, name, None)
    return None if value is None or str(value).strip() == "" else str(value).strip()


def flag_set(namespace: Namespace, name: str) -> bool:
    """Whether a bare flag was given."""
    return getattr(namespace, name, False) is True


def listed(namespace: Namespace, name: str) -> list[str]:
    """The values of an option that may be repeated."""
    value = getattr(namespace, name, None) or []
    return value.splitlines() if isinstance(value, str) else [str(item) for item in value if str(item).strip()]


def number(namespace: Namespace, name: str, what: str) -> float | None:
    """A number greater than 0, which is ``what`` in words."""
    text = given(namespace, name) or DEFAULTS[name]
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{flag_of(name)} {text!r}: must be {what}, a number greater than 0")
    return value


def json_object(namespace: Namespace, name: str) -> dict[str, Any]:
    """A JSON object; empty where none was given."""
    text = given(namespace, name)
    if text is None:
        return {}
    try:
        found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{flag_of(name)}: not a JSON object ({error}); write for example '{{\"temperature\": 0}}'"
        ) from None
    return found


def flag_of(name: str) -> str:
    """The flag of an option by its name."""
    return "--" + name.replace("_", "-")


def required(value: Any) -> Any:
    """The value of an option that has a default."""
    assert value is not None  # these options have defaults; an emptied form field is reported by the readers below
    return value


def rates(text: str | None) -> list[float]:
    """Requests per second, comma-separated."""
    found: list[float] = []
    for item in _items("rates", text):
        try:
            rate = float(item)
        except ValueError:
            raise UsageError(f"--rates {item!r}: write requests per second, comma-separated, e.g. 0.5,1,2") from None
        if math.isinf(rate):
            raise UsageError(
                "--rates inf: an unlimited rate is no arrival process. For as much as the server takes with N requests "
                "in flight, use shapes/concurrency_ladder.py with --concurrency N"
            )
        if not rate > 0:
            raise UsageError(f"--rates {item}: a rate must be greater than 0")
        found.append(rate)
    return found


def concurrencies(text: str | None) -> list[int]:
    """Requests in flight, comma-separated."""
    found: list[int] = []
    for item in _items("concurrency", text):
        if not item.isdigit() or int(item) < 1:
            raise UsageError(
                f"--concurrency {item!r}: write whole numbers of at least 1, comma-separated, e.g. 1,2,4,8"
            )
        found.append(int(item))
    return found


def _items(name: str, text: str | None) -> list[str]:
    if text is None or not text.strip():
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(
            f"{flag_of(name)} {text}: nothing between two commas, or before or after one; leave that comma out"
        )
    return parts


def seconds(namespace: Namespace, name: str, *, allow_zero: bool = False) -> float | None:
    """Seconds; or minutes or hours with ``m`` or ``h``."""
    text = given(namespace, name) or DEFAULTS[name]
    return None if text is None else parse_seconds(text, flag_of(name), allow_zero=allow_zero)


def whole(namespace: Namespace, name: str, *, at_least: int) -> int | None:
    """A whole number."""
    text = given(namespace, name) or DEFAULTS[name]
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{flag_of(name)} {text!r}: must be a whole number") from None
    if value < at_least:
        raise UsageError(f"{flag_of(name)} {value}: must be at least {at_least}")
    return value
