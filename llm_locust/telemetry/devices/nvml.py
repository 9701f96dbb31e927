"""NVIDIA GPUs through NVML (``nvidia-ml-py``): what one look at each of them tells.

Every value is asked for alone: a GPU that does not know one (``Not Supported``) leaves that one null. A GPU that is lost
gives a sample with nothing but its error, and is asked again the next time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from llm_locust.records import UsageError
from llm_locust.records.device_sample import DeviceSample, MemoryKind, TelemetryGpu, clock_reasons

_LOST = (
    "NVML_ERROR_GPU_IS_LOST",
    "NVML_ERROR_RESET_REQUIRED",
    "NVML_ERROR_GPU_NOT_FOUND",
    "NVML_ERROR_UNINITIALIZED",
    "NVML_ERROR_DRIVER_NOT_LOADED",
)
"""Errors of the device, not of one question."""


class _Gpu(NamedTuple):
    handle: Any
    facts: TelemetryGpu
    memory_kind: MemoryKind


class _Lost(Exception):
    """The device answers no question any more."""


class Gpus:
    """The NVIDIA GPUs of this machine.

    Args:
        chosen: indices of those to sample; ``None`` for all.
        library: the module ``pynvml``.

    Raises:
        NoGpus: there is none that could be asked; the message says why.
        UsageError: a chosen one is not there.
    """

    def __init__(self, chosen: Collection[int] | None = None, library: Any = None) -> None:
        self._nvml = _library() if library is None else library
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise NoGpus(f"NVML: {error}") from None
        if count == 0:
            raise NoGpus("NVML: the driver knows no GPU")
        if missing := sorted(set(chosen or ()) - set(range(count))):
            raise UsageError(f"--gpus: there is no GPU {missing[0]}; this machine has {_listed(range(count))}")
        self._lost = {getattr(self._nvml, name, None) for name in _LOST}
        self.problems: list[str] = []
        """GPUs that could not even be looked at."""
        self._gpus = [gpu for index in sorted(chosen or range(count)) if (gpu := self._open(index)) is not None]
        if not self._gpus:
            raise NoGpus("; ".join(self.problems))
        self.driver_version: str | None = self._fact("nvmlSystemGetDriverVersion")
        cuda = self._fact("nvmlSystemGetCudaDriverVersion_v2")
        self.cuda_version = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"

    @property
    def facts(self) -> list[TelemetryGpu]:
        """The GPUs that are sampled."""
        return [gpu.facts for gpu in self._gpus]

    @property
    def unified(self) -> bool:
        """Whether a GPU has no memory of its own: the driver then tells of none."""
        return any(gpu.memory_kind == "unified" for gpu in self._gpus)

    def sample(self, at_ns: int, pids: Collection[int] = ()) -> list[DeviceSample]:
        """One sample of each GPU.

        Args:
            at_ns: the time that they are given.
            pids: the processes whose memory on the GPU is wanted. The driver tells ids of its own machine: in a container
                with ids of its own none of them is found, and their memory is then null, not 0.
        """
        found = [self._sample(gpu, at_ns, frozenset(pids)) for gpu in self._gpus]
        if not any(listed and sample.process_memory_bytes is not None for sample, listed in found):
            return [sample for sample, _ in found]
        for sample, listed in found:
            if listed is False:  # the ids are those of this machine, so this GPU truly has none of them
                sample.process_memory_bytes = 0
        return [sample for sample, _ in found]

    def unanswered(self, at_ns: int, error: str) -> list[DeviceSample]:
        """In place of the samples when the driver gave none."""
        samples = [_empty(gpu, at_ns) for gpu in self._gpus]
        for sample in samples:
            sample.error = error
        return samples

    def close(self) -> None:
        """Let go of the library."""
        self._fact("nvmlShutdown")

    def _open(self, index: int) -> _Gpu | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            self.problems.append(f"GPU {index} could not be looked at: {error}")
            return None
        kind: MemoryKind = "vram"
        total = None
        try:
            total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                kind = "unified"
        facts = TelemetryGpu(
            gpu=index,
            uuid=self._fact("nvmlDeviceGetUUID", handle),
            name=self._fact("nvmlDeviceGetName", handle),
            memory_total_bytes=total,
            power_limit_w=_scaled(self._fact("nvmlDeviceGetEnforcedPowerLimit", handle), 1000),
        )
        return _Gpu(handle, facts, kind)

    def _sample(self, gpu: _Gpu, at_ns: int, pids: frozenset[int]) -> tuple[DeviceSample, bool | None]:
        """A sample, and whether some of the processes are on the GPU; ``None`` when the driver lists none at all."""
        sample = _empty(gpu, at_ns)
        errors: list[str] = []
        listed: bool | None = None
        try:
            listed = self._fill(sample, gpu.handle, pids, errors)
        except _Lost as lost:
            sample = _empty(gpu, at_ns)
            sample.error = str(lost)
        else:
            if sample == _empty(gpu, at_ns) and errors:
                sample.error = errors[0]
        return sample, listed

    def _fill(self, sample: DeviceSample, handle: Any, pids: frozenset[int], errors: list[str]) -> bool | None:
        def ask(name: str, *arguments: Any) -> Any:
            return self._ask(errors, name, handle, *arguments)

        # The second version leaves out what the driver reserves, as nvidia-smi and DCGM do; old drivers know the first only.
        memory = ask("nvmlDeviceGetMemoryInfo", getattr(self._nvml, "nvmlMemory_v2", None))
        memory = memory or ask("nvmlDeviceGetMemoryInfo")
        if memory is not None:
            sample.memory_used_bytes, sample.memory_total_bytes = int(memory.used), int(memory.total)
        use = ask("nvmlDeviceGetUtilizationRates")
        if use is not None:
            sample.utilisation_pct, sample.memory_utilisation_pct = float(use.gpu), float(use.memory)
        sample.power_w = _scaled(ask("nvmlDeviceGetPowerUsage"), 1000)
        sample.power_limit_w = _scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 1000)
        sample.temperature_c = _scaled(ask("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU))
        sample.sm_clock_mhz = _scaled(ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM))
        mask = ask("nvmlDeviceGetCurrentClocksEventReasons")
        if mask is None:  # its name before driver 535
            mask = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        sample.clock_reasons = None if mask is None else clock_reasons(mask)
        running = ask("nvmlDeviceGetComputeRunningProcesses")
        if running is None:
            running = ask("nvmlDeviceGetComputeRunningProcesses_v2")  # drivers before 510
        if running is None:
            return None
        ours = [process.usedGpuMemory for process in running if process.pid in pids]
        sample.process_memory_bytes = sum(ours) if ours and None not in ours else None
        return bool(ours)

    def _ask(self, errors: list[str], name: str, *arguments: Any) -> Any:
        """The answer to one question, or ``None``, and then why.

        Raises:
            _Lost: the device is lost, not this answer alone.
        """
        question = getattr(self._nvml, name, None)
        if question is None:
            errors.append(f"nvidia-ml-py has no {name}")
            return None
        try:
            return question(*arguments)
        except self._nvml.NVMLError as error:
            if error.value in self._lost:
                raise _Lost(str(error)) from None
            errors.append(str(error))
        except getattr(self._nvml, "NVMLLibraryMismatchError", ()):  # the driver is older than the question
            errors.append(f"the driver has no {name}")
        return None

    def _fact(self, name: str, *arguments: Any) -> Any:
        try:
            answer = self._ask([], name, *arguments)
        except (_Lost, UnicodeDecodeError):
            return None
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


class NoGpus(Exception):
    """No GPU can be sampled; the message says why."""


def _library() -> Any:
    try:
        import pynvml
    except ImportError:
        raise NoGpus("the Python package nvidia-ml-py is not installed") from None
    return pynvml


def _empty(gpu: _Gpu, at_ns: int) -> DeviceSample:
    facts = gpu.facts
    return DeviceSample(
        at_ns=at_ns, kind="gpu", gpu=facts.gpu, uuid=facts.uuid, name=facts.name, memory_kind=gpu.memory_kind
    )


def _scaled(value: Any, divisor: int = 1) -> float | None:
    return None if value is None else value / divisor


def _listed(indices: range) -> str:
    return "GPU 0 only" if len(indices) == 1 else f"GPU 0 to {indices[-1]}"
