"""Every trace format by its name. A new one is a file beside this, a line here and a test."""

from llm_locust.arrivals.traces.formats import azure, bailian, burstgpt, csv_log, jsonl_log, mooncake
from llm_locust.arrivals.traces.formats.base import TraceFormat

FORMATS: dict[str, TraceFormat] = {
    "azure": azure.FORMAT,
    "burstgpt": burstgpt.FORMAT,
    "mooncake": mooncake.FORMAT,
    "bailian": bailian.FORMAT,
    "csv": csv_log.FORMAT,
    "jsonl": jsonl_log.FORMAT,
}
"""In the order in which they are tried when a file's format is to be found."""

__all__ = ["FORMATS", "TraceFormat"]
