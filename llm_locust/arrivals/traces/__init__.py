"""Production arrival traces: readers by format, and replays as pure functions."""

from llm_locust.arrivals.traces.formats import FORMATS, TraceFormat
from llm_locust.arrivals.traces.log_lines import LoggedRequest
from llm_locust.arrivals.traces.reader import read_trace
from llm_locust.arrivals.traces.replay import Replay, replay
from llm_locust.arrivals.traces.trace import UNKNOWN, Trace

__all__ = ["FORMATS", "UNKNOWN", "LoggedRequest", "Replay", "Trace", "TraceFormat", "read_trace", "replay"]
