"""Locust's start form: which of its values may be taken, and why not, before anything starts.

A value that would reach into this machine (a file, an environment variable, a header, a proxy) is for the command line, as
is everything of Locust's own that is not in the form: Locust itself would take any option that is posted. What the form may
not set is left out of it, and refused where it is posted all the same.
"""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from locust import argument_parser
from locust.argument_parser import LocustArgumentParser
from locust.util.timespan import parse_timespan
from werkzeug.datastructures import MultiDict

from llm_locust.arrivals.traces import FORMATS
from llm_locust.plugin.option_table import DEFAULTS, OF_THE_PROCESS, OPTION_NAMES, OPTIONS, REACHES_IN, Option
from llm_locust.plugin.option_values import flag_of
from llm_locust.plugin.shape import SHAPE_OPTIONS
from llm_locust.plugin.workload_options import AUTO, ESTIMATE, KINDS, SERVER
from llm_locust.records import UsageError
from llm_locust.records.text import one_line

Form = MultiDict[str, str]

OF_THE_FORM = frozenset({"user_count", "spawn_rate", "host", "run_time", "profile", "user_classes", "shape_class"})
"""Fields that Locust has in every start form, by the names that it posts."""

JUDGED_BY = ("stage_time", "slo", "model", "gate")
"""Fields that nearly every run wants filled in, after those that say which stages there are."""

LONGEST_VALUE = 10_000
MOST_USERS = 1_000_000

_BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}


class StartForm:
    """What the form may change, measured against what the command line said.

    Args:
        options: The options of the process, as the command line, its config file and its environment gave them.
        default_host: Where load goes without a word from the form.
    """

    def __init__(self, options: Namespace, default_host: str | None) -> None:
        self._given = dict(vars(options))
        self._default_host = default_host or None
        self.trusted = options.web_trusted is True

    def values(self, form: Form) -> dict[str, Any]:
        """The options of this project that the form sets, as :func:`read_options` reads them.

        Raises:
            UsageError: one that it may not set.
        """
        found: dict[str, Any] = {}
        self._refuse_what_is_not_in_the_form(form)
        for name in form:
            option = _BY_NAME.get(name)
            if option is None:
                continue
            value = _read(option, form)
            if self._may_set(option.name, value):
                found[name] = value
            elif _plain(option, value) != _plain(option, self._given.get(name)):
                raise UsageError(self._not_from_a_page(option))
        return found

    def host(self, form: Form) -> tuple[str | None, bool]:
        """Where load is to go, and whether that is for the page alone to say: no key is sent there then.

        Raises:
            UsageError: there is none.
        """
        typed = form.get("host", "").strip() or None
        host = typed or self._default_host
        if host is None:
            raise UsageError(
                "--host is missing: type the server's base URL into the field Host, e.g. http://127.0.0.1:8000"
            )
        return host, not self.trusted and origin(host) != origin(self._default_host)

    def _may_set(self, name: str, value: Any) -> bool:
        if name in OF_THE_PROCESS:
            return False
        return self.trusted or not (name in REACHES_IN or _names_a_file(name, value))

    def _not_from_a_page(self, option: Option) -> str:
        if option.name in OF_THE_PROCESS:
            return f"{option.flag} is of the process as a whole: give it when Locust is started"
        return (
            f"{option.flag} cannot be set from a web page, since it reaches into this machine: give it when Locust is "
            "started, or start Locust with --web-trusted"
        )

    def _refuse_what_is_not_in_the_form(self, form: Form) -> None:
        """Options of Locust, or of somebody's locustfile, that its form does not show."""
        names = [name for name in form if name in self._given and name not in OF_THE_FORM and name not in _BY_NAME]
        shown = argument_parser.ui_extra_args_dict() if names else {}
        for name in names:
            given = self._given[name]
            same = {"", "None"} if given is None else {str(given), str(given).lower()}
            if name not in shown and form[name] not in same:
                raise UsageError(f"{flag_of(name)} is not a field of this form: give it when Locust is started")


def check_fields(form: Form, options: Namespace, *, shaped: bool) -> None:
    """Locust's own fields, and those of the person's locustfile: what Locust would crash on is answered in words.

    Args:
        form: What was posted.
        options: The options as they are; the form's values are turned into what is there.
        shaped: A shape says how many users there are.

    Raises:
        UsageError: a value that Locust cannot use.
    """
    for name in form:
        if name not in _BY_NAME and any(len(value) > LONGEST_VALUE for value in form.getlist(name)):
            raise UsageError(f"{flag_of(name)}: longer than {LONGEST_VALUE} characters")
    if not shaped:
        users = _number("Number of users", form.get("user_count"), int, "a whole number")
        if not 1 <= users <= MOST_USERS:
            raise UsageError(f"Number of users {users}: from 1 to {MOST_USERS:,}")
        rate = _number("Ramp up (users started/second)", form.get("spawn_rate"), float, "a number")
        if not (math.isfinite(rate) and rate > 0):
            raise UsageError(f"Ramp up (users started/second) {rate:g}: must be greater than 0")
        if run_time := form.get("run_time"):
            try:
                parse_timespan(run_time)
            except ValueError:
                raise UsageError(f"Run time {_said(run_time)}: write 20, 20s, 3m, 2h, 1h20m or 3h30m10s") from None
    for name, now in vars(options).items():
        if name in form and name not in OF_THE_FORM and name not in _BY_NAME:
            _check_as_locust_reads(name, form, now)


