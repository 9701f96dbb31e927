"""Every place in the code that raises a ``UsageError``, and its message taken apart: where, what is wrong, what to do.

A message is written as ``WHERE: WHAT IS WRONG; WHAT TO DO``. The last part begins with a verb in the imperative (*write*,
*give*, *leave out*) or tells what there is to choose from; where a message only states what is allowed (*at least 1*), that
is the remedy. Where something else tells what is wrong (the operating system, a parser), its words are the message's last.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docs.generate.source import ROOT, sources

REASON = "{reason}"
"""What stands for the words of the operating system."""
ERROR = "{error}"
"""What stands for the words of a parser, or of another message of this page."""


class Raised(NamedTuple):
    """One message, as the code makes it."""

    file: str
    line: int
    message: str
    """What is filled in stands in braces."""

    @property
    def room(self) -> str:
        """The folder of the package, or the top-level folder."""
        parts = Path(self.file).parts
        return parts[1] if parts[0] == "llm_locust" else parts[0]


class Parts(NamedTuple):
    """A message taken apart."""

    where: str
    wrong: str
    mend: str | None
    """``None``: it does not say."""


@cache
def raised() -> list[Raised]:
    """Every message that is made of words where it is raised; those that pass another one on are left out."""
    return [
        found
        for path in sources()
        for found in _in_file(path)
        if re.search(r"[a-z]{2}", _without_places(found.message))
    ]


def _in_file(path: Path) -> Iterator[Raised]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    for call in sorted((node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=lambda call: call.lineno):
        if isinstance(call.func, ast.Name) and call.func.id == "UsageError" and call.args:
            before, said = "", call.args[0]
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("bad", "wrong_format") and len(call.args) == 2:
            before, said = "{path}:{line}: ", call.args[1]  # of the trace file that is read
        else:
            continue
        for message in _messages(said, constants):
            yield Raised(str(path.relative_to(ROOT)), call.lineno, " ".join((before + message).split()))


def _messages(node: ast.expr, constants: Mapping[str, str]) -> list[str]:
    """The text of an expression; of a choice between two, both."""
    if isinstance(node, ast.IfExp):
        return [*_messages(node.body, constants), *_messages(node.orelse, constants)]
    return [_text(node, constants)]


def _text(node: ast.expr, constants: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(piece, constants) for piece in node.values)
    if isinstance(node, ast.FormattedValue):
        if isinstance(node.value, ast.Name) and node.value.id in constants:
            return constants[node.value.id]
        name = "{" + _name(node.value) + "}"
        return f"'{name}'" if node.conversion == ord("r") else name
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, constants) + _text(node.right, constants)
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    return "{" + _name(node) + "}"


def _name(node: ast.expr) -> str:
    """A short name for what is filled in."""
    said = ast.unparse(node)
    if "strerror" in said:
        return REASON.strip("{}")
    if said.startswith(("str(error", "error", "_told(error", "whole_error", "said", "_in_words(str(error")):
        return ERROR.strip("{}")
    if "_nearest(" in said:
        return "nearest"
    if "flag_of(" in said or ".replace('_', '-')" in said:
        return "option"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        return _name(node.args[0]) if node.args else "list"
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _name(node.generators[0].iter)
    if isinstance(node, ast.Call):
        return _name(node.args[0]) if node.args else _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_").lower()
    if isinstance(node, ast.Name):
        return node.id.strip("_").lower()
    if isinstance(node, ast.Subscript):
        return _name(node.slice) if _is_word(node.slice) else _name(node.value)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.IfExp):
        return _name(
            node.values[0] if isinstance(node, ast.BoolOp) else node.left if isinstance(node, ast.BinOp) else node.body
        )
    return "..."


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _without_places(message: str) -> str:
    return re.sub(r"\{[^}]*\}", "", message)


_DO = (
    "add|ask|begin|check|choose|close|compare|copy|correct|drop|fill|free|give|go|install|keep|leave|let|look|lower|make|measure|"
    "mend|name|paste|pick|point|put|raise|read|repeat|restart|run|say|set|shorten|start|stop|subclass|take|thin|try|type|unpack|use|"
    "wait|write|yield"
)
"""Verbs with which the last part of a message begins."""
_CHOOSE = (
    r"did you mean|one of|known|there (?:are|is)|this machine has|it (?:takes|covers|reads|is \{|holds gates)|"
    r"limits that hold|for as much as|a query|pip install|llm-locust gate|e\.g\. --|with --no-stream write|"
    r"a closed one takes|fill them in|"
    r"--quality CHECK|--idle SECONDS|a line is like|only ollama|127\.0\.0\.1 is this machine|ollama list|"
    r"\{(?:hint|known|nearest|anew|install|differs)\}"
)
"""... or what there is to choose from."""
_MEND = re.compile(rf"(?:^|[:;,.?(}}]\s+|\bor\s+)(?P<mend>(?:{_DO})\b(?![-_=]).*|(?:{_CHOOSE}).*)", re.IGNORECASE)
ALLOWED = (
    r"must be|too many|longer than|at least|at most|greater than|above 0|from \{|from \d|up to|goes? from|is between|"
    r"takes nothing|an? (?:whole )?number|numbers? of|a share|a text|a table|true or false|should be|is held by|"
    r"can only be|no name has|cannot be [^wrmsa]|a name has|is on one line|is a name on|which no process|is empty|"
    r"which it cannot be|0 to"
)
"""Words by which a message states what is allowed."""
_FIRST = re.compile(r"(?P<where>-{1,2}[a-z][a-z-]*(?: '?\{[^}]*\}'?(?: s\b)?)?):?(?: (?P<wrong>(?!and ).*))?")


def parts_of(message: str) -> Parts:
    """A message taken apart."""
    found = _MEND.search(message)
    said, mend = (message[: found.start("mend")].rstrip(" :;,.("), found["mend"]) if found else (message, None)
    where, colon, wrong = said.partition(": ")
    if colon and where.startswith(("-", "{", "gate", "mapping", "header", "CA")) and not wrong.startswith("{error}"):
        return Parts(where, wrong, mend)
    first = _FIRST.fullmatch(said)
    if first is not None:
        return Parts(first["where"], first["wrong"] or "not of a form that is known", mend)
    return Parts("", said, mend)


class Answered(NamedTuple):
    """What the check before load finds in a server's answer."""

    cause: str
    remedy: str


def answered() -> list[Answered]:
    """Every finding of the diagnosis, in the order of its files."""
    found = []
    for path in sorted((ROOT / "llm_locust" / "telemetry" / "diagnosis").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            remedies: dict[str, ast.expr] = {}
            for node in sorted(
                (node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.Call)),
                key=lambda node: node.lineno,
            ):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    remedies[node.targets[0].id] = node.value
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                    cause, remedy = (
                        remedies.get(each.id, each) if isinstance(each, ast.Name) else each for each in node.args[:2]
                    )
                    mend = " ".join(" / ".join(_messages(remedy, {})).split())
                    found += [Answered(" ".join(one.split()), mend) for one in _messages(cause, {})]
    return list(dict.fromkeys(found))
