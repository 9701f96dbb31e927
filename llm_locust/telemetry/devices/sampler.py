"""The sampler: a sample of the processes and of every GPU each interval, into the file and onto the page, until it is over.

It ends when its time is up, when the process ends or when it is told to; in all three cases the file is whole.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import msgspec

from llm_locust.records import Clock, UsageError
from llm_locust.records.device_sample import (
    DeviceSample,
    Ending,
    TelemetryClock,
    TelemetryHead,
    TelemetryProcess,
)
from llm_locust.telemetry.devices.clock_offset import boot_id
from llm_locust.telemetry.devices.machine import shares_memory, this_machine
from llm_locust.telemetry.devices.nvml import Gpus, NoGpus
from llm_locust.telemetry.devices.page import SamplePage, serve_page
from llm_locust.telemetry.devices.patience import Patient
from llm_locust.telemetry.devices.processes import ProcessTree
from llm_locust.telemetry.devices.sample_file import SampleFile
from llm_locust.telemetry.devices.waiting import Waiting

PATIENCE_S = 2.0
"""How long the driver may take for one look at the GPUs."""
LOOK_S = 1.0
"""No longer than this between two looks at whether the process lives."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What to sample, for how long, and where to."""

    output: Path
    pid: int | None = None
    """``None``: the GPUs only."""
    duration_s: float | None = None
    """``None``: until the process ends, or a signal comes."""
    interval_s: float = 1.0
    run_id: str | None = None
    port: int | None = None
    """``None``: no page is served."""
    bind: str = "127.0.0.1"
    gpus: frozenset[int] | None = None
    """``None``: all of them."""
    pss: bool = False

    def __post_init__(self) -> None:
        for name, seconds in (("duration", self.duration_s), ("interval", self.interval_s)):
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                raise UsageError(f"--{name} {seconds:g}: give a number of seconds greater than 0")


def sample_devices(sampling: Sampling, say: Callable[[str], None]) -> None:
    """Sample until it is over, and write the file.

    Args:
        sampling: what, how long and where to.
        say: gets a line when sampling has begun, on what goes wrong, and at the end.

    Raises:
        UsageError: no such process, no such GPU, nothing to sample, a port that is taken, a file that cannot be written.
        OSError: the disk filled up; what was sampled before is in the partial file.
    """
    clock = Clock()
    with ExitStack() as stack:
        waiting = stack.enter_context(Waiting(sampling.pid))
        machine = _Machine(sampling)
        stack.callback(machine.close)
        head = _head(sampling, machine, clock)
        page = SamplePage(head, clock)
        if sampling.port is not None:
            address, stop = serve_page(page, sampling.bind, sampling.port)
            stack.callback(stop)
            say(f"serving {address}")
        file = SampleFile(sampling.output, head)
        stack.callback(file.close)
        if file.moved_aside is not None:
            say(f"a sampler that was killed had left its samples: they are kept as {file.moved_aside}")
        run = _Run(sampling, machine, waiting, clock, file, page, say)
        ended = run.until_over()
        file.finish(ended, clock.now_ns(), clock.wall_step_ns())
        say(run.done(ended))


class _Machine:
    """The processes and GPUs that are sampled, together."""

    def __init__(self, sampling: Sampling) -> None:
        self.tree = None if sampling.pid is None else ProcessTree(sampling.pid, pss=sampling.pss)
        self.gpus: Gpus | None = None
        self.no_gpus: str | None = None
        try:
            self.gpus = Gpus(sampling.gpus)
        except NoGpus as none:
            self.no_gpus = str(none)
            if sampling.gpus is not None:
                raise UsageError(
                    f"--gpus: no GPU can be sampled here ({none}); "
                    "leave the option out to sample a process alone (--pid)"
                ) from None
        if self.tree is None and self.gpus is None:
            raise UsageError(f"nothing to sample: no --pid was given, and there is no GPU ({self.no_gpus}); give --pid")
        if self.tree is not None and (shares_memory() or (self.gpus is not None and self.gpus.unified)):
            self.tree.memory_kind = "unified"
        self._driver = None if self.gpus is None else Patient(self.gpus.sample, PATIENCE_S)

    @property
    def process(self) -> TelemetryProcess | None:
        return None if self.tree is None else self.tree.facts

    def sample(self, at_ns: int) -> list[DeviceSample]:
        samples = []
        if self.tree is not None:
            tree = self.tree.sample(at_ns)
            samples += [] if tree is None else [tree]
        if self.gpus is not None and self._driver is not None:
            pids = frozenset() if self.tree is None else self.tree.pids
            of_gpus = self._driver.ask(at_ns, pids)
            if of_gpus is None:
                of_gpus = self.gpus.unanswered(at_ns, f"the driver did not answer within {self._driver.patience_s:g} s")
            samples += of_gpus
        return samples

    def close(self) -> None:
        if self.gpus is not None and self._driver is not None and not self._driver.hanging:
            self.gpus.close()


class _Run:
    """One sampling, from the first sample to the reason why it ended."""

    def __init__(
        self,
        sampling: Sampling,
        machine: _Machine,
        waiting: Waiting,
        clock: Clock,
        file: SampleFile,
        page: SamplePage,
        say: Callable[[str], None],
    ) -> None:
        self._sampling = sampling
        self._machine = machine
        self._waiting = waiting
        self._clock = clock
        self._file = file
        self._page = page
        self._say = say
        self._errors: dict[int | None, str] = {}
        self._taken = 0
        self._peaks: dict[str, int] = {}
        self._seconds = 0.0

    def until_over(self) -> Ending:
        """Sample until there is a reason to stop, and return it."""
        begin = time.monotonic()
        interval, duration = self._sampling.interval_s, self._sampling.duration_s
        over = math.inf if duration is None else begin + duration
        if self._machine.gpus is not None:
            for problem in self._machine.gpus.problems:
                self._tell(problem)
        tick = 0
        while True:
            self._sample()
            if tick == 0:
                self._say(self._begun())
            # Samples that are late are left out, not made up for.
            tick = max(tick + 1, math.ceil((time.monotonic() - begin) / interval))
            due = begin + tick * interval
            # A duration that is a multiple of the interval has a last sample at its very end.
            ended = self._wait(over if due > over + interval / 1000 else due)
            if ended is None and due > over + interval / 1000:
                ended = "duration"
            if ended is not None:
                self._seconds = time.monotonic() - begin
                return ended

    def done(self, ended: Ending) -> str:
        """What to say at the end."""
        why = ""
        if ended == "signal":
            why = f"{self._waiting.signalled} after {self._seconds:.1f} s: "
        elif ended == "process_ended":
            why = f"process {self._sampling.pid} ended after {self._seconds:.1f} s: "
        peaks = "".join(f", peak {name} {value / 1e9:.3f} GB" for name, value in self._peaks.items())
        return f"{why}{self._taken} samples in {self._sampling.output}{peaks}"

    def _wait(self, until: float) -> Ending | None:
        tree, waiting = self._machine.tree, self._waiting
        while True:
            if waiting.signalled:
                return "signal"
            if waiting.process_ended or (tree is not None and tree.ended):
                return "process_ended"
            left = until - time.monotonic()
            if left <= 0:
                return None
            waiting.wait(min(left, LOOK_S))  # for the end of the process, where nothing wakes us at it

    def _sample(self) -> None:
        at_ns = self._clock.now_ns()
        samples = self._machine.sample(at_ns)
        for sample in samples:
            self._file.add(sample)
        self._page.show(samples)
        self._taken += bool(samples)
        for sample in samples:
            if sample.kind == "gpu":
                self._watch(sample)
            self._keep_peaks(sample)

    def _watch(self, sample: DeviceSample) -> None:
        before = self._errors.get(sample.gpu)
        if sample.error is not None and sample.error != before:
            self._errors[sample.gpu] = sample.error
            self._tell(f"GPU {sample.gpu}: {sample.error}", sample.at_ns)
        elif sample.error is None and before is not None:
            del self._errors[sample.gpu]
            self._tell(f"GPU {sample.gpu} answers again", sample.at_ns)

    def _tell(self, text: str, at_ns: int | None = None) -> None:
        self._file.note(self._clock.now_ns() if at_ns is None else at_ns, text)
        self._say(text)

    def _keep_peaks(self, sample: DeviceSample) -> None:
        if sample.kind == "gpu":
            peak = (f"GPU {sample.gpu} memory", sample.memory_used_bytes)
        else:
            peak = ("resident memory", sample.rss_bytes)
        if peak[1] is not None:
            self._peaks[peak[0]] = max(self._peaks.get(peak[0], 0), peak[1])

    def _begun(self) -> str:
        machine, sampling = self._machine, self._sampling
        what = [] if machine.process is None else [f"process {machine.process.pid} ({machine.process.name})"]
        if machine.gpus is None:
            what.append(f"no GPU ({machine.no_gpus})")
        else:
            what += [f"GPU {gpu.gpu} ({gpu.name})" for gpu in machine.gpus.facts]
        long = "until it is stopped" if sampling.duration_s is None else f"for {sampling.duration_s:g} s"
        return f"sampling {', '.join(what)} every {sampling.interval_s:g} s {long}"


def _head(sampling: Sampling, machine: _Machine, clock: Clock) -> TelemetryHead:
    gpus = machine.gpus
    return TelemetryHead(
        llm_locust=version("llm-locust"),
        session=secrets.token_hex(8),
        run_id=sampling.run_id,
        started_ns=clock.now_ns(),
        interval_s=sampling.interval_s,
        clock=TelemetryClock(anchor_ns=clock.anchor_ns, boot_id=boot_id()),
        machine=this_machine(),
        process=machine.process,
        gpu_available=gpus is not None,
        gpu_reason=machine.no_gpus,
        driver_version=None if gpus is None else gpus.driver_version,
        cuda_version=None if gpus is None else gpus.cuda_version,
        gpus=[] if gpus is None else gpus.facts,
    )
