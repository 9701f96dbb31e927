"""The error a user can cause: it says what was wrong, where, and what to do. Shown without a traceback."""

from __future__ import annotations


class UsageError(Exception):
    """Wrong input: an option, a file, a line of a file. The message is for the person who typed it.

    Surfaces print it and exit with status 2; errors that are ours stay ordinary exceptions and keep their traceback.
    """
