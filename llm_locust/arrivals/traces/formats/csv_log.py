"""One's own log as CSV.

``timestamp`` in seconds (any zero, decimals to 1 ns), and, as far as they are known, ``input_tokens``, ``output_tokens``
and ``session`` (any name; rows of one name are the turns of one conversation). An empty cell is not known.
"""

from __future__ import annotations

from itertools import compress

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.formats.base import TraceFormat
from llm_locust.arrivals.traces.lines import TraceFile
from llm_locust.arrivals.traces.table import Table, has_columns
from llm_locust.records import NS_PER_S

TIME, INPUT, OUTPUT, SESSION = "timestamp", "input_tokens", "output_tokens", "session"


def _read(file: TraceFile, builder: TraceBuilder) -> None:
    # Columns of other names are refused here: a misspelt "sesion" would quietly take the conversations apart.
    for rows in (table := Table(file, (TIME,), (INPUT, OUTPUT, SESSION))):
        builder.blank(rows.blank)
        kept = builder.add_all(rows.line, rows.seconds(TIME), rows.token_counts(INPUT), rows.token_counts(OUTPUT))
        if SESSION in table.columns:
            builder.in_sessions(compress(rows.texts(SESSION), kept.tolist()))


FORMAT = TraceFormat(
    name="csv",
    about="your own: timestamp in s; input_tokens, output_tokens, session if known",
    unit="timestamp in s",
    unit_ns=NS_PER_S,
    recognises=has_columns(TIME),
    read=_read,
)
