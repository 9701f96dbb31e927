"""What stands where in the report: verdict and ladder first, then every figure with its chart, then what it rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from llm_locust.analysis.judgement import SYNTHETIC, points
from llm_locust.analysis.points import Point
from llm_locust.analysis.verdict import needs_words
from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records import RunFolder, format_slo
from llm_locust.records.summary import RunSummary
from llm_locust.report.html import tables
from llm_locust.report.html.chart import Chart
from llm_locust.report.html.distribution_charts import latency_distributions, length_charts, stream_distributions
from llm_locust.report.html.facts import file_hashes, grades, run_table, seed_table, server_table, unknown_facts
from llm_locust.report.html.markdown_sections import Section, sections
from llm_locust.report.html.rate_charts import concurrency_charts, goodput_chart, latency_charts
from llm_locust.report.html.run_charts import failure_charts, generator_charts
from llm_locust.report.html.run_data import RunData
from llm_locust.report.html.tables import Table
from llm_locust.report.html.timelines import timelines
from llm_locust.report.inert import LONGEST_SENTENCE, one_line
from llm_locust.report.ladder import FEW_NOTE

_REPLACED = frozenset({"ladder"})
"""Sections of ``report.md`` that have a form of their own here."""

_IN_FULL = frozenset({"stages", "what-this-result-does-not-say"})
"""From the first of these on, sections of ``report.md`` stand at the end."""


class Named(NamedTuple):
    """A word or two, and what there is to say."""

    name: str
    text: str


class Link(NamedTuple):
    """An entry of the contents."""

    name: str
    title: str


class Tile(NamedTuple):
    """One figure of the first screen."""

    name: str
    value: str
    note: str = ""
    tone: str = ""
    """``pass``, ``fail``, ``warn`` or nothing; colour only repeats what the text says."""


class Block(NamedTuple):
    """A section of charts and tables."""

    name: str
    title: str
    intro: str = ""
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    layout: str = "charts"


class Page(NamedTuple):
    """The report, ready to be made into text."""

    title: str
    eyebrow: str
    banner: str
    """What must not be overlooked; empty for nothing."""
    tone: str
    verdict: str
    more: str
    requirements: Sequence[tables.Cell]
    tiles: Sequence[Tile]
    ladder: Table
    ladder_notes: Sequence[str]
    lead: Sequence[Chart]
    """The first chart stands beside the boundary."""
    lead_facts: Sequence[Named]
    before: Sequence[Section]
    """Sections of ``report.md`` before the charts, and ..."""
    blocks: Sequence[Block]
    after: Sequence[Section]
    hashes: Table
    footer: str

    @property
    def charts(self) -> list[Chart]:
        """All of them."""
        return [*self.lead, *(chart for block in self.blocks for chart in block.charts)]

    @property
    def contents(self) -> list[Link]:
        """The sections in order."""
        before = [Link(of.name, str(of.title.striptags())) for of in self.before]
        after = [Link(of.name, str(of.title.striptags())) for of in self.after]
        blocks = [Link(of.name, of.title) for of in self.blocks]
        return [Link("ladder", "Ladder"), *before, *blocks, *after, Link("sign-off", "Sign-off")]


def make_page(data: RunData, folder: RunFolder, markdown: str, name: str = "") -> Page:
    """Put the report together.

    Args:
        data: The judged run.
        folder: Its folder, whose files are signed.
        markdown: Its ``report.md``.
        name: What a judgement by other limits adds to the names of its files; the run's own records are then not its.
    """
    summary, manifest = data.summary, data.manifest
    said = [of for of in sections(markdown) if of.name not in _REPLACED]
    cut = next((k for k, of in enumerate(said) if of.name in _IN_FULL), len(said))
    verdict, more = _sentences(summary)
    ladder = points(summary.stages)
    goodput = goodput_chart(data)
    graded = grades(folder, summary) if not name else []
    lead = [*([goodput] if goodput is not None else []), *concurrency_charts(data)]
    return Page(
        title=f"{one_line(summary.model or 'LLM server', 80)}: load test {one_line(summary.run_id, 80)}",
        eyebrow=f"Load test of {one_line(summary.model or 'a model without a name', 120)} at {one_line(summary.host, 200)}"
        f" · run {one_line(summary.run_id, 80)} · {summary.started_at}",
        banner=_banner(summary),
        tone=_tone(ladder, summary),
        verdict=verdict,
        more=more,
        requirements=tables.requirement_badges(summary),
        tiles=_tiles(ladder, summary, graded),
        ladder=tables.ladder_table(summary.stages),
        ladder_notes=_ladder_notes(summary),
        lead=lead,
        lead_facts=_lead_facts(ladder, summary),
        before=said[:cut],
        blocks=[*_blocks(data), _facts(data, graded)],
        after=said[cut:],
        hashes=file_hashes(folder, folder.path / f"summary{name}.json"),
        footer=f"llm-locust {manifest.versions.get('llm-locust', '')}: report of {summary.run_id}, schema "
        f"{summary.schema_version}. Self-contained: nothing is loaded from elsewhere. Blank is -, never 0.",
    )


def _sentences(summary: RunSummary) -> tuple[str, str]:
    """The verdict's first sentence and the rest of it; of closed loops alone the knee. "Synthetic" stands in the banner."""
    if summary.boundary is None and summary.knee is not None:
        return f"Closed loop: {one_line(summary.knee.sentence, LONGEST_SENTENCE)}.", one_line(summary.verdict)
    text = one_line(summary.verdict)
    if summary.synthetic_engine:
        text = text.removeprefix(SYNTHETIC).strip()
    first, *rest = re.split(r"(?<=\.) (?=[A-Z0-9])", text, maxsplit=1)
    return first, rest[0] if rest else ""


