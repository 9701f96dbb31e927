"""A library like ``pynvml`` with GPUs that are made up: values, silences and what goes wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

GIB = 1024**3


class NVMLError(Exception):
    """As the real one: a value, and a text for it."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        texts = {
            3: "Not Supported",
            4: "Insufficient Permissions",
            12: "NVML Shared Library Not Found",
            15: "GPU is lost",
        }
        return texts.get(self.value, "Unknown Error")


class Gpu:
    """One made-up GPU."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.used = 10 * GIB
        self.reserved = GIB
        self.running: list[tuple[int, int | None]] = []
        self.reasons = 0
        self.errors: dict[str, int] = {}
        """By the part of a question's name (``*``: every question) the error that is raised in place of an answer."""
        self.asked: list[str] = []


class FakeNvml:
    """The functions that are asked, over a list of GPUs."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    nvmlMemory_v2 = 0x02000028

    def __init__(self, *gpus: Gpu, no_library: bool = False) -> None:
        self.gpus = gpus
        self.no_library = no_library
        self.open = 0

    def nvmlInit(self) -> None:
        if self.no_library:
            raise NVMLError(12)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12080

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        return self._told(self.gpus[index], "Handle", lambda: self.gpus[index])

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        return self._told(gpu, "UUID", lambda: gpu.uuid)

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:
        return self._told(gpu, "Name", lambda: "Made-up H100")

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu, version: int | None = None) -> Any:
        used = gpu.used if version else gpu.used + gpu.reserved  # only the second version tells the reserved part apart
        name = "MemoryInfo_v2" if version else "MemoryInfo"
        return self._told(gpu, name, lambda: SimpleNamespace(used=used, total=80 * GIB))

    def nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> Any:
        return self._told(gpu, "Utilization", lambda: SimpleNamespace(gpu=97, memory=41))

    def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:
        return self._told(gpu, "PowerUsage", lambda: 612_500)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: Gpu) -> int:
        return self._told(gpu, "PowerLimit", lambda: 700_000)

    def nvmlDeviceGetTemperature(self, gpu: Gpu, sensor: int) -> int:
        return self._told(gpu, "Temperature", lambda: 64)

    def nvmlDeviceGetClockInfo(self, gpu: Gpu, kind: int) -> int:
        return self._told(gpu, "Clock", lambda: 1755)

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: Gpu) -> int:
        return self._told(gpu, "EventReasons", lambda: gpu.reasons)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: Gpu) -> int:
        return self._told(gpu, "ThrottleReasons", lambda: gpu.reasons)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu) -> list[Any]:
        listed = [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.running]
        return self._told(gpu, "Processes", lambda: listed)

    def _told(self, gpu: Gpu, name: str, answer: Callable[[], Any]) -> Any:
        gpu.asked.append(name)
        error = gpu.errors.get(name, gpu.errors.get("*"))
        if error is not None:
            raise NVMLError(error)
        return answer()
