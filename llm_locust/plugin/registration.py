"""Locust's events, handed to the plugin of the process: what happens when a locustfile imports this project."""

from __future__ import annotations

import sys

from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import Runner, WorkerRunner
from locust.web import WebUI

from llm_locust.plugin.before_load import dry_run
from llm_locust.plugin.interrupts import end_quietly_until_taken_over
from llm_locust.plugin.judging import output_width
from llm_locust.plugin.locust_stats import llm_request
from llm_locust.plugin.option_sources import remember
from llm_locust.plugin.options import add_options, bind_to_loopback
from llm_locust.plugin.outputs import start_outputs
from llm_locust.plugin.taken_ports import refuse_taken_ports
from llm_locust.plugin.wiring import Plugin
from llm_locust.records import ExitCode, UsageError


def register() -> None:
    """Listen to Locust's events. Called once, when a locustfile imports this project."""

    @events.init_command_line_parser.add_listener
    def on_parser(parser: LocustArgumentParser, **_: object) -> None:
        add_options(parser)
        bind_to_loopback(parser)
        refuse_taken_ports(parser)
        remember(parser)
        end_quietly_until_taken_over()

    @events.init.add_listener
    def on_init(environment: Environment, runner: Runner, web_ui: WebUI | None = None, **_: object) -> None:
        plugin = Plugin(environment, runner)
        environment.llm_locust = plugin  # type: ignore[attr-defined]
        options = environment.parsed_options
        if isinstance(runner, WorkerRunner) and options is not None and options.dry_run:
            sys.exit(ExitCode.DONE)
        if not isinstance(runner, WorkerRunner) and (web_ui is None or (options is not None and options.dry_run)):
            try:
                checked = plugin.check_options()
            except UsageError as error:
                print(f"locust: error: {error}", file=sys.stderr)
                sys.exit(ExitCode.USAGE)
            if checked.dry_run:
                print(dry_run(environment, checked, output_width()), end="")
                sys.exit(ExitCode.DONE)
        try:
            plugin.outputs = start_outputs(environment, plugin.live)
        except UsageError as error:
            print(f"locust: error: {error}", file=sys.stderr)
            sys.exit(ExitCode.USAGE)
        if options is not None and options.headless and not options.print_stats and sys.stderr.isatty():
            options.only_summary = True  # a progress bar and a table every two seconds would write over each other
        hooks = environment.events
        hooks.test_start.add_listener(lambda **_: plugin.test_start())
        hooks.spawning_complete.add_listener(lambda **_: plugin.spawning_complete())
        hooks.test_stopping.add_listener(lambda **_: plugin.test_stopping())
        hooks.test_stop.add_listener(lambda **_: plugin.test_stop())
        hooks.quitting.add_listener(lambda **_: plugin.quitting())
        hooks.quit.add_listener(lambda **_: plugin.quit())
        if web_ui is not None and plugin.live is not None:
            from llm_locust.web.wiring import add_pages  # a process without a web UI loads none of it

            add_pages(environment, web_ui, plugin)

    events.llm_request = llm_request  # type: ignore[attr-defined]
