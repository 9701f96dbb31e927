"""What Locust calls: events in, orders out. One plugin per process, on master, worker and local runner alike."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import gevent
from gevent.event import Event
from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import LocalRunner, Runner, WorkerRunner
from locust.web import WebUI

from llm_locust.dispatch import (
    FromWorker,
    Link,
    PinnedUsers,
    Prepared,
    Progress,
    RequestBuilder,
    Roster,
    Rows,
    RunController,
    StageDone,
    WorkerAgent,
)
from llm_locust.plugin.locust_stats import llm_request, report_request
from llm_locust.plugin.options import RunOptions, add_options, read_options
from llm_locust.plugin.progress import RunProgress
from llm_locust.plugin.run_setup import llm_users, set_up_run, target_url
from llm_locust.plugin.shape import StageShape
from llm_locust.records import Clock, RequestRecord, StageSpec, UsageError
from llm_locust.records.run import RunSpec
from llm_locust.streaming import Reply, StreamClient
from llm_locust.users.base import LLMUser
from llm_locust.workload import load_workload

logger = logging.getLogger(__name__)

CRASH_EXIT, USAGE_EXIT = 1, 2
CONNECT_S = 30.0


class Plugin:
    """This project inside one Locust process."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self._environment = environment
        self._runner = runner
        self._clock = Clock()
        self.model: str | None = None
        """The model of the current run, as users ask for it."""
        self._agent: WorkerAgent | None = None
        if isinstance(runner, WorkerRunner | LocalRunner):
            self._agent = WorkerAgent(runner, self._builders, self._connect, self._observe)
        self._controller: RunController | None = None
        self._judged = Event()
        self._placeholders: int | None = None
        self._verdict = ""
        if not isinstance(runner, WorkerRunner):
            self._link = Link(runner)
            self._roster = Roster(self._link, self._clock)
            self._link.on(Rows, self._tell_controller)
            self._link.on(Prepared, self._tell_controller)
            self._link.on(Progress, self._tell_controller)
            self._link.on(StageDone, self._tell_controller)
            if self._shape is not None:
                environment.dispatcher_class = PinnedUsers

    # --- what shapes and users ask ---------------------------------------------------------------------------------

    def tick(self) -> tuple[int, float] | None:
        """How many placeholder users there should be; ``None`` when the run is over and judged."""
        if self._controller is not None and self._judged.is_set():
            self._forget_run()
            return None
        if not self._placeholders:
            self._placeholders = len(self._link.clients())
        count = max(self._placeholders, 1)
        return count, count

    def turn(self, user: LLMUser) -> None:
        """One task execution of a user."""
        if self._agent is not None:
            self._agent.turn(user)

    # --- Locust's events -------------------------------------------------------------------------------------------

    def check_options(self) -> None:
        """Refuse before load what cannot be run.

        Raises:
            UsageError: an option is wrong or missing.
        """
        if isinstance(self._runner, WorkerRunner):
            return
        options = self._options()
        if self._shape is not None and next(iter(self._shape.stages(options)), None) is None:
            raise UsageError("the shape has no stages")
        load_workload(options.prompts, seed=options.seed, max_tokens=options.max_tokens)
        target_url(self._environment)

    def test_start(self) -> None:
        """A run begins: on the master (or alone) make the controller; workers wait for its orders."""
        if isinstance(self._runner, WorkerRunner):
            return
        self._judged.clear()
        self._controller = None
        try:
            self._controller = self._new_controller()
            self._controller.start()
        except UsageError as error:
            self._fail(str(error), USAGE_EXIT)

    def spawning_complete(self) -> None:
        """All users are there: the window of a closed loop can begin."""
        if self._controller is not None and self._shape is None:
            self._controller.open_window()

    def test_stopping(self) -> None:
        """Somebody stops the test: let the run end in order before Locust tells the workers to stop."""
        controller = self._controller
        if controller is None or self._judged.is_set():
            return
        controller.interrupt("stopped before its end")
        while not self._judged.is_set():
            try:
                self._judged.wait()
            except KeyboardInterrupt:
                controller.cancel("cancelled")

    def test_stop(self) -> None:
        """The test is over, and so is the controller that ran it."""
        if not isinstance(self._runner, WorkerRunner):
            self._forget_run()

    def quitting(self) -> None:
        """The process is about to end: a worker first lets the master end the stage in order."""
        if self._agent is None or not isinstance(self._runner, WorkerRunner):
            return
        while True:
            try:
                self._agent.finish_before_quitting()
                break
            except KeyboardInterrupt:  # the master has it too, and decides what is cancelled
                continue
        if self._environment.process_exit_code is None:
            self._environment.process_exit_code = 0  # failed requests are the run's result, not a failure of the worker

    def quit(self) -> None:
        """Locust has printed its tables: ours come last, so that the verdict is what a person sees."""
        if self._verdict:
            print(self._verdict, end="", flush=True)
            self._verdict = ""

    # --- a run -----------------------------------------------------------------------------------------------------

    def _new_controller(self) -> RunController:
        options = self._options()
        stages = list(self._shape.stages(options)) if self._shape is not None else [self._closed_stage(options)]
        run, manifest = set_up_run(self._environment, options)
        self.model = run.model
        return RunController(
            self._link,
            self._clock,
            self._roster,
            run,
            manifest,
            iter(stages),
            stage_count=len(stages),
            progress=RunProgress(self._clock),
            on_over=self._judge,
        )

    def _closed_stage(self, options: RunOptions) -> StageSpec:
        """Without a shape of ours, Locust's users are a closed loop that lasts until it is stopped."""
        return StageSpec(
            stage=0,
            mode="closed",
            concurrency=self._runner.target_user_count,
            warmup_s=options.warmup_s if options.warmup_given else 0.0,
            window_s=None,
            cooldown_s=0.0,
            seed=options.seed,
            first_index=0,
        )

    def _judge(self, controller: RunController) -> None:
        """The raw files are complete: merge and judge them in a process of its own, as a person would later."""
        if controller.error is not None and not controller.manifest.stages:
            self._fail(controller.error, USAGE_EXIT)
            return
        code, table = _merge(str(controller.folder.path))
        self._verdict += table
        if controller.ending == "failed":
            self._verdict += f"The run ended early: {controller.error}\n"
            code = CRASH_EXIT
        if not self._headless:
            self.quit()
        self._end(code)

    def _fail(self, message: str, code: int) -> None:
        logger.error(message)
        self._runner.log_exception("local", message, "")
        self._end(code)

    def _end(self, code: int) -> None:
        self._environment.process_exit_code = code
        self._judged.set()
        if self._shape is None:  # a shape ends the test by its next tick; without one nobody else would
            gevent.spawn(self._runner.quit if self._headless else self._runner.stop)

    def _forget_run(self) -> None:
        self._controller = None
        self._placeholders = None

    def _tell_controller(self, told: FromWorker, client_id: str) -> None:
        if self._controller is not None:
            self._controller.receive(told, client_id)

    # --- what the agent asks ---------------------------------------------------------------------------------------

    def _builders(self) -> dict[str, RequestBuilder]:
        return {user.__name__: user(self._environment) for user in llm_users(self._environment)}

    def _connect(self, run: RunSpec, clock: Clock) -> StreamClient:
        self.model = run.model
        return StreamClient(run.host, clock, connect_timeout_s=min(run.deadline_s, CONNECT_S))

    def _observe(self, record: RequestRecord, reply: Reply | None, builder: RequestBuilder) -> None:
        assert isinstance(builder, LLMUser)
        report_request(self._environment, record, reply, builder)

    # --- facts -----------------------------------------------------------------------------------------------------

    @property
    def _shape(self) -> StageShape | None:
        shape = self._environment.shape_class
        return shape if isinstance(shape, StageShape) else None

    @property
    def _headless(self) -> bool:
        return bool(self._environment.parsed_options and self._environment.parsed_options.headless)

    def _options(self) -> RunOptions:
        assert self._environment.parsed_options is not None
        return read_options(self._environment.parsed_options)


