"""Azure's LLM inference traces (2023 code and conversation, 2024 one week, 2025 multimodal): CSV with dates.

Source: https://github.com/Azure/AzurePublicDataset. The files are CRLF without a last newline; times have seven decimals,
or six and ``+00:00``, or none; the multimodal file has ``NumImages`` between the columns.
"""

from __future__ import annotations

import numpy as np

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.formats.base import TraceFormat
from llm_locust.arrivals.traces.lines import TraceFile
from llm_locust.arrivals.traces.table import Table, has_columns

TIME, INPUT, OUTPUT, IMAGES = "TIMESTAMP", "ContextTokens", "GeneratedTokens", "NumImages"


def _read(file: TraceFile, builder: TraceBuilder) -> None:
    with_images = 0
    for rows in Table(file, (TIME, INPUT, OUTPUT)):
        builder.blank(rows.blank)
        kept = builder.add_all(rows.line, rows.dates(TIME), rows.token_counts(INPUT), rows.token_counts(OUTPUT))
        with_images += int(np.count_nonzero(rows.token_counts(IMAGES)[kept] > 0))
    if with_images:
        builder.notes.append(f"Rows with images, of which only the tokens are kept: {with_images:,}.")


FORMAT = TraceFormat(
    name="azure",
    about="Azure LLM inference traces: CSV, TIMESTAMP, ContextTokens, GeneratedTokens",
    unit="TIMESTAMP as date and time to 100 ns, UTC",
    unit_ns=100,
    recognises=has_columns(TIME, INPUT, OUTPUT),
    read=_read,
)
