"""The files that can be read, by the name of their tool. A further one is a file like those and a line here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from llm_locust.analysis.imported import aiperf, guidellm, vllm
from llm_locust.analysis.imported.base import Document, Format, ImportedRequest, ImportedRun, Printed
from llm_locust.records import Outcome, UsageError

FORMATS: Mapping[str, Format] = MappingProxyType(
    {found.name: found for found in (vllm.FORMAT, aiperf.FORMAT, guidellm.FORMAT)}
)

ROUNDED_MS = 0.01
ROUNDED_SHARE = 1e-3
"""How far a printed figure may be from what its rows give: tools round, and clocks hold floats."""


def read_result(path: Path, raw: bytes, format_name: str | None = None) -> ImportedRun:
    """The run in the bytes of a file.

    Args:
        path: Its name, for messages, and for what stands beside it.
        raw: The file.
        format_name: One of :data:`FORMATS`; ``None``: as its content suggests.

    Raises:
        UsageError: it is no JSON, of no tool known here, or lacks what is needed; what and where is said.
    """
    document = _document(path, raw)
    known = "; ".join(f"{found.name} ({found.about})" for found in FORMATS.values())
    if format_name is not None:
        found = FORMATS[format_name]
        if not found.is_one(document):
            raise UsageError(f"{path}: not a file of {found.about}; known are {known}")
    else:
        match = next((found for found in FORMATS.values() if found.is_one(document)), None)
        if match is None:
            raise UsageError(f"{path}: of no tool that is known here; known are {known}")
        found = match
    run = found.read(document)
    for stage in run.stages:
        if not any(request.phase == "measure" for request in stage.requests):
            raise UsageError(f"{path}: it holds no measured request; give the result of a run that measured some")
        run.lacks += [said for printed in stage.printed if (said := contradiction(stage.requests, printed))]
    return run


def _document(path: Path, raw: bytes) -> Document:
    """The file as one JSON value, or as one a line. ``NaN`` and ``Infinity``, which Python's tools write, are read."""
    if not raw.strip():
        raise UsageError(f"{path}: the file is empty; give the tool's result file")
    try:
        return Document(path, json.loads(raw))
    except (ValueError, RecursionError) as error:
        whole_error = error
    lines = []
    for number, line in enumerate(raw.splitlines(), 1):
        if not line.strip():
            continue
        try:
            lines.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number == 1 or not raw.lstrip().startswith(b"{") or not isinstance(lines[0], dict):
                raise UsageError(f"{path}: not JSON: {whole_error}") from None
            raise UsageError(f"{path}, line {number}: not JSON: {error}") from None
    return Document(path, None, lines)


def contradiction(requests: list[ImportedRequest], printed: Printed) -> str | None:
    """A sentence when a figure that the tool printed does not follow from its own rows; ``None`` when it does."""
    values = [v for r in requests if r.outcome == Outcome.OK and (v := printed.of(r)) is not None]
    if not values:
        return None
    ours = printed.statistic(values)
    if abs(ours - printed.value_ms) <= max(ROUNDED_MS, ROUNDED_SHARE * abs(printed.value_ms)):
        return None
    return f"The file prints {printed.words} {printed.value_ms:.6g} ms, but its rows give {ours:.6g} ms."
