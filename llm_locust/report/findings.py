"""Findings as lines for a terminal and as a section of the report: what shows them, then what to vary next."""

from __future__ import annotations

from datetime import UTC, datetime

from llm_locust.records import NS_PER_S
from llm_locust.records.diagnosis import Finding
from llm_locust.records.summary import RunSummary
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape, one_line
from llm_locust.report.markdown_pieces import bullets

SHOWN = 3
"""Findings in a terminal."""


def finding_lines(summary: RunSummary) -> list[str]:
    """A line each for the first few findings, and how many more there are; plain text, made inert."""
    lines = [
        one_line(f"Finding ({found.confidence}, {found.where}): {found.title}: {found.evidence[0]}", LONGEST_SENTENCE)
        for found in summary.findings[:SHOWN]
    ]
    more = len(summary.findings) - SHOWN
    return [*lines, f"{more} more finding{'' if more == 1 else 's'} in the report"] if more > 0 else lines


def finding_blocks(summary: RunSummary) -> list[str]:
    """The section of ``report.md``; nothing when no rule found its symptom."""
    if not summary.findings:
        return []
    blocks = [
        "## Diagnosis",
        "Each finding stands with the figures that show it. Vary one thing at a time, everything else as it was.",
    ]
    for found in summary.findings:
        blocks += [f"### {escape(found.title, LONGEST_NAME)}", bullets(_lines(found))]
    return blocks


def _lines(found: Finding) -> list[str]:
    where = f" ({escape(', '.join(found.stages), LONGEST_SENTENCE)})" if found.stages else ""
    lines = [f"Where: {found.where}, {found.confidence}{where}"]
    lines += [f"{escape(sentence, LONGEST_SENTENCE)}" for sentence in found.evidence]
    if found.rows:
        of = f" of {found.rows_in_all}" if found.rows_in_all > len(found.rows) else ""
        lines.append(f"Requests that show it ({len(found.rows)}{of}), by index: {', '.join(map(str, found.rows))}")
    if found.samples_ns:
        lines.append(f"Samples that show it, UTC: {', '.join(map(_moment, found.samples_ns))}")
    return [*lines, *(f"Vary next: {escape(step, LONGEST_SENTENCE)}" for step in found.vary_next)]


def _moment(at_ns: int) -> str:
    whole = datetime.fromtimestamp(at_ns // NS_PER_S, UTC)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{at_ns % NS_PER_S // 1_000_000:03d}"
