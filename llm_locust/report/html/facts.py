"""Facts of a run for the report: what was tested, with what, how it can be run again, what exactly is signed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from llm_locust.analysis.evidence_files import record_path
from llm_locust.analysis.words import NOT_MEASURED, number, percent, with_round
from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.evidence import EvidenceRecord
from llm_locust.records.facts import FACT_NAMES
from llm_locust.records.summary import RunSummary
from llm_locust.report.html.tables import Head, Table, cells


def server_table(manifest: Manifest) -> Table:
    """What is known of the server: said by itself, or stated by a person before load."""
    rows = [cells("target", manifest.host, "the run"), cells("model", manifest.model or NOT_MEASURED, "the run")]
    if manifest.synthetic_engine:
        rows.append(cells("engine", "synthetic: nothing here is performance", "the server"))
    said = manifest.server_facts_start
    rows += [
        cells(_plain(name), _text(value), "the server, before load") for name, value in said.items() if _known(value)
    ]
    rows += [
        cells(_plain(name), _text(value), "stated (--facts)") for name, value in manifest.facts.items() if _known(value)
    ]
    changed = [name for name, value in manifest.server_facts_end.items() if name in said and said[name] != value]
    rows += [
        cells(_plain(name), _text(manifest.server_facts_end[name]), "the server, after load: changed")
        for name in changed
    ]
    heads = [Head("fact"), Head("value", "", False, True), Head("from")]
    return Table("The server under test", heads, rows)


def unknown_facts(manifest: Manifest) -> str | None:
    """The facts that nobody stated and the server did not say, in a sentence; ``None`` when all are known."""
    known = {
        name for of in (manifest.facts, manifest.server_facts_start) for name, value in of.items() if _known(value)
    }
    missing = [_plain(name) for name in FACT_NAMES if name not in known and not (name == "model_id" and manifest.model)]
    if not missing:
        return None
    return f"Not known ({len(missing)}), since neither the server said so nor --facts did: {', '.join(missing)}."


def run_table(manifest: Manifest, summary: RunSummary) -> Table:
    """What was sent and by which machine."""
    of = manifest.workload
    dropped = ", ".join(f"{count} {why}" for why, count in of.dropped.items())
    rows = [
        ("state", summary.state + (f" ({summary.state_reason})" if summary.state_reason else "")),
        ("started, ended", f"{manifest.started_at}, {manifest.ended_at or NOT_MEASURED}"),
        ("workload", f"{of.name} ({of.kind}), from {of.source}"),
        (
            "prompts",
            NOT_MEASURED
            if of.prompts is None
            else f"{of.prompts} distinct" + (f"; left out: {dropped}" if dropped else ""),
        ),
        ("slices", ", ".join(of.slices) or "none"),
        ("shared prefix", percent(of.shared_prefix_share)),
        ("lengths counted by", of.tokens_counted_by or NOT_MEASURED),
        ("sampling", _text(of.sampling) if of.sampling else NOT_MEASURED),
        ("prefix cache", of.cache_state or NOT_MEASURED),
        *((f"workload note {k}", note) for k, note in enumerate(of.notes, 1)),
        ("deadline of a request", f"{number(manifest.deadline_s)} s"),
        ("cap on requests in flight", "none" if manifest.max_in_flight is None else str(manifest.max_in_flight)),
        ("streaming", "yes" if manifest.streaming else "no: there is no TTFT or TPOT"),
        ("planned to be dropped", manifest.cancel or "none"),
        ("replies checked by", manifest.quality or "nothing: nothing is said of their quality"),
        ("proxy, TLS", f"{manifest.proxy or 'no proxy'}, {_tls(manifest.tls_verified)}"),
        ("metrics pages", ", ".join(manifest.metrics_targets) or "none were read"),
        ("price per hour", number(summary.price_per_hour)),
        ("load generator", _text(manifest.machine)),
        ("versions", _text(manifest.versions)),
    ]
    heads = [Head("fact"), Head("value", "", False, True)]
    return Table("The run, its workload and its load generator", heads, [cells(name, text) for name, text in rows])


def seed_table(manifest: Manifest) -> Table:
    """Seeds and digests: a run with the same ones sends the same requests at the same planned times."""
    rows = [cells("workload", str(manifest.seed), NOT_MEASURED, NOT_MEASURED, manifest.workload.sha256)]
    rows += [
        cells(
            with_round(of.spec.label, of.spec.round),
            str(of.spec.seed),
            str(of.spec.first_index),
            str(of.planned),
            of.plan_sha256 or NOT_MEASURED,
        )
        for of in manifest.stages
    ]
    heads = [
        Head("what"),
        Head("seed", "", True),
        Head("first index", "", True),
        Head("planned", "arrivals", True),
        Head("SHA-256", "", False, True),
    ]
    return Table("Seeds and digests, for running it again", heads, rows)


def file_hashes(folder: RunFolder, summary_path: Path) -> Table:
    """The digests of the files that the judgement rests on."""
    paths = [folder.manifest, folder.plan, folder.merged, summary_path]
    rows = [cells(path.name, _digest(path)) for path in paths if path.exists()]
    return Table("SHA-256 of the files of this run", [Head("file"), Head("SHA-256", "", False, True)], rows)


def grades(folder: RunFolder, summary: RunSummary) -> list[tuple[str, list[str]]]:
    """The evidence grades of the run's records with what they lack, without repetition; empty when there are none."""
    found: dict[str, list[str]] = {}
    for stage in summary.stages:
        try:
            record = EvidenceRecord.load(record_path(folder, stage.stage, stage.round))
        except UsageError:
            continue
        reasons = found.setdefault(record.evidence_grade, [])
        reasons += [reason for reason in record.evidence_grade_reasons if reason not in reasons]
    return list(found.items())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _known(value: object) -> bool:
    return value is not None and value not in ("", [])


def _tls(verified: bool | None) -> str:
    return {None: "no TLS", True: "certificate verified", False: "certificate not verified"}[verified]


def _text(value: object) -> str:
    """A fact of any form as one text; what is not known in it is blank."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return number(value, 6)
    if isinstance(value, Mapping):
        if not value:
            return NOT_MEASURED
        return "; ".join(f"{_plain(str(name))}: {_text(of)}" for name, of in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(_text, value))
    return str(value)
