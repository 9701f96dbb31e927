"""The data contracts and the files on disk: columns, units, formats. Every other room imports from here, never back."""

from llm_locust.records.clock import Clock
from llm_locust.records.errors import UsageError
from llm_locust.records.exit_codes import ExitCode
from llm_locust.records.leaving import leaving_text, left_as_planned
from llm_locust.records.manifest import (
    SCHEMA_VERSION,
    ClockSample,
    Manifest,
    Requirements,
    StageManifest,
    StageWorker,
    Transcribed,
    WorkloadFacts,
)
from llm_locust.records.outcomes import UNATTEMPTED, Outcome
from llm_locust.records.plan import PLAN_COLUMNS, PLAN_STRING_COLUMNS, PlanRow, encode_plan_rows, plan_header_line
from llm_locust.records.prices import Prices
from llm_locust.records.request import COLUMNS, STRING_COLUMNS, RequestRecord, encode_rows, header_line
from llm_locust.records.run_folder import RunFolder
from llm_locust.records.slo import SLO_NAMES, format_slo, parse_slo
from llm_locust.records.stage import NS_PER_S, StageSpec

__all__ = [
    "COLUMNS",
    "NS_PER_S",
    "PLAN_COLUMNS",
    "PLAN_STRING_COLUMNS",
    "SCHEMA_VERSION",
    "SLO_NAMES",
    "STRING_COLUMNS",
    "UNATTEMPTED",
    "Clock",
    "ClockSample",
    "ExitCode",
    "Manifest",
    "Outcome",
    "PlanRow",
    "Prices",
    "RequestRecord",
    "Requirements",
    "RunFolder",
    "StageManifest",
    "StageSpec",
    "StageWorker",
    "Transcribed",
    "UsageError",
    "WorkloadFacts",
    "encode_plan_rows",
    "encode_rows",
    "format_slo",
    "header_line",
    "leaving_text",
    "left_as_planned",
    "parse_slo",
    "plan_header_line",
]
