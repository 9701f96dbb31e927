"""What a run costs whoever pays for it."""

from __future__ import annotations

import msgspec


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """What the user pays, in any one currency; ``None`` for what has no price."""

    per_hour: float | None = None
    """The machine, or machines, under test."""
    input_per_million: float | None = None
    """A million input tokens."""
    output_per_million: float | None = None
    """A million output tokens."""
