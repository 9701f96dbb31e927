"""The ports that Locust is about to listen on, looked at before it does.

Where one is taken, Locust ends with a traceback (the port for workers, with newer versions of pyzmq) or goes on without its
page (the web UI). It has no event between reading its command line and opening its sockets: so the reading itself is
followed up.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from locust.argument_parser import LocustArgumentParser

from llm_locust.ports import ALL_ADDRESSES, why_not_listen

_ONLY_SAYS = ("list_commands", "show_task_ratio", "show_task_ratio_json")
"""Options with which Locust prints something and ends."""


class _Once:
    """Locust reads its command line again for its web page, when the ports are taken: by itself."""

    looked = False


def refuse_taken_ports(parser: LocustArgumentParser) -> None:
    """Have the first reading of the command line end with status 2 where Locust could not listen, and say what to do."""
    read = parser.parse_args

    def read_and_look(*args: Any, **kwargs: Any) -> Namespace:
        options: Namespace = read(*args, **kwargs)
        if not _Once.looked:
            _Once.looked = True
            if (taken := taken_port(options)) is not None:
                parser.error(taken)
        return options

    parser.parse_args = read_and_look


def taken_port(options: Namespace) -> str | None:
    """Why Locust cannot listen where its options say, with what to do; ``None`` when it can, or will not want to."""
    if options.worker or any(getattr(options, name, None) for name in _ONLY_SAYS):
        return None
    if options.master or options.processes:
        host, port = options.master_bind_host, options.master_bind_port
        if (why := why_not_listen(host, port)) is not None:
            return (
                f"--master-bind-port {port}{_at(host)}: {why}, so no worker could reach this master. If that is another "
                "Locust, wait until it has ended, or give this one a port of its own: --master-bind-port PORT here, "
                "--master-port PORT for its workers (both with --processes)"
            )
    if not options.headless and not getattr(options, "dry_run", False):
        host, port = options.web_host, options.web_port
        if (why := why_not_listen(host, port)) is not None:
            return (
                f"--web-port {port}{_at(host)}: {why}, so the web UI could not be shown. Give another port with "
                "--web-port PORT, or run without a page: --headless"
            )
    return None


def _at(host: str) -> str:
    return "" if host in ("", ALL_ADDRESSES) else f" at {host}"
