"""Which pages there are."""

from __future__ import annotations

from collections.abc import Callable

from docs.generate.columns import files_page
from docs.generate.commands import commands_page
from docs.generate.environment import environment_page
from docs.generate.errors import errors_page
from docs.generate.judging import judging_page
from docs.generate.loads import loads_page
from docs.generate.metrics import metrics_page
from docs.generate.options import options_page
from docs.generate.record import record_page, summary_page
from docs.generate.source import ROOT

REFERENCE = ROOT / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "options.md": options_page,
    "commands.md": commands_page,
    "loads.md": loads_page,
    "judging.md": judging_page,
    "files.md": files_page,
    "summary.md": summary_page,
    "record.md": record_page,
    "metrics.md": metrics_page,
    "environment.md": environment_page,
    "errors.md": errors_page,
}
