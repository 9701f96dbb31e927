"""The evidence records of a run on disk: ``records/stage-<stage>-round-<round>.json``, one per stage that was run."""

from __future__ import annotations

from pathlib import Path

from llm_locust.analysis.evidence import evidence_record
from llm_locust.records import Manifest, RunFolder
from llm_locust.records.facts import NO_FACTS, Facts
from llm_locust.records.summary import RunSummary


def record_path(folder: RunFolder, stage: int, round: int) -> Path:
    """Where the record of one stage and round is."""
    return folder.records_dir / f"stage-{stage}-round-{round}.json"


def write_records(
    folder: RunFolder,
    manifest: Manifest,
    summary: RunSummary,
    facts: Facts = NO_FACTS,
) -> list[Path]:
    """Write the record of every stage that was run, each atomically; returns their paths in the order of the stages.

    All of them are made before the first is written: facts that contradict the server leave the records as they were.

    Raises:
        UsageError: a fact contradicts what the server said.
    """
    made = [
        (record_path(folder, stage.stage, stage.round), evidence_record(manifest, summary, stage, facts))
        for stage in summary.stages
        if stage.verdict.result != "not_run"
    ]
    for path, record in made:
        path.parent.mkdir(exist_ok=True)
        record.save(path)
    return [path for path, _ in made]
