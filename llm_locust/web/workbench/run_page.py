"""What the page opens with after a run: its evidence records, its worksheet and what is known of its server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.evidence import EvidenceRecord
from llm_locust.web.workbench.forms import FIELDS, text_of
from llm_locust.web.workbench.run_facts import known_facts
from llm_locust.web.workbench.sheet import columns, rows_of_file

MOST_RECORDS = 200


def opening(folder: RunFolder | None) -> dict[str, Any]:
    """The columns of the worksheet, and the run of this folder; ``None`` where there is none that can be read."""
    found: dict[str, Any] = {"columns": columns(), "run": None, "problem": None}
    if folder is None:
        return found
    try:
        found["run"] = _run(folder)
    except UsageError as error:
        found["problem"] = str(error)
    return found


def _run(folder: RunFolder) -> dict[str, Any]:
    manifest = Manifest.load(folder.manifest)
    records = [_record(path) for path in sorted(folder.records_dir.glob("*.json"))[:MOST_RECORDS]]
    records.sort(key=lambda record: (record["stage"], record["round"]))
    sheet = folder.worksheet_csv
    return {
        "run_id": manifest.run_id,
        "folder": str(folder.path),
        "records": records,
        "worksheet": rows_of_file(sheet.read_text(encoding="utf-8", errors="replace")) if sheet.exists() else [],
        "facts": known_facts(folder, manifest),
    }


def _record(path: Path) -> dict[str, Any]:
    record = EvidenceRecord.load(path)
    values = msgspec.json.decode(msgspec.json.encode(record))
    label = record.evidence_stage or f"stage {record.stage}"
    return {
        "stage": record.stage or 0,
        "round": record.round or 0,
        "label": f"{label}, round {record.round}" if record.round else label,
        "grade": record.evidence_grade,
        "reasons": record.evidence_grade_reasons,
        "result": record.result,
        "fields": {name: text for name, field in FIELDS.items() if (text := text_of(field, values[name]))},
        "file": f"{record.test_id}.json",
        "text": path.read_text(encoding="utf-8"),
    }
