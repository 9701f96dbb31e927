"""``-f FILE``: a locustfile, imported for what it registers; no load is made."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llm_locust.records import UsageError


def locustfile_option(meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, as ``locustfile``."""
    return click.option(
        "-f",
        "--locustfile",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=meaning,
    )


def import_locustfile(path: Path) -> None:
    """Import the file as Locust does.

    Raises:
        UsageError: it cannot be imported; the line of the file is named.
    """
    os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"  # too late for it in this process, and nothing here makes load
    from locust.util.load_locustfile import load_locustfile

    whole = str(path.resolve())
    try:
        load_locustfile(whole)
    except SyntaxError as error:
        where = path if error.filename == whole else error.filename
        raise UsageError(f"{where}: line {error.lineno}: {error.msg}: mend that line") from None
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == whole]
        line = lines[-1] if lines else "?"
        if isinstance(error, UsageError):
            raise UsageError(f"{path}: line {line}: {error}") from None
        raise UsageError(f"{path}: line {line} ends with {type(error).__name__}: {error}: mend that line") from error
