"""Where options come from: typed by a person, or out of a config file or a variable that many runs share."""

from __future__ import annotations

from locust.argument_parser import LocustArgumentParser

_newest: list[LocustArgumentParser] = []


def remember(parser: LocustArgumentParser) -> None:
    """Locust made a parser, which is about to read the options of this process."""
    _newest[:] = [parser]


def standing() -> frozenset[str]:
    """Names of options that a config file or a variable set, and the command line did not set anew."""
    found = set()
    for parser in _newest:
        for source, settings in getattr(parser, "_source_to_settings", {}).items():
            if source.startswith(("environment_variables", "config_file")):
                found |= {action.dest for action, _ in settings.values() if action is not None}
    return frozenset(found)
