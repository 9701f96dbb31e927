"""How much a run is before it is run: its time, arrivals, evidence, tokens and cost."""

from llm_locust.sizing.preview import (
    GateAhead,
    PercentileAhead,
    Preview,
    RunCost,
    StagePreview,
    Tokens,
    Warned,
    preview,
)

__all__ = [
    "GateAhead",
    "PercentileAhead",
    "Preview",
    "RunCost",
    "StagePreview",
    "Tokens",
    "Warned",
    "preview",
]