def _banner(summary: RunSummary) -> str:
    said = [SYNTHETIC] if summary.synthetic_engine else []
    if summary.state != "complete":
        said.append(f"State of the run: {summary.state}{f' ({summary.state_reason})' if summary.state_reason else ''}.")
    set_after = {"limits": summary.slo and summary.limits_set, "gates": summary.gates and summary.gates_set}
    late = [name for name, when in set_after.items() if when == "after"]
    if late:
        said.append(f"The {' and '.join(late)} were set after the run: such a judgement never earns a release.")
    return one_line(" ".join(said), LONGEST_SENTENCE)


def _tone(ladder: Sequence[Point], summary: RunSummary) -> str:
    results = {point.result for point in ladder}
    if summary.sent == 0 or not results & {"pass", "fail"}:
        return "warn"
    if summary.sustained_rate_rps is not None or (summary.first_failing_rate_rps is None and "pass" in results):
        return "pass"
    return "fail"


def _tiles(ladder: Sequence[Point], summary: RunSummary, graded: Sequence[tuple[str, list[str]]]) -> list[Tile]:
    if not summary.stages:
        return []
    tiles = _rate_tiles(ladder, summary)
    if summary.knee is not None:
        knee = summary.knee
        value = NOT_MEASURED if knee.concurrency is None else f"{knee.concurrency} in flight"
        tiles.append(Tile("Knee of the closed loop", value, knee.strength if knee.concurrency else "see the verdict"))
    limits = format_slo(summary.slo).replace(",", ", ").replace("=", " ")
    when = {"before": "ms, set before load", "after": "ms, set after the run"}[summary.limits_set]
    tiles.append(Tile("Limits of a request", limits or "none chosen", when if limits else "so there is no goodput"))
    valid = sum(stage.generator.valid for stage in summary.stages)
    tone = "" if valid == len(summary.stages) else "warn"
    tiles.append(
        Tile("Load generator", f"valid in {valid} of {len(summary.stages)}", "stages; see Load generator", tone)
    )
    if graded:
        lacking = sum(len(reasons) for _, reasons in graded)
        note = (
            f"it lacks {lacking} {'thing' if lacking == 1 else 'things'}: see Facts"
            if lacking
            else "nothing is lacking"
        )
        tiles.append(Tile("Evidence grade", ", ".join(grade for grade, _ in graded), note))
    return tiles


def _rate_tiles(ladder: Sequence[Point], summary: RunSummary) -> list[Tile]:
    """Of the boundary; none without open arrivals."""
    if summary.boundary is None:
        return []
    last, first = summary.sustained_rate_rps, summary.first_failing_rate_rps
    tiles = []
    at = next(
        (p for p in ladder if p.stages[0].mode == "open" and p.stages[0].rate_rps == last and p.result == "pass"), None
    )
    if last is not None and at is not None:
        of = at.deciding
        needs = needs_words(of.verdict.requests_needed, of.verdict.seconds_needed, of.measured)
        tiles.append(
            Tile("Sustained rate", f"{number(last)} req/s", f"{at.strength}{f': {needs}' if needs else ''}", "pass")
        )
        if of.attainment is not None:
            span = of.attainment_interval
            note = "worst round, " if len(at.stages) > 1 else ""
            note += f"attainment {percent(of.attainment)}"
            note += f" (95 % interval {percent(span.low)} to {percent(span.high, up=True)})" if span else ""
            tiles.append(Tile("Goodput there", f"{number(of.goodput_rps, 3)} req/s", note))
    else:
        why = "no tested rate passed" + (" below the first that failed" if first is not None else "")
        tiles.append(Tile("Sustained rate", "none", why, "fail" if first is not None else "warn"))
    failed = ", ".join(d.name for d in summary.boundary.failing_dimensions)
    if first is not None:
        tiles.append(Tile("First failing rate", f"{number(first)} req/s", f"on {failed}" if failed else "", "fail"))
    else:
        tiles.append(Tile("First failing rate", "none tested", "the boundary was not reached"))
    return tiles


