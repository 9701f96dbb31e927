"""What a trace format is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.lines import TraceFile


@dataclass(frozen=True)
class TraceFormat:
    """One format of trace files, registered in :data:`llm_locust.arrivals.traces.formats.FORMATS`."""

    name: str
    about: str
    """What its files are, in a few words for a list of formats."""
    unit: str
    """What times its files have, in words."""
    unit_ns: int
    """The unit that its times are told in, or parts of it: a power of ten."""
    recognises: Callable[[bytes], bool]
    """Whether a file whose first line is this is of the format."""
    read: Callable[[TraceFile, TraceBuilder], None]
    """Adds every row of the file; raises UsageError at the first bad one."""
    block_tokens: int | None = None
    """Tokens in a block of its ``hash_ids``."""
