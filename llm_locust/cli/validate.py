"""``llm-locust validate``: evidence records held to their form and to the rules between their fields."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from llm_locust.analysis.evidence_rules import violations
from llm_locust.records import ExitCode, UsageError
from llm_locust.records.evidence_schema import SCHEMA_PATH, Violation
from llm_locust.records.run_folder import require_run

SHOWN = 120
"""Characters of a value that are shown."""


def record_files(path: Path) -> list[Path]:
    """The file itself, or the records of a run folder.

    Raises:
        UsageError: it is not there, or the folder is no run folder or holds no records.
    """
    if not path.is_dir():
        if not path.exists():
            raise UsageError(f"{path}: there is no such file")
        return [path]
    found = sorted((path / "records").glob("*.json")) or sorted(path.glob("*.json") if path.name == "records" else ())
    if not found:
        if path.name != "records":
            require_run(path)
        raise UsageError(f"{path} holds no evidence records (records/*.json): run llm-locust merge {path} first")
    return found


def check_file(path: Path) -> list[Violation]:
    """What is wrong with one file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return violations(msgspec.json.decode(raw))
    except msgspec.DecodeError as error:
        return [Violation("", msgspec.UNSET, f"a record is JSON: {error}")]


def line(path: Path, violation: Violation) -> str:
    """``FILE: FIELD = VALUE: RULE``; what comes from the file is escaped, so that a terminal shows it and does not obey."""
    where = f" {_escaped(violation.field)}" if violation.field else ""
    value = "" if violation.value is msgspec.UNSET else f" = {_shown(violation.value)}"
    return f"{path}{where and ':'}{where}{value}: {_escaped(violation.rule)}"


def _shown(value: object) -> str:
    text = _escaped(msgspec.json.encode(value).decode())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@click.command("validate")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a record instead.")
def command(files: tuple[Path, ...], schema: bool) -> None:
    """Check evidence records: FILES are records, or run folders whose records are meant.

    Types and ranges are those of the JSON Schema (--schema prints it). Beyond it: counts add up, percentiles are ordered,
    rates follow from counts and seconds, null and 0 are told apart, the verdict follows from its gates, the grade from what
    the record holds, and nothing turns a figure into a number of users.

    \b
    Exit status: 0 every record is valid
                 2 wrong usage: no file, none there, or none that can be read
                 4 a record is not valid; every violation is named with its file, field, value and rule
    """
    if schema:
        click.echo(SCHEMA_PATH.read_text(encoding="utf-8"), nl=False)
        return
    if not files:
        raise UsageError("name evidence records or run folders: llm-locust validate runs/RUN")
    paths = [path for given in files for path in record_files(given)]
    found = {path: check_file(path) for path in paths}
    for path, wrong in found.items():
        for violation in wrong:
            click.echo(line(path, violation))
    valid = sum(not wrong for wrong in found.values())
    click.echo(f"{valid} of {len(found)} record{'' if len(found) == 1 else 's'} valid")
    sys.exit(ExitCode.DONE if valid == len(found) else ExitCode.UNDECIDED)