def origin(host: str | None) -> tuple[str, str | None, int | None] | None:
    """Scheme, name and port of a base URL; the text itself where it is none."""
    if not host:
        return None
    try:
        parts = urlsplit(host.strip())
        port = parts.port
    except ValueError:
        return host, None, None
    scheme = parts.scheme.lower()
    return scheme, parts.hostname, port if port is not None else {"http": 80, "https": 443}.get(scheme)


def dress(parser: LocustArgumentParser, options: Namespace, unread: frozenset[str]) -> None:
    """Have the form that Locust makes of this parser offer words as a list, and show what trusted pages may set.

    Args:
        parser: One that Locust made to draw the form.
        options: Those of the process.
        unread: Options that mean nothing for the run to come.
    """
    trusted = options.web_trusted is True
    choices: dict[str, tuple[str, ...]] = {"workload_kind": ("", *KINDS), "trace_format": ("", *FORMATS)}
    if not trusted:
        choices["tokenizer"] = (AUTO, SERVER, ESTIMATE)
    for action in parser._actions:
        if trusted and action.dest in REACHES_IN:
            vars(action).update(include_in_web_ui=True)
        if action.dest in unread:
            vars(action).update(include_in_web_ui=False)
        if action.dest in choices:
            given = getattr(options, action.dest, None) or ""
            action.choices = list(dict.fromkeys([given, *choices[action.dest]]) if given else choices[action.dest])


def in_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the form: what says which stages there are, then what is judged, then the rest as the table has it.

    Fields of the person's own locustfile stand before ours: they are few, and nobody else has put them there.
    """
    first = [name for name in OPTION_NAMES if name in SHAPE_OPTIONS]
    ours = [*first, *JUDGED_BY, *(name for name in OPTION_NAMES if name not in SHAPE_OPTIONS | {*JUDGED_BY})]
    names = [*(name for name in fields if name not in _BY_NAME), *(name for name in ours if name in fields)]
    return {name: fields[name] for name in names}


def _read(option: Option, form: Form) -> Any:
    """A field as :mod:`llm_locust.plugin.option_values` takes it: a flag, a list of lines, or a text."""
    values = form.getlist(option.name)
    if any(len(value) > LONGEST_VALUE for value in values):
        raise UsageError(f"{option.flag}: longer than {LONGEST_VALUE} characters")
    if option.repeated:
        lines = [line.strip() for value in values for line in value.splitlines()]
        return [line for line in lines if line] or None
    if option.metavar is None:
        if values[-1].lower() not in ("true", "false", "on", "off", ""):
            raise UsageError(f"{option.flag} {_said(values[-1])}: true or false")
        return values[-1].lower() in ("true", "on")
    return values[-1].strip() or None


def _plain(option: Option, value: Any) -> Any:
    """A value as text, for comparing what the form has with what the command line gave."""
    if option.metavar is None:
        return value is True
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or None  # so does a browser show a list in a field
    return str(value).strip() if value not in (None, "") else DEFAULTS[option.name]


def _names_a_file(name: str, value: Any) -> bool:
    """A value that is a file's name, of an option that takes other things too."""
    if value is None:
        return False
    if name == "tokenizer":
        return value not in (AUTO, SERVER, ESTIMATE)
    if name == "gate":
        items = (item.strip() for text in value for item in re.split(r"[,\n]", text))
        return any(item.endswith(".toml") for item in items)
    return bool(name == "quality" and value.partition(":")[0].strip() == "json-schema")


def _check_as_locust_reads(name: str, form: Form, now: Any) -> None:
    if now is None or isinstance(now, bool):
        return
    text = form[name]
    try:
        if isinstance(now, list):
            if all(isinstance(item, int) for item in now):
                for item in text.split(",") if "," in text else form.getlist(name):
                    int(item)
        else:
            type(now)(text)
    except (ValueError, TypeError, OverflowError):
        raise UsageError(f"{flag_of(name)} {_said(text)}: must be of the kind of {now!r}") from None


def _number(field: str, text: str | None, kind: Callable[[str], Any], what: str) -> Any:
    try:
        return kind(text or "")
    except (ValueError, OverflowError):
        raise UsageError(f"{field} {_said(text or '')}: must be {what}") from None


def _said(text: str) -> str:
    return repr(one_line(text, 100))
