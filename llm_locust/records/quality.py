"""How replies are checked for quality: the check that ``--quality`` names, as every process of a run needs to know it."""

from __future__ import annotations

from typing import Any

import msgspec

PASS, FAIL, ERROR = "pass", "fail", "error"
"""What the ``quality`` column of a row holds; it is empty when the reply was not checked. ``error``: the check itself
raised, or did not end in time, so that nothing is known of the reply."""

QUALITY = "quality"
"""The limit (``--slo``) by which a request whose reply did not pass its check is not good. It has no number: its value among
latency limits in milliseconds is :data:`QUALITY_LIMIT`."""

QUALITY_LIMIT = 1.0


class QualitySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One of the shipped checks, with what it needs."""

    check: str
    """Its registered name."""
    argument: str | None = None
    """What stood after the colon: a pattern, a path."""
    content: Any = None
    """What the file named by the argument holds, read where the run was started."""
    sha256: str | None = None
    """Of that file's bytes."""

    def __str__(self) -> str:
        digest = f" (SHA-256 {self.sha256[:12]})" if self.sha256 is not None else ""
        return self.check + (f":{self.argument}" if self.argument is not None else "") + digest
