"""What a master tells of its runs beside the terminal, as long as the process lives: the Prometheus page and JSON lines."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

import gevent
import msgspec
from locust.env import Environment

from llm_locust.plugin.interrupts import say
from llm_locust.plugin.json_lines import AnyLine, RunFollower, Waiting
from llm_locust.plugin.line_writer import STDOUT, LineWriter, open_lines, reserve_stdout
from llm_locust.plugin.option_table import DEFAULTS
from llm_locust.plugin.option_values import given, whole
from llm_locust.plugin.progress import NO_SERIES, RunProgress
from llm_locust.records import Clock, UsageError

if TYPE_CHECKING:
    from llm_locust.live.run import LiveRun

EVERY_S = 1.0
LARGEST_PORT = 65_535


class OutputOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options, checked."""

    prometheus_host: str
    prometheus_port: int | None
    json_lines: str | None


def read_output_options(namespace: Namespace) -> OutputOptions:
    """The options of the process as a whole; a run's own are read when it begins.

    Raises:
        UsageError: a value that cannot be used.
    """
    port = whole(namespace, "prometheus_port", at_least=0)
    if port is not None and port > LARGEST_PORT:
        raise UsageError(f"--prometheus-port {port}: a port is at most {LARGEST_PORT}; 9646 is the custom")
    host = given(namespace, "prometheus_host") or DEFAULTS["prometheus_host"]
    assert host is not None
    if port is None and host != DEFAULTS["prometheus_host"]:
        raise UsageError(
            f"--prometheus-host {host} says where metrics are served; add --prometheus-port 9646 to serve them"
        )
    return OutputOptions(prometheus_host=host, prometheus_port=port, json_lines=given(namespace, "json_lines"))


class Outputs:
    """Serves and writes until it is closed.

    Args:
        options: What is wanted.
        live: The picture of this process's runs.
        exit_code: What the process would end with now.

    Raises:
        UsageError: a port that is taken, a file that cannot be written.
    """

    def __init__(self, options: OutputOptions, live: LiveRun, exit_code: Callable[[], int | None]) -> None:
        self._live = live
        self._exit_code = exit_code
        self._follower = RunFollower()
        self._writer: LineWriter | None = None
        self.writes_to_terminal = options.json_lines == STDOUT and sys.stdout.isatty()
        """Lines stand on the terminal: nothing may be drawn over them."""
        self._watching: gevent.Greenlet[[], None] | None = None
        if options.prometheus_port is not None:
            from llm_locust.web.exporter.serving import ExporterServer  # a process that shows nothing needs none of it

            self._exporter: ExporterServer | None = ExporterServer(
                live, options.prometheus_host, options.prometheus_port
            )
            say(f"Prometheus metrics: {self._exporter.url}")
        else:
            self._exporter = None
        if options.json_lines is not None:
            self._writer = LineWriter(open_lines(options.json_lines), options.json_lines)
            self._watching = gevent.spawn(self._watch)

    def waits(self, what: str) -> None:
        """Nothing happens in the run, on purpose."""
        if self._writer is None:
            return
        self._look()  # the run that waits has begun: that comes first
        now = self._live.snapshot(NO_SERIES)
        self._write(Waiting(at_s=now.now_s, run_id=now.run_id, what=what))

    def close(self) -> None:
        """The process ends: the last lines, and the port is closed."""
        if self._watching is not None:
            self._watching.kill()
        if self._writer is not None:
            self._look()
            self._writer.close()
        if self._exporter is not None:
            self._exporter.stop()

    def _watch(self) -> None:
        while True:
            self._look()
            gevent.sleep(EVERY_S)

    def _look(self) -> None:
        for line in self._follower.look(self._live.snapshot(NO_SERIES), exit_code=self._exit_code()):
            self._write(line)

    def _write(self, line: AnyLine) -> None:
        if self._writer is not None:
            self._writer.write(msgspec.json.encode(line) + b"\n")


def start_outputs(environment: Environment, live: LiveRun | None) -> Outputs | None:
    """Begin to serve and write, until Locust has printed its last words; ``None`` where nothing is asked for.

    Args:
        environment: Of this process.
        live: Its picture; ``None`` on a worker, which only leaves standard output to the master it was forked from.

    Raises:
        UsageError: a port that is taken, a file that cannot be written, a value that cannot be used.
    """
    namespace = environment.parsed_options
    if namespace is None:
        return None
    options = read_output_options(namespace)
    if live is None:
        if options.json_lines == STDOUT:
            os.close(reserve_stdout())
        return None
    if options.prometheus_port is None and options.json_lines is None:
        return None
    outputs = Outputs(options, live, lambda: environment.process_exit_code)
    environment.events.quit.add_listener(lambda **_: outputs.close())
    return outputs


def run_progress(clock: Clock, live: LiveRun | None, outputs: Outputs | None) -> RunProgress:
    """What shows a run on the terminal, beside these outputs."""
    return RunProgress(
        clock,
        None if live is None else live.snapshot,
        on_wait=None if outputs is None else outputs.waits,
        plain=outputs is not None and outputs.writes_to_terminal,
    )
