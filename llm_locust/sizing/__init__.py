"""How much a run is before it is run: its time, arrivals, evidence, tokens and cost."""

from llm_locust.sizing.contracts import (
    GateAhead,
    PercentileAhead,
    Preview,
    RunCost,
    StagePreview,
    Tokens,
    Warned,
)
from llm_locust.sizing.dry_run import preview
from llm_locust.sizing.evidence import requests_to_tell
from llm_locust.sizing.tokens import CHARACTERS_PER_TOKEN

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "GateAhead",
    "PercentileAhead",
    "Preview",
    "RunCost",
    "StagePreview",
    "Tokens",
    "Warned",
    "preview",
    "requests_to_tell",
]
