"""A smoke test as text for a person and as JSON for a program."""

from __future__ import annotations

from typing import Any

import msgspec

from llm_locust.analysis.words import number
from llm_locust.records.text import one_line
from llm_locust.smoke.result import Check, CheckResult, SmokeResult

_WORDS: dict[CheckResult, str] = {"pass": "pass", "fail": "FAIL", "not_applicable": "n/a", "undecided": "UNDECIDED"}
_LONGEST = 600
"""Characters of a line: what was seen may hold a server's own words."""


def as_json(result: SmokeResult) -> bytes:
    """One JSON object: the result, the counts of its checks and the exit code."""
    whole: dict[str, Any] = msgspec.to_builtins(result)
    whole["counts"] = {word: result.count(word) for word in _WORDS}
    whole["exit_code"] = result.exit_code
    return msgspec.json.format(msgspec.json.encode(whole), indent=2)


def text_lines(result: SmokeResult) -> list[str]:
    """Plain lines; text that came from a server is inert."""
    engine = " ".join(filter(None, (result.engine, result.engine_version)))
    about = f"{engine or 'an engine that does not say what it is'}, model {result.model or 'not named'}"
    lines = [one_line(f"Smoke test of {result.host} ({about})", _LONGEST), ""]
    width = max((len(check.name) for check in result.checks), default=0)
    lines += [line for check in result.checks for line in check_lines(check, width)]
    lines += ["", result.note]
    values = msgspec.to_builtins(result.figures)
    lines += [f"  {name:29} {number(value)}" for name, value in values.items()]
    counts = ", ".join(
        f"{count} {word}"
        for word, count in (
            ("passed", result.count("pass")),
            ("failed", result.count("fail")),
            ("undecided", result.count("undecided")),
            ("not applicable", result.count("not_applicable")),
        )
    )
    lines += ["", f"{len(result.checks)} checks: {counts}, in {result.seconds:.1f} s"]
    if result.run_folder is not None:
        lines.append(f"The run: {one_line(result.run_folder, _LONGEST)}")
    return lines


def check_lines(check: Check, width: int) -> list[str]:
    """The check's word, its name, and what was seen; under it the reason, where there is one."""
    head = f"{_WORDS[check.result]:9} {check.name:{width}}"
    if check.reason is None:
        return [f"{head}  {one_line(check.seen, _LONGEST)}".rstrip()]
    lines = [f"{head}  {one_line(check.reason, _LONGEST)}"]
    if check.seen:
        lines.append(f"{'':9} {'':{width}}  seen: {one_line(check.seen, _LONGEST)}")
    return lines
