"""Reading a trace: the file, its format, the arrays."""

from __future__ import annotations

import os

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.formats import FORMATS
from llm_locust.arrivals.traces.lines import TraceFile, shown
from llm_locust.arrivals.traces.trace import Trace
from llm_locust.records import UsageError


def read_trace(path: str | os.PathLike[str], format: str | None = None) -> Trace:
    """Read a trace file from front to back, once.

    Args:
        path: The file, not packed.
        format: A name in :data:`FORMATS`; ``None`` to go by the file's first line (``trace.format`` says which it was).

    Raises:
        UsageError: the file cannot be read, is not of the format, or has a bad row (file, line and reason are named).
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown trace format {format!r}: one of {', '.join(FORMATS)}")
    file = TraceFile(path)
    try:
        looks_like = next((name for name, of in FORMATS.items() if of.recognises(file.first_line)), None)
        if format is None:
            if looks_like is None:
                raise UsageError(
                    f"{file.path}: its first line ({shown(file.first_line)}) is of no known trace format: "
                    f"name it with --format (in a run --trace-format), one of {', '.join(FORMATS)}"
                )
            format = looks_like
        elif looks_like != format:
            file.looks_like = looks_like
        of = FORMATS[format]
        builder = TraceBuilder(file)
        of.read(file, builder)
    finally:
        file.close()
    return builder.finish(format=of.name, unit=of.unit, unit_ns=of.unit_ns, block_tokens=of.block_tokens)
