"""Error texts fit to be stored: one line, bounded, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from llm_locust.records.text import one_line
from llm_locust.streaming.basic import decode_basic

MAX_ERROR_CHARS = 300
MASK = "***"

_SECRET_HEADER = re.compile(r"authorization|api-?key|token|secret|cookie|password", re.IGNORECASE)
_SECRET_SHAPES = (
    # Whole values first, so that no half of one is left for the next shape to miss.
    # A word of letters alone is prose ("bearer authentication"), not a token.
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=[a-z]*[\d._~+/=-])[^\s\"',;]+"), rf"\1 {MASK}"),
    (re.compile(r"\b(?:sk|pk|hf|gsk|nvapi|xai)[-_][A-Za-z0-9*_-]{6,}"), MASK),
    (re.compile(r"(?i)(api[-_ ]?key[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&]+"), rf"\1{MASK}"),
    (re.compile(r"://[^\s/@]+@"), f"://{MASK}@"),
)
_SHORTEST_SECRET = 4
"""Anything shorter guards nothing, and masking it would shred the text."""


def names_a_secret(header: str) -> bool:
    """Whether a header of this name usually carries a secret."""
    return _SECRET_HEADER.search(header) is not None


def looks_like_a_secret(value: str) -> bool:
    """Whether a text has the shape of a key or token."""
    return mask(value) != value


def secrets_in(headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The secrets that request headers carry: whole values of headers named like one, and what follows a scheme word.

    Of ``Basic`` credentials also what they say when decoded: a server knows them so, and may repeat them so.
    """
    secrets: set[str] = set()
    for name, value in headers:
        if names_a_secret(name):
            whole = value.strip()
            secrets.update((whole, whole.partition(" ")[2].strip()))
            if (credentials := decode_basic(whole)) is not None:
                secrets.update((credentials, credentials.partition(":")[2]))
    return tuple(sorted((s for s in secrets if len(s) >= _SHORTEST_SECRET), key=len, reverse=True))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with the given secrets, and whatever has the shape of one, replaced by ``***``."""
    for secret in secrets:
        text = text.replace(secret, MASK).replace(quote(secret, safe=""), MASK)
    for shape, replacement in _SECRET_SHAPES:
        text = shape.sub(replacement, text)
    return text


def safe_line(text: str, secrets: Iterable[str] = (), limit: int = MAX_ERROR_CHARS) -> str:
    """Masked first and cut second, so that a cut cannot leave half of a secret behind."""
    return one_line(mask(text, secrets), limit)
