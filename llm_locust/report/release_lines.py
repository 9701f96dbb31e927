"""What ``llm-locust gate --release`` says: a line per requirement, and the maxima where the release is allowed."""

from __future__ import annotations

from llm_locust.analysis.release import ReleaseVerdict
from llm_locust.analysis.words import number
from llm_locust.records.envelope import Envelope, ReleaseRequirement
from llm_locust.report.envelope_page import render_envelope
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape, one_line
from llm_locust.report.markdown_pieces import bullets

_MARK = {True: "ok", False: "x", None: "?"}
_MET = {True: "✅ met", False: "❌ not met", None: "❔ cannot be told"}


def release_sentence(verdict: ReleaseVerdict) -> str:
    """The verdict in a sentence."""
    lacking = [one.name for one in verdict.refused_for]
    if not lacking:
        return f"Released: all {len(verdict.requirements)} requirements are met."
    of = f"{len(lacking)} of {len(verdict.requirements)} requirements {'is' if len(lacking) == 1 else 'are'}"
    if verdict.allowed is None:
        return f"Not released: {of} undecided: {', '.join(lacking)}."
    return f"Refused: {of} not met: {', '.join(lacking)}."


def release_lines(verdict: ReleaseVerdict) -> list[str]:
    """Plain lines for a terminal; text from elsewhere is inert."""
    lines = [f"{_MARK[one.met]:>2} {one.name}: {_said(one)}" for one in verdict.requirements]
    lines.append(release_sentence(verdict))
    return (
        lines if verdict.envelope is None else [*lines, one_line(maxima_sentence(verdict.envelope), LONGEST_SENTENCE)]
    )


def maxima_sentence(envelope: Envelope) -> str:
    """What may be published, in a sentence."""
    unit = "conversations/s" if envelope.conversations else "req/s"
    return (
        f"At most {number(envelope.max_rate_rps)} {unit} ({envelope.arrivals}), {envelope.max_concurrency} requests in "
        f"flight, {number(envelope.cost_per_million_good_tokens)} per million good output tokens."
    )


def render_release(verdict: ReleaseVerdict) -> str:
    """The same as Markdown, for the page of a CI run; with the whole envelope where the release is allowed."""
    rows = [
        f"{_MET[one.met]}: **{escape(one.name, LONGEST_NAME)}**: {escape(_said(one), LONGEST_SENTENCE)}"
        for one in verdict.requirements
    ]
    blocks = [
        f"### Release of {escape(', '.join(verdict.run_ids), LONGEST_NAME)}",
        f"**{escape(release_sentence(verdict))}**",
        bullets(rows),
    ]
    text = "\n\n".join(blocks) + "\n"
    return text if verdict.envelope is None else f"{text}\n{render_envelope(verdict.envelope)}"


def _said(one: ReleaseRequirement) -> str:
    return one_line(f"{one.required}; found: {one.found}", LONGEST_SENTENCE)
