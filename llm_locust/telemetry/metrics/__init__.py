"""What serving engines say on their metrics pages, read without any I/O: mappings are data, pages are bytes."""

from llm_locust.telemetry.metrics.mapping import Mapping, known_engines, known_mapping, load_mapping
from llm_locust.telemetry.metrics.page import NormalisedPage, detect, read_page, server_sample

__all__ = [
    "Mapping",
    "NormalisedPage",
    "detect",
    "known_engines",
    "known_mapping",
    "load_mapping",
    "read_page",
    "server_sample",
]
