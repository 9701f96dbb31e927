"""BurstGPT (ChatGPT and GPT-4 requests of a campus): CSV with seconds.

Source: https://github.com/HPMLL/BurstGPT. Columns are found by name: later files insert ``Session ID`` and
``Elapsed time``. Rows without response tokens are requests that failed in the service.
"""

from __future__ import annotations

from itertools import compress

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.formats.base import TraceFormat
from llm_locust.arrivals.traces.lines import TraceFile
from llm_locust.arrivals.traces.table import Table, has_columns
from llm_locust.records import NS_PER_S

TIME, INPUT, OUTPUT, SESSION = "Timestamp", "Request tokens", "Response tokens", "Session ID"


def _read(file: TraceFile, builder: TraceBuilder) -> None:
    for rows in (table := Table(file, (TIME, INPUT, OUTPUT))):
        builder.blank(rows.blank)
        kept = builder.add_all(rows.line, rows.seconds(TIME), rows.token_counts(INPUT), rows.token_counts(OUTPUT))
        if SESSION in table.columns:
            builder.in_sessions(compress(rows.texts(SESSION), kept.tolist()))


FORMAT = TraceFormat(
    name="burstgpt",
    about="BurstGPT: CSV, Timestamp in s, Request tokens, Response tokens",
    unit="Timestamp in s",
    unit_ns=NS_PER_S,
    recognises=has_columns(TIME, INPUT, OUTPUT),
    read=_read,
)
