"""Where the files are that came with the installation, for a person to use or to copy and edit."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(folder: str) -> Path:
    """``locustfiles`` or ``shapes``: inside an installed package, or beside it in a checkout."""
    installed = _PACKAGE / "bundled" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder
