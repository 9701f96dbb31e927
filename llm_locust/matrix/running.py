"""Going through a matrix: engine after engine, run after run, each step in the ledger, until all is done or it is stopped.

An engine that does not start, or a run that fails, is named and the others go on. The first Ctrl-C lets the run in progress
drain and be judged, the second cancels what is in flight, the third kills; ``--mode`` and folder go on where they were.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from llm_locust.child_processes import LOOK_S, Interrupted, counted_interrupts, interrupt_for
from llm_locust.matrix import engine as engines
from llm_locust.matrix.commands import Files, locust_command, server_command, simulator_command
from llm_locust.matrix.config import RUN, SMOKE, MatrixConfig, placeholders
from llm_locust.matrix.engine import NotUp, Started
from llm_locust.matrix.ledger import Ledger, UnitStatus
from llm_locust.matrix.plan_files import facts_of, url_of, write_plan, write_text
from llm_locust.matrix.results import Results, read_results
from llm_locust.matrix.results_files import write_results
from llm_locust.matrix.scenarios import Unit, Variant, units, variants
from llm_locust.ports import free_port
from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.exit_codes import JUDGED
from llm_locust.records.text import one_line

SMOKE_AT_ONCE = 3
"""Variants that a smoke test runs side by side: it waits more than it works, and measures nothing."""
SMOKE_START_S = 60.0
SMOKE_STOP_S = 10.0
TELEMETRY_START_S = 15.0
AFTER_ENGINE_S = (0.0, 5.0, 30.0)
"""When a run whose engine has ended is told to stop, to cancel, and killed."""

Say = Callable[[str], None]


class _Serving(NamedTuple):
    """An engine that is up."""

    url: str
    metrics: tuple[str, ...]
    """Pages to read beside its own."""
    process: Started | None
    """``None``: it was running already."""


def refuse_unfinished(config: MatrixConfig) -> None:
    """What a real run needs and nobody has filled in.

    Raises:
        UsageError: a placeholder is left, a path or a command is not there.
    """
    if found := placeholders(config):
        listed = "\n".join(f"  {key} = {text!r}" for key, text in found)
        raise UsageError(
            f"--mode run needs real values in place of these:\n{listed}\nFill them in, in a copy given by --config"
        )
    started = [variant for variant in variants(config) if variant.name not in config.engine.urls]
    first = config.engine.command[0]
    if started and first not in ("llm-locust", "locust") and shutil.which(config.fill(first)) is None:
        raise UsageError(
            f"engine.command: {first!r} is not on this machine's path: install the engine, give its path, or point "
            "engine.urls at engines that run already"
        )
    model = str(config.values.get("model", ""))
    if started and model.startswith(("/", "./", "../", "~")) and not Path(model).expanduser().exists():
        raise UsageError(f"values.model: there is no {model}")


def run_matrix(config: MatrixConfig, mode: str, folder: Path, say: Say) -> Results:
    """Run everything that is not done yet, and write down and return what there is then.

    Args:
        config: The matrix; for a smoke test already made short.
        mode: :data:`RUN` or :data:`SMOKE`.
        folder: Where everything is kept.
        say: Told how it goes, a line at a time.

    Raises:
        UsageError: it cannot be run, or the folder holds another matrix.
    """
    if mode == RUN:
        refuse_unfinished(config)
    names = [unit.name for unit in units(config)]
    with Ledger.opened(folder, mode, config, names) as ledger, counted_interrupts() as stop:
        files = Files(folder.resolve())
        write_plan(config, mode, folder)
        going = _Going(config, mode, files, ledger, stop, say)
        going.through()
        results = read_results(config, ledger.state, files.folder)
        write_results(results, files.folder)
        return results


class _Going:
    """One go through what is left of a matrix."""

    def __init__(
        self, config: MatrixConfig, mode: str, files: Files, ledger: Ledger, stop: Interrupted, say: Say
    ) -> None:
        self._config = config
        self._smoke = mode == SMOKE
        self._files = files
        self._ledger = ledger
        self._stop = stop
        self._tell = say
        self._all = units(config)

    def through(self) -> None:
        """Every variant that has something left; side by side only where nothing is measured."""
        left = {variant.name: self._left(variant) for variant in variants(self._config)}
        done = len(self._all) - sum(map(len, left.values()))
        if done:
            self._say(f"{done} of {len(self._all)} runs are done already")
        if not any(left.values()):
            return
        self._ask_engine()
        with ThreadPoolExecutor(SMOKE_AT_ONCE if self._smoke else 1) as pool:
            jobs = [
                pool.submit(self._serve, variant, left[variant.name])
                for variant in variants(self._config)
                if left[variant.name]
            ]
            self._await(jobs)

    def _await(self, jobs: list[Future[None]]) -> None:
        pending = set(jobs)
        while pending:  # by turns, so that signals are heard
            over, pending = wait(pending, LOOK_S, FIRST_EXCEPTION)
            failed = next((error for job in over if (error := job.exception()) is not None), None)
            if failed is not None:
                self._stop.again()
                raise failed

    def _left(self, variant: Variant) -> list[Unit]:
        states = self._ledger.state.units
        return [unit for unit in self._all if unit.variant.name == variant.name and states[unit.name].status != "done"]

    # --- engines ---------------------------------------------------------------------------------------------------

    def _serve(self, variant: Variant, left: list[Unit]) -> None:
        """The runs of one variant on one engine, started again only if it has ended."""
        pending = list(left)
        while pending and not self._stop.event.is_set():
            try:
                with self._engine(variant) as serving:
                    self._ledger.engine_started(variant.name)
                    while pending and not self._stop.event.is_set():
                        self._run(pending.pop(0), serving)
                        if serving.process is not None and serving.process.code is not None:
                            break
            except NotUp as why:
                if not self._stop.event.is_set():
                    self._ledger.engine_failed(variant.name, str(why))
                    self._say(f"{variant.name}: the engine did not start: {why}; going on without it")
                return

    @contextlib.contextmanager
    def _engine(self, variant: Variant) -> Iterator[_Serving]:
        """The engine of a variant, up for as long as the block lasts.

        Raises:
            NotUp: it does not come up, or the one that should be running does not answer.
        """
        engine = self._config.engine
        if variant.name in engine.urls and not self._smoke:
            url = engine.urls[variant.name]
            if not engines.answers(url, engine.health):
                raise NotUp(f"{url}{engine.health} does not answer with 200")
            yield _Serving(url, (), None)
            return
        port = engine.port if engine.port and not self._smoke else free_port()
        host = "127.0.0.1" if self._smoke else engine.host
        if engines.taken(host, port):
            raise NotUp(f"port {port} of {host} is taken: end what listens there, or choose another engine.port")
        words = (simulator_command if self._smoke else server_command)(self._config, variant, port)
        place = self._files.folder / "engines" / variant.name
        self._say(f"{variant.name}: starting {'the simulator' if self._smoke else engine.name}")
        process = Started(words, place / "engine.log", _engine_environment(self._config, smoke=self._smoke))
        try:
            with self._ledger.knowing(process.pid, f"engine of {variant.name}"):
                with self._sampling(process, place) as metrics:
                    url = f"http://{host}:{port}" if self._smoke else url_of(self._config, variant, port)
                    limit_s = SMOKE_START_S if self._smoke else engine.start_seconds
                    engines.await_up(
                        process, url, "/health" if self._smoke else engine.health, limit_s, self._stop.event
                    )
                    yield _Serving(url, metrics, process)
                process.stop(SMOKE_STOP_S if self._smoke else engine.stop_seconds)
        finally:
            process.stop(0)

    @contextlib.contextmanager
    def _sampling(self, engine: Started, place: Path) -> Iterator[tuple[str, ...]]:
        """Samples of its memory and of the GPUs from its start on, as a page to read; nothing when that does not work."""
        if self._smoke or not self._config.engine.telemetry:
            yield ()
            return
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        output = place / f"telemetry-{engine.pid}.json"
        words = ["llm-locust", "telemetry", "--pid", str(engine.pid), "--output", str(output), "--port", str(port)]
        process = Started(words, place / "telemetry.log", os.environ)
        try:
            with self._ledger.knowing(process.pid, "telemetry"):
                try:
                    engines.await_up(process, url, "/metrics", TELEMETRY_START_S, self._stop.event)
                except NotUp as why:
                    if engine.code is None:
                        self._say(f"its memory is not sampled: {why}")
                    yield ()
                else:
                    yield (f"{url}/metrics",)
        finally:
            process.stop(SMOKE_STOP_S)

    def _ask_engine(self) -> None:
        """Keep what the engine says of its version and flags; what does not fit is noted."""
        engine, state = self._config.engine, self._ledger.state
        started = [variant for variant in variants(self._config) if self._smoke or variant.name not in engine.urls]
        if not started:
            return
        place = self._files.folder / "engine"
        version = ["llm-locust", "--version"] if self._smoke else engine.version_command
        usage = ["llm-locust", "simulate", "--help"] if self._smoke else engine.help_command
        environment = _engine_environment(self._config, smoke=self._smoke)
        notes: list[str] = []
        if version:
            said = engines.output_of(
                [self._config.fill(word) for word in version],
                environment,
                lambda text: write_text(place / "version.txt", text),
            )
            state.engine_said = None if said is None else one_line(said, 200)
            if said is not None and not self._smoke and engine.version not in said.split():
                notes.append(f"{' '.join(version)} says {state.engine_said!r}, not {engine.version}")
        if usage:
            text = engines.output_of(
                [self._config.fill(word) for word in usage],
                environment,
                lambda text: write_text(place / "help.txt", text),
            )
            command = simulator_command if self._smoke else server_command
            flags = [
                flag
                for variant in started
                for flag in engines.unknown_flags(command(self._config, variant, 1), text or "")
            ]
            if text is None:
                notes.append(f"{' '.join(usage)} failed, so its flags were not looked at")
            elif flags:
                notes.append(f"its help does not name {', '.join(dict.fromkeys(flags))}")
        state.notes = notes
        self._ledger.save()
        for note in notes:
            self._say(f"{engine.name}: {note}")

    # --- runs ------------------------------------------------------------------------------------------------------

    def _run(self, unit: Unit, serving: _Serving) -> None:
        """One locust run, from its start to its end in the ledger."""
        folder = self._files.run_dir(unit)
        before = set(folder.glob("*"))
        facts = self._files.facts(unit.variant)
        words = locust_command(
            self._config,
            unit,
            url=serving.url,
            files=self._files,
            metrics=serving.metrics,
            facts=facts if facts_of(self._config, unit.variant) and not self._smoke else None,
        )
        self._say(f"[{self._all.index(unit) + 1}/{len(self._all)}] {unit.name}")
        self._ledger.begin(unit.name)
        try:
            locust = Started(
                words, self._files.folder / "logs" / f"{unit.name}.log", _load_environment(), self._files.folder
            )
        except NotUp as why:
            self._ledger.end(unit.name, "failed", reason=str(why))
            return
        with self._ledger.knowing(locust.pid, f"locust of {unit.name}"):
            try:
                code = self._until_over(locust, serving.process)
            finally:
                locust.stop(0)
        made = sorted(set(folder.glob("*")) - before)
        run = made[-1] if made else None
        reason = self._why_not_done(run, code, locust)
        if serving.process is not None and (ended := serving.process.code) is not None:
            reason = f"the engine ended meanwhile, with exit code {ended}: {serving.process.last_words()}"
        shown = None if run is None else str(run.relative_to(self._files.folder))
        if reason is None:
            self._ledger.end(unit.name, "done", run=shown, code=code)
            return
        status: UnitStatus = "interrupted" if self._stop.event.is_set() else "failed"
        self._ledger.end(unit.name, status, reason=reason, run=shown, code=code)
        self._say(f"{unit.name}: {status}: {reason}")

    def _until_over(self, locust: Started, engine: Started | None) -> int:
        """Wait for a run, and hand on every Ctrl-C that comes; the third kills. An engine that has ended counts as some."""
        handed_on, ended_at = 0, None
        while (code := locust.wait(LOOK_S)) is None:
            presses = self._stop.times
            if engine is not None and engine.code is not None:
                ended_at = ended_at or time.monotonic()
                presses += sum(time.monotonic() - ended_at >= after for after in AFTER_ENGINE_S)
            if presses > handed_on:
                handed_on = presses
                locust.signal(interrupt_for(handed_on))
        return code

    def _why_not_done(self, run: Path | None, code: int, locust: Started) -> str | None:
        """Why a run is not finished; ``None`` when it is."""
        if run is None or not RunFolder(run).manifest.exists():
            return f"locust ended with exit code {code}: {locust.last_words()}"
        manifest = Manifest.load(RunFolder(run).manifest)
        if manifest.state != "complete":
            why = manifest.state_reason or locust.last_words()
            return f"the run {'failed' if manifest.state == 'failed' else 'was cut short'}: {why}"
        if code not in JUDGED or not RunFolder(run).summary.exists():
            return f"it was not judged: locust ended with exit code {code}: {locust.last_words()}"
        return None

    def _say(self, line: str) -> None:
        self._tell(line)


def _engine_environment(config: MatrixConfig, *, smoke: bool) -> Mapping[str, str]:
    return {**os.environ, **({} if smoke else config.engine.environment)}


def _load_environment() -> Mapping[str, str]:
    """What is there, without options of locust that somebody has set for runs of their own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LOCUST")}
