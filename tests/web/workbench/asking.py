"""Ask what the page asks, without a process or a browser between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llm_locust.web.workbench.desk import answer

COMMA = "has a comma: write a decimal point (1.5), and thousands without a separator (1500)"


def unit(typed: str, bare: str) -> str:
    return f"{typed!r} has a unit: write the bare number {bare}; the unit stands beside the field"


def told(question: str, *, folder: Path | None = None, **fields: Any) -> dict[str, Any]:
    status, body = answer(question, folder, json.dumps(fields).encode())
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def refused(question: str, *, folder: Path | None = None, **fields: Any) -> dict[str, str]:
    status, body = answer(question, folder, json.dumps(fields).encode())
    assert status == 400, body
    found: dict[str, str] = json.loads(body)
    return found