def _lead_facts(ladder: Sequence[Point], summary: RunSummary) -> list[Named]:
    found = []
    limits = f"{format_slo(summary.slo).replace(',', ', ')} (ms)" if summary.slo else "none chosen"
    when = {"before": "before load", "after": "after the run"}
    found.append(
        Named("Limits of a request", f"{limits}, set {when[summary.limits_set]}." if summary.slo else f"{limits}.")
    )
    gates = "; ".join(summary.gates) or "the defaults (none were chosen)"
    found.append(Named("Gates of a stage", f"{gates}{f', set {when[summary.gates_set]}' if summary.gates else ''}."))
    boundary = summary.boundary
    if boundary is not None and boundary.failing_dimensions:
        why = "; ".join(f"{d.name}: {d.detail}" for d in boundary.failing_dimensions)
        found.append(Named(f"Why {number(boundary.first_fail_rps)} req/s failed", f"{why}."))
    if boundary is not None and boundary.burst is not None:
        found.append(Named("A burst or trace of the rate that passed", f"{boundary.burst_name}: {boundary.burst}."))
    if boundary is not None and boundary.not_tested:
        found.append(Named("Not tested", f"{'; '.join(boundary.not_tested)}."))
    if summary.knee is not None:
        found.append(Named("Knee of the closed loop", f"{'. '.join([summary.knee.sentence, *summary.knee.warnings])}."))
    return [Named(of.name, one_line(of.text, LONGEST_SENTENCE)) for of in found]


def _ladder_notes(summary: RunSummary) -> list[str]:
    stages = summary.stages
    if not stages:
        return []
    found = [
        '"done" is what completed inside the window, "good" what met every limit, per second of the window. Percentiles are '
        "nearest rank over ok requests.",
    ]
    p95 = [stage.percentiles.get(f"{name}_p95_ms") for stage in stages for name in ("ttft", "tpot", "e2e")]
    if any(of.at_maximum for of in p95 if of is not None):
        found.append(f"{FEW_NOTE}.")
    if any(stage.mode == "closed" for stage in stages):
        found.append("C=n is a closed loop that keeps n requests in flight; it has no offered rate.")
    return [*found, *tables.blank_notes(stages, summary.slo)]


def _blocks(data: RunData) -> list[Block]:
    stages = data.summary.stages
    if not stages:
        return []
    latency, spread, streams = latency_charts(data), latency_distributions(data), stream_distributions(data)
    failed, generator, lengths = failure_charts(data), generator_charts(data), length_charts(data)
    along = timelines(data)
    no_latency = "No request has a latency, so there is nothing to draw."
    x = "rate" if any(stage.mode == "open" for stage in stages) else "concurrency"
    slices = tables.slice_table(stages)
    errors = tables.error_table(stages)
    stalls = tables.stall_table(stages)
    blocks = [
        Block("latency", f"Latency against {x}", "" if latency else no_latency, latency, layout="charts three"),
        Block("distributions", "Distributions", "" if spread else no_latency, spread, layout="charts three"),
        Block("over-time", "Over time", "" if along else "No arrival was due.", along),
        Block("streams", "Gaps between tokens, and stalls", "" if streams else "No gaps between output events were kept.",
              streams, [stalls] if stalls else [], layout="charts three"),
        Block("failures", "Failures", _failed_words(data), failed, [errors] if errors else []),
        Block("load-generator", "Load generator", "", generator, [tables.generator_table(stages)],
              () if len(data.health) else ["Loop lag and processor: there is no generator.csv that could be read."],
              "charts three"),
        Block("workload", "Workload", "", lengths, [tables.tokens_table(stages)]),
    ]  # fmt: skip
    if slices:
        blocks.append(Block("slices", "Slices", "Each named part of the workload alone.", tables=[slices]))
    gates = [table for table in (tables.gate_table(stages), tables.limit_table(stages)) if table is not None]
    chosen = "They were chosen." if data.summary.gates else "They are the defaults: none were chosen for this run."
    blocks.append(Block("gates", "Gates and limits", chosen, tables=gates, notes=tables.gate_notes(stages)))
    return blocks


def _failed_words(data: RunData) -> str:
    measured = sum(stage.measured for stage in data.summary.stages)
    failed = sum(stage.failed for stage in data.summary.stages)
    if not failed:
        return f"None of the {measured} measured requests failed."
    return f"{failed} of {measured} measured requests failed."


def _facts(data: RunData, graded: Sequence[tuple[str, list[str]]]) -> Block:
    manifest, summary = data.manifest, data.summary
    notes = [f"Evidence grade {grade}: {reason}." for grade, reasons in graded for reason in reasons]
    unknown = unknown_facts(manifest)
    notes += [unknown] if unknown else []
    found = [server_table(manifest), run_table(manifest, summary), seed_table(manifest)]
    return Block("facts", "Facts", tables=found, notes=notes)
