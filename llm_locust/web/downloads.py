"""Files to keep: the table of the tab as CSV, and what the newest judged run left on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flask import Response, make_response, send_file

from llm_locust.records import RunFolder
from llm_locust.records.text import one_line

FILES: dict[str, Callable[[RunFolder], Path]] = {
    "requests.csv": lambda folder: folder.merged,
    "worksheet.csv": lambda folder: folder.worksheet_csv,
    "report.html": lambda folder: folder.report_html,
    "summary.json": lambda folder: folder.summary,
}
"""By the name in the address: a name is looked up here, never a path."""


def file_of(folder: RunFolder | None, name: str) -> Response:
    """One file of the newest judged run, to keep; 404 with the reason where there is none."""
    if name not in FILES:
        return _missing(f"no such file: {one_line(name, 100)}; there are {', '.join(FILES)}")
    if folder is None:
        return _missing(f"no {name} yet: a run has one once it has ended and was judged")
    path = FILES[name](folder).resolve()
    if not path.is_file() or path.parent != folder.path.resolve():
        return _missing(f"the run {folder.run_id} has no {name}")
    kind = "text/csv" if name.endswith(".csv") else None
    return send_file(path, mimetype=kind, as_attachment=True, download_name=f"{folder.run_id}-{name}", max_age=0)


def csv_file(text: str, name: str) -> Response:
    """A text as a CSV file of that name."""
    response = make_response(text)
    response.mimetype = "text/csv"
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response


def _missing(reason: str) -> Response:
    return make_response(f"{reason}\n", 404, {"Content-Type": "text/plain; charset=utf-8"})
