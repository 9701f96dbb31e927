"""The parts of ``report.md`` about the machine under test: what the server said, what its devices used."""

from __future__ import annotations

from llm_locust.analysis.server_against_client import between
from llm_locust.records.server_sample import HISTOGRAM_COLUMNS
from llm_locust.records.summary import RunSummary, StageSummary
from llm_locust.report.inert import LONGEST_SENTENCE, escape
from llm_locust.report.markdown_pieces import bullets, escaped, table
from llm_locust.report.server_lines import capitalised, device_lines, run_lines, server_lines

_HISTOGRAMS = {
    "queue_time": "queue",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "prefill_time": "prefill",
    "decode_time": "decode",
    "e2e": "E2E",
}


def run_blocks(summary: RunSummary) -> list[str]:
    """Client against server over the whole run, and where the samples come from; nothing when there are none."""
    lines = run_lines(summary)
    return ["## Client and server", _bullets(lines)] if lines else []


def machine_blocks(stage: StageSummary) -> list[str]:
    """What the server said in one stage, and what its machine used."""
    blocks = ["#### What the server said", _bullets(server_lines(stage))]
    rows = _percentiles(stage)
    if rows:
        header = ["in the server", "n", "p50", "p95", "p99"]
        blocks.append(table(header, escaped(rows), [True, False, True, True, True]))
        blocks.append(
            "Out of histograms each percentile is only known to lie in its bucket. They are explanations, not to be added "
            "up, of what was finished between the samples around the window."
        )
    if stage.device is not None:
        blocks += ["#### What its machine used", _bullets(device_lines(stage.device))]
    return blocks


def _percentiles(stage: StageSummary) -> list[list[str]]:
    if stage.server is None:
        return []
    found = stage.server.percentiles
    return [
        [
            _HISTOGRAMS[name],
            str(found[f"{name}_p95_ms"].n),
            *(between(found.get(f"{name}_p{p}_ms")) for p in (50, 95, 99)),
        ]
        for name in HISTOGRAM_COLUMNS
        if f"{name}_p95_ms" in found
    ]


def _bullets(lines: list[str]) -> str:
    return bullets(escape(capitalised(line), LONGEST_SENTENCE) for line in lines)