def _merge(folder: str) -> tuple[int, str]:
    """Exit code and printed table of ``llm-locust merge``."""
    terminal = sys.stdout.isatty()
    width = os.get_terminal_size().columns if terminal else 120
    merge = subprocess.run(
        [sys.executable, "-m", "llm_locust", "merge", folder],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": str(width), **({"FORCE_COLOR": "1"} if terminal else {})},
    )
    return merge.returncode, merge.stdout


def register() -> None:
    """Listen to Locust's events. Called once, when a locustfile imports this project."""

    @events.init_command_line_parser.add_listener
    def on_parser(parser: LocustArgumentParser, **_: object) -> None:
        add_options(parser)

    @events.init.add_listener
    def on_init(environment: Environment, runner: Runner, web_ui: WebUI | None = None, **_: object) -> None:
        plugin = Plugin(environment, runner)
        environment.llm_locust = plugin  # type: ignore[attr-defined]
        if web_ui is None:
            try:
                plugin.check_options()
            except UsageError as error:
                print(f"locust: error: {error}", file=sys.stderr)
                sys.exit(USAGE_EXIT)
        hooks = environment.events
        hooks.test_start.add_listener(lambda **_: plugin.test_start())
        hooks.spawning_complete.add_listener(lambda **_: plugin.spawning_complete())
        hooks.test_stopping.add_listener(lambda **_: plugin.test_stopping())
        hooks.test_stop.add_listener(lambda **_: plugin.test_stop())
        hooks.quitting.add_listener(lambda **_: plugin.quitting())
        hooks.quit.add_listener(lambda **_: plugin.quit())

    events.llm_request = llm_request  # type: ignore[attr-defined]
