"""Judging a run from its files and showing the result: terminal table and Markdown report.

The names below are loaded when first asked for: judging needs pandas and scipy, and the dry run's text does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_locust.report.markdown import render_markdown
    from llm_locust.report.run import Reported, merge_run, report_run
    from llm_locust.report.terminal import print_reported

_HOMES = {
    "Reported": "llm_locust.report.run",
    "merge_run": "llm_locust.report.run",
    "print_reported": "llm_locust.report.terminal",
    "render_markdown": "llm_locust.report.markdown",
    "report_run": "llm_locust.report.run",
}

__all__ = ["Reported", "merge_run", "print_reported", "render_markdown", "report_run"]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
