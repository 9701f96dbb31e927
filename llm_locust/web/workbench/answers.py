"""What the page may ask, by name: one function each, from the run's folder and what was posted to what is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llm_locust.records import RunFolder
from llm_locust.web.workbench.counts import count_goodput
from llm_locust.web.workbench.kv_form import kv_preflight
from llm_locust.web.workbench.record_form import check_record
from llm_locust.web.workbench.run_facts import write_facts
from llm_locust.web.workbench.run_page import opening
from llm_locust.web.workbench.sheet import sheet_csv, sheet_markdown
from llm_locust.web.workbench.typed import Refused


def _facts(folder: RunFolder | None, typed: Mapping[str, Any]) -> Any:
    if folder is None:
        raise Refused({"request": "there is no judged run whose facts these could be"})
    return write_facts(folder, typed)


ANSWERS: Mapping[str, Callable[[RunFolder | None, Mapping[str, Any]], Any]] = {
    "opening": lambda folder, _: opening(folder),
    "record": lambda _, typed: check_record(typed),
    "goodput": lambda _, typed: count_goodput(typed),
    "kv": lambda _, typed: kv_preflight(typed),
    "worksheet/csv": lambda _, typed: sheet_csv(typed),
    "worksheet/markdown": lambda _, typed: sheet_markdown(typed),
    "facts": _facts,
}
