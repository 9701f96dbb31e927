"""``report.html``: the report of a run as one file that a manager reads in a minute and an engineer can take apart.

``run_data`` puts together what is drawn; ``*_charts``, ``timelines`` draw it, each chart with its data; ``page`` says what
stands where; ``render`` makes text of it, inert and escaped; ``write`` puts it into the run folder.
"""

from __future__ import annotations

from llm_locust.report.html.write import write_html

__all__ = ["write_html"]
