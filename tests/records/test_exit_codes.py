"""Exit codes: what a number means is said once, and nothing ends with a number of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import llm_locust
from llm_locust.records import ExitCode
from llm_locust.records.exit_codes import JUDGED


def test_a_pipeline_can_rely_on_the_numbers() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "CRASH": 1,
        "USAGE": 2,
        "NOT_MET": 3,
        "UNDECIDED": 4,
    }
    assert {0, 3, 4} == JUDGED


def test_nothing_ends_with_a_bare_number() -> None:
    bare = [
        f"{path}:{call.lineno}"
        for path in sorted(Path(llm_locust.__path__[0]).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("exit", "_exit")
        and any(isinstance(part, ast.Constant) for part in ast.walk(call) if part is not call.func)
    ]
    assert bare == []
