"""From run folders to a release: what is read, and the envelope that is written where it is allowed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from llm_locust.analysis.evidence_files import record_path
from llm_locust.analysis.release import RecordFile, ReleasedRun, ReleaseVerdict, judge_release
from llm_locust.records import Manifest, Requirements, RunFolder, UsageError
from llm_locust.records.envelope import ENVELOPE_JSON, Envelope
from llm_locust.records.summary import RunSummary
from llm_locust.records.whole_file import write_whole
from llm_locust.report.envelope_page import render_envelope


def release_folders(
    paths: Sequence[Path],
    asked: Requirements = Requirements(),  # noqa: B008 - immutable
    price_per_hour: float | None = None,
) -> ReleaseVerdict:
    """Whether merged run folders, taken together, earn a release.

    Raises:
        UsageError: a folder is none or was not merged; see also :func:`~llm_locust.analysis.release.judge_release`.
    """
    return judge_release(
        [_read(path) for path in paths],
        at=datetime.now(UTC).replace(microsecond=0).isoformat(),
        version=version("llm-locust"),
        asked=asked,
        price_per_hour=price_per_hour,
    )


def _read(path: Path) -> ReleasedRun:
    folder = RunFolder(path)
    manifest = Manifest.load(folder.manifest)
    summary = RunSummary.load(folder.summary)
    if summary.run_id != manifest.run_id:
        raise UsageError(
            f"{path}: its manifest is of run {manifest.run_id}, its summary of {summary.run_id}; "
            f"run llm-locust merge {path}"
        )
    files = {(stage.stage, stage.round): record_path(folder, stage.stage, stage.round) for stage in summary.stages}
    records = {of: _record(manifest.run_id, file) for of, file in files.items() if file.exists()}
    return ReleasedRun(manifest, summary, records)


def _record(run_id: str, path: Path) -> RecordFile:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        document = None
    return RecordFile(f"{run_id}/{path.parent.name}/{path.name}", hashlib.sha256(raw).hexdigest(), document)


def envelope_path(first: Path, given: Path | None) -> Path:
    """Where the envelope goes: where it was asked for, else into the folder of the first run.

    Raises:
        UsageError: the name is not that of a JSON file: the page for people is written beside it under its stem.
    """
    if given is not None and given.suffix != ".json":
        raise UsageError(f"--envelope {given}: write a name that ends in .json; the Markdown page is written beside it")
    return given or first / ENVELOPE_JSON


def write_envelope(verdict: ReleaseVerdict, path: Path) -> list[str]:
    """Write the envelope and its page where the release is allowed; says what became of the file in each case.

    A refused release writes nothing, and leaves an envelope of an earlier one as it is.

    Raises:
        UsageError: it cannot be written.
    """
    before = _released_before(path)
    if verdict.envelope is None:
        left = f"{path} {before} and is left as it was."
        return ["No envelope was written.", *([left] if before else [])]
    page, text = path.with_suffix(".md"), render_envelope(verdict.envelope)
    try:
        verdict.envelope.save(path)
        write_whole(page, text)
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be written: {error.strerror}") from None
    return [f"Envelope: {path}{f', in place of one that {before}' if before else ''}", f"To read: {page}"]


def _released_before(path: Path) -> str | None:
    """What is at the place of the envelope, in words; ``None`` for nothing."""
    if not path.exists():
        return None
    try:
        return f"was released at {Envelope.load(path).released_at}"
    except (UsageError, OSError):
        return "is no envelope of this version"
