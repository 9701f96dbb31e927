"""Reading the code as text: docstrings of an enum's members, and the first words of a file."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def members(module: ModuleType, name: str) -> dict[str, str]:
    """What stands under each member of a class, by the member's name."""
    tree = ast.parse(inspect.getsource(module))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    found = {}
    for said, after in pairwise(body):
        if (
            isinstance(said, ast.Assign)
            and isinstance(said.targets[0], ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[said.targets[0].id] = str(after.value.value)
    return found


def docstring(path: Path) -> str:
    """What a file says of itself."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def sources() -> list[Path]:
    """Every file of code that is shipped, in order."""
    folders = ("llm_locust", "locustfiles", "shapes")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
