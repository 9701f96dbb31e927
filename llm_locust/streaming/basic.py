"""Basic credentials (RFC 7617): a user name and a password as one header says them, and back again."""

from __future__ import annotations

import base64


def encode_basic(credentials: str) -> str:
    """The header value for ``user:password``."""
    return "Basic " + base64.b64encode(credentials.encode()).decode("ascii")


def decode_basic(value: str) -> str | None:
    """``user:password`` of a header value; ``None`` when it is of another scheme, or not what it says."""
    scheme, _, token = value.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(token.strip(), validate=True).decode("utf-8", "replace")
    except ValueError:
        return None
