"""Another tool's result file as a run folder: written once, then merged, judged and shown as any run."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from llm_locust.analysis.imported import ImportedRun, read_result, run_records, transcribed_manifest
from llm_locust.records import (
    Manifest,
    RunFolder,
    UsageError,
    encode_plan_rows,
    encode_rows,
    header_line,
    plan_header_line,
)
from llm_locust.report.run import Reported, merge_run
from llm_locust.streaming.redaction import safe_line

NAMED_BY = 8
"""Digits of the file's SHA-256 in the name of its folder."""


def import_file(
    path: Path, format_name: str | None = None, slo: dict[str, float] | None = None, out: Path | None = None
) -> Reported:
    """Make a run folder of a result file.

    Args:
        path: The file.
        format_name: One of :data:`~llm_locust.analysis.imported.FORMATS`; ``None``: as its content suggests.
        slo: Per-request limits in milliseconds; they count as set after the run.
        out: The folder to make; ``None``: ``runs/`` and the file's name with the beginning of its SHA-256.

    Raises:
        UsageError: the file cannot be read or used, or the folder holds another run.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    sha256 = hashlib.sha256(raw).hexdigest()
    run = _without_secrets(read_result(path, raw, format_name))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.") or "import"
    folder = RunFolder(out if out is not None else Path("runs") / f"{name}-{sha256[:NAMED_BY]}")
    _check_free(folder, sha256)
    manifest = transcribed_manifest(run, folder.run_id, path.name, sha256, slo or {})
    issued, records = run_records(run, folder.run_id)
    try:
        folder.requests_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder.path}: cannot be made: {error.strerror}") from None
    folder.worker_csv(0, issued=True).write_text(plan_header_line() + encode_plan_rows(issued), encoding="utf-8")
    folder.worker_csv(0).write_text(header_line() + encode_rows(records), encoding="utf-8")
    manifest.save(folder.manifest)
    return merge_run(folder.path, html=True)


def _check_free(folder: RunFolder, sha256: str) -> None:
    """The folder is new, empty, or was made of the same file."""
    if not folder.path.exists():
        return
    if not folder.path.is_dir():
        raise UsageError(f"--out {folder.path}: it is a file; name a folder")
    if folder.manifest.exists():
        made_of = Manifest.load(folder.manifest).transcribed
        if made_of is None or made_of.sha256 != sha256:
            raise UsageError(f"--out {folder.path}: it holds another run; name another folder")
    elif any(folder.path.iterdir()):
        raise UsageError(f"--out {folder.path}: it is not empty; name another folder")


def _without_secrets(run: ImportedRun) -> ImportedRun:
    """Texts of the file fit to be stored: one line, bounded, no keys, no credentials in an address."""
    for stage in run.stages:
        for request in stage.requests:
            if request.error is not None:
                request.error = safe_line(request.error)
            if request.request_id is not None:
                request.request_id = safe_line(request.request_id)
    return msgspec.structs.replace(
        run,
        target=None if run.target is None else _address(run.target),
        model=None if run.model is None else safe_line(run.model),
        workload=safe_line(run.workload),
    )


def _address(url: str) -> str:
    """Scheme, host and port."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "not told"
    host = f"[{host}]" if ":" in host else host
    return safe_line(f"{parts.scheme}://{host}{'' if port is None else f':{port}'}")
