"""What Locust calls: events in, orders out. One plugin per process, on master, worker and local runner alike."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, Literal

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.runners import LocalRunner, MasterRunner, Runner, WorkerRunner

from llm_locust.dispatch import (
    FromWorker,
    Link,
    PinnedUsers,
    Prepared,
    Preparing,
    Progress,
    Roster,
    Rows,
    RunController,
    StageDone,
    WorkerAgent,
)
from llm_locust.plugin.before_load import (
    prepare_server,
    refuse_what_cannot_be_measured,
    stages_of,
    wait_for_server,
)
from llm_locust.plugin.interrupts import BEFORE_LOAD, Interrupts, hand_on, leave, say
from llm_locust.plugin.judging import failed_stage, merge, newest_result
from llm_locust.plugin.options import RunOptions, read_options
from llm_locust.plugin.outputs import Outputs, run_progress
from llm_locust.plugin.readying import ready_run
from llm_locust.plugin.run_setup import checked_by, llm_users, target_url
from llm_locust.plugin.sending import Sending
from llm_locust.plugin.shape import StageShape
from llm_locust.plugin.sinks import Sinks
from llm_locust.records import Clock, ExitCode, StageSpec, UsageError
from llm_locust.streaming import names_a_secret
from llm_locust.users.base import LLMUser
from llm_locust.users.headers import proxy_here, refuse_secrets_for, request_headers
from llm_locust.workload import load_workload

if TYPE_CHECKING:
    from llm_locust.live.run import LiveRun
    from llm_locust.plugin.server_telemetry import ServerTelemetry

logger = logging.getLogger(__name__)


class Plugin(Sending):
    """This project inside one Locust process."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        super().__init__(environment)
        self._runner = runner
        self._clock = Clock()
        self.host_from_page = False
        """The host was typed on a web page: no secret is sent to it."""
        self._agent: WorkerAgent | None = None
        if isinstance(runner, WorkerRunner | LocalRunner):
            self._agent = WorkerAgent(runner, self.builders, self._connect, self._observe)
        self.live: LiveRun | None = None
        """What is known of the run while it goes on; ``None`` on a worker."""
        self.outputs: Outputs | None = None
        """Where this process tells of its runs beside the terminal."""
        self._controller: RunController | None = None
        self._telemetry: ServerTelemetry | None = None
        self._judged = Event()
        self._being_stopped = False
        self._awaited: Literal["workers", "server"] | None = "workers"
        """What a first run waits for; ``None`` once there is one, or it has failed."""
        self._placeholders: int | None = None
        self._verdict = ""
        self._last_words = ""
        self._interrupts = Interrupts(
            self._stop_for_a_person,
            self._cancel_for_a_person,
            self._end_without_a_run,
            terminates=self._headless and not isinstance(runner, WorkerRunner),
        )
        if not isinstance(runner, WorkerRunner):
            from llm_locust.plugin.live_view import LiveView  # a worker shows nothing

            self._view = LiveView(self._clock)
            self.live = self._view.run
            self._link = Link(runner)
            self._roster = Roster(self._link, self._clock)
            self._link.on(Rows, self._tell_controller)
            self._link.on(Preparing, self._tell_controller)
            self._link.on(Prepared, self._tell_controller)
            self._link.on(Progress, self._tell_controller)
            self._link.on(StageDone, self._tell_controller)
            if self._shape is not None:
                environment.dispatcher_class = PinnedUsers

    # --- what shapes and users ask ---------------------------------------------------------------------------------

    def tick(self) -> tuple[int, float] | None:
        """How many placeholder users there should be; ``None`` when the run is over and judged."""
        if self._judged.is_set():
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

    def stop(self, how: Literal["drain", "now"]) -> bool:
        """A person stops the run from a page, as by Ctrl-C once or twice; ``False`` when there is nothing to stop.

        ``drain``: nothing more is sent, what is in flight ends or meets its deadline. ``now``: it is cancelled.
        """
        if self._controller is None or self._controller.over.is_set():
            return False
        if how == "now":
            self._cancel(self._controller, "stopped at once from the web page")
        else:
            self._interrupt(self._controller, "stopped from the web page")
        return True

    # --- Locust's events -------------------------------------------------------------------------------------------

    def check_options(self) -> RunOptions:
        """Refuse before load what cannot be run.

        Raises:
            UsageError: an option is wrong or missing.
        """
        options = self._options()
        if not llm_users(self._environment):
            raise UsageError("no user of llm_locust in the locustfile: subclass OpenAIChatUser or OpenAICompletionUser")
        self._stages(options)
        checked_by(self._environment, options)
        refuse_what_cannot_be_measured(options, load_workload(options.workload))
        target_url(self._environment)
        proxy_here(options.proxy)
        self._read_headers(options)
        return options

    def test_start(self) -> None:
        """A run begins: on the master (or alone) make the controller; workers wait for its orders."""
        if isinstance(self._runner, WorkerRunner):
            return
        self._forget_run()
        self._environment.process_exit_code = ExitCode.USAGE  # until something was sent and judged
        self._awaited = "server" if self._awaited else None
        try:
            self._controller = self._new_controller()
            self._awaited = None
            self._controller.start()
        except UsageError as error:
            self._fail(str(error), ExitCode.USAGE)
        except Exception as error:  # Locust would only log it, and run on without a run
            logger.exception("the run could not be started")
            self._fail(f"{type(error).__name__}: {error}", ExitCode.CRASH)

    def spawning_complete(self) -> None:
        """All users are there: the window of a closed loop can begin."""
        if self._controller is not None and self._shape is None:
            self._controller.open_window()

    def test_stopping(self) -> None:
        """Somebody stops the test: let the run end in order before Locust tells the workers to stop."""
        controller, judged = self._controller, self._judged
        self._being_stopped = True
        if controller is None or judged.is_set():
            return
        self._interrupt(controller, "stopped before its end" if self._link.clients() else "its last worker went away")
        while not judged.is_set():
            try:
                judged.wait()
            except KeyboardInterrupt:
                self._cancel(controller, "cancelled")

    def test_stop(self) -> None:
        """The test is over, and so is the controller that ran it."""
        if not isinstance(self._runner, WorkerRunner):
            self._forget_run()

    def quitting(self) -> None:
        """The process is about to end: the run is ended in order first, by the master, which has the say."""
        if isinstance(self._runner, WorkerRunner):
            ended = self._agent is None or self._agent.finish_before_quitting()
            if self._environment.process_exit_code is None:
                # Failed requests are a result, not a failure of the worker; a run that lost its master is undecided.
                self._environment.process_exit_code = ExitCode.DONE if ended else ExitCode.UNDECIDED
        else:
            self.test_stopping()

    def quit(self) -> None:
        """Locust has printed its tables: ours come last, so that the verdict is what a person sees."""
        if self._verdict:
            with contextlib.suppress(OSError):  # the terminal may be gone; the report is on disk
                print(self._verdict, end="", flush=True)
            self._verdict = ""
        if self._last_words and self._headless:
            print(self._last_words, end="", file=sys.stderr, flush=True)
            self._last_words = ""

    # --- a run -----------------------------------------------------------------------------------------------------

    def _new_controller(self) -> RunController:
        options = self._options()
        stages = self._stages(options)
        host = target_url(self._environment)
        key_here = self._read_headers(options)
        run, manifest, telemetry = ready_run(
            self, options, stages, host, self._clock, key_here=key_here, without_secrets=self.host_from_page
        )
        view = self._view
        assert view is not None  # this is no worker
        shape = self._shape
        adaptive = shape is not None and shape.adaptive
        controller = RunController(
            self._link,
            self._clock,
            self._roster,
            run,
            manifest,
            iter(shape.stages(options)) if shape is not None and adaptive else iter(stages),
            stage_count=None if adaptive else len(stages),
            conversations=load_workload(run.workload).converses,
            bounds=options.bounds,
            progress=Sinks([view, run_progress(self._clock, self.live, self.outputs)]),
            before_stage=lambda spec: prepare_server(spec, run, self.headers),
            before_retry=lambda: self._ready_again(host, options),
            after_stage=lambda controller: self._after_stage(controller, options),
            on_over=self._judge,
            on_rows=view.on_rows,
            on_report=view.on_report,
        )
        view.begin(manifest, controller.folder, None if adaptive else len(stages))
        if shape is not None:
            shape.judge = lambda: newest_result(controller.folder)
        self._telemetry = telemetry
        telemetry.start(controller.folder, controller.interrupt, view.on_page)
        return controller

    def _read_headers(self, options: RunOptions) -> bool:
        """This process's headers; ``False`` when the key is only on the workers, where it belongs anyway."""
        try:
            self.headers = request_headers(options.api_key_env, options.headers, basic_auth_env=options.basic_auth_env)
        except UsageError:
            if not isinstance(self._runner, MasterRunner):
                raise
            self.headers = {}
            return False
        if self.host_from_page:
            refuse_secrets_for(target_url(self._environment), self.headers, options.headers)
        return not isinstance(self._runner, MasterRunner) or any(map(names_a_secret, self.headers))

    def _ready_again(self, host: str, options: RunOptions) -> None:
        say("nothing worked in the last stage: looking whether the server is there")
        wait_for_server(host, self.headers, options)

    def _stages(self, options: RunOptions) -> list[StageSpec]:
        given = self._environment.parsed_options.num_users if self._environment.parsed_options else None
        return stages_of(self._environment, options, self._runner.target_user_count or given or 1)

    def _after_stage(self, controller: RunController, options: RunOptions) -> str | None:
        """Why the run should end here; ``None`` when it goes on."""
        if self._telemetry is not None:
            self._telemetry.between_stages()
        return failed_stage(controller.folder) if options.stop_on_fail else None

    def _judge(self, controller: RunController) -> None:
        """The raw files are complete: merge and judge them as a person would later."""
        view = self._view
        assert view is not None
        if self._telemetry is not None and controller.manifest.stages:
            self._telemetry.finish(controller.manifest, controller.folder.manifest)
        if self._interrupts.count > 0 and not controller.manifest.stages:
            say(BEFORE_LOAD)
            self._end(ExitCode.UNDECIDED)
            return
        if controller.error is not None and not controller.manifest.stages:
            broken = ExitCode.CRASH if controller.crashed else ExitCode.USAGE
            self._fail(controller.error, ExitCode.UNDECIDED if controller.work_lost else broken)
            return
        view.over(controller.manifest.state_reason)
        code, table = merge(controller.folder, html=self._options().html)
        self._verdict += table
        if controller.error is not None:
            self._verdict += f"The run ended early: {controller.error}\n"
            code = ExitCode.CRASH if controller.crashed else ExitCode.UNDECIDED
        elif code == ExitCode.USAGE and self._interrupts.count > 0:  # a person's choice is no wrong usage
            self._verdict += f"{BEFORE_LOAD.capitalize()}.\n"
            code = ExitCode.UNDECIDED
        view.judged(code, controller.folder)
        if not self._headless:
            self.quit()
        self._end(code)

    def _fail(self, message: str, code: int) -> None:
        logger.error(message)
        if self._view is not None:
            self._view.failed(message)
        self._last_words = f"locust: error: {message}\n"
        self._runner.log_exception("local", message, "")
        self._end(code)

    def _end(self, code: int) -> None:
        self._environment.process_exit_code = code
        self._awaited = None
        self._judged.set()
        if self._interrupts.take() and not self._headless:
            # Whoever pressed Ctrl-C at a web UI wants it to end, once the run is judged.
            gevent.spawn(self._hand_on_after, self._runner.shape_greenlet)
        elif self._shape is None and not self._being_stopped:
            # A shape ends the test by its next tick; without one nobody else would.
            gevent.spawn(self._runner.quit if self._headless else self._runner.stop)

    @staticmethod
    def _hand_on_after(shape: gevent.Greenlet[..., Any] | None) -> None:
        """End the process when the shape is over: with ``--autostart`` Locust would swallow it while it waits for that."""
        if shape is not None:
            shape.join()
            gevent.sleep(0)  # Locust, which waits for it too, goes on first
        hand_on()

    def _forget_run(self) -> None:
        if self._telemetry is not None:
            self._telemetry.abandon()
            self._telemetry = None
        self._controller = None
        self._placeholders = None
        self._judged = Event()
        self._being_stopped = False

    def _tell_controller(self, told: FromWorker, client_id: str) -> None:
        if self._controller is not None:
            self._controller.receive(told, client_id)

    # --- Ctrl-C ----------------------------------------------------------------------------------------------------

    def _stop_for_a_person(self) -> bool:
        if isinstance(self._runner, WorkerRunner):
            return self._agent is not None and self._agent.busy  # the master has it too, and has the say
        if self._controller is None or self._judged.is_set():
            return False
        say("stopping: nothing more is sent, what is in flight goes on; Ctrl-C again cancels it")
        self._interrupt(self._controller, "interrupted")
        return True

    def _cancel_for_a_person(self) -> None:
        if self._controller is not None:
            say("cancelling what is in flight; every request still gets its record")
            self._cancel(self._controller, "interrupted twice")

    def _end_without_a_run(self) -> None:
        """There is no run to end: before the first one that is said, and Locust ends."""
        awaited, self._awaited = self._awaited, None
        if awaited is None or not self._headless or isinstance(self._runner, WorkerRunner):
            hand_on()
            return
        say(BEFORE_LOAD)
        self._environment.process_exit_code = ExitCode.UNDECIDED
        if awaited == "server":
            hand_on()
            return
        self._runner.quit()  # workers that are there already end too
        leave(ExitCode.UNDECIDED)  # Locust has no ear for KeyboardInterrupt while it waits for workers

    def _interrupt(self, controller: RunController, reason: str) -> None:
        if self.live is not None:
            self.live.stopping("drain")
        controller.interrupt(reason)

    def _cancel(self, controller: RunController, reason: str) -> None:
        if self.live is not None:
            self.live.stopping("now")
        controller.cancel(reason)

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
