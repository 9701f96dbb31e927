"""Judging a run from its files and showing the result: terminal table and Markdown report.

Importing this room loads pandas and scipy; the load generator's workers never do.
"""

from llm_locust.report.markdown import render_markdown
from llm_locust.report.run import Reported, merge_run, report_run
from llm_locust.report.terminal import print_reported

__all__ = ["Reported", "merge_run", "print_reported", "render_markdown", "report_run"]
