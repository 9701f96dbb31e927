"""A page of the newest samples in the Prometheus text format: the load generator reads a remote machine like any target.

Names and units are those that :mod:`llm_locust.telemetry.devices.page_samples` reads back; a value that was not measured is
not on the page.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric

from llm_locust.records import NS_PER_S, Clock, UsageError
from llm_locust.records.device_sample import DeviceSample, TelemetryHead

DEVICE_GAUGES: dict[str, tuple[str, float, str]] = {
    "memory_used_bytes": ("llm_locust_device_memory_used_bytes", 1, "Memory in use on the GPU, by everybody."),
    "memory_total_bytes": ("llm_locust_device_memory_total_bytes", 1, "Memory of the GPU."),
    "process_memory_bytes": (
        "llm_locust_device_process_memory_bytes",
        1,
        "Memory on the GPU of the sampled processes.",
    ),
    "utilisation_pct": ("llm_locust_device_utilisation_percent", 1, "Time in which some kernel ran."),
    "memory_utilisation_pct": ("llm_locust_device_memory_utilisation_percent", 1, "Time in which memory was accessed."),
    "power_w": ("llm_locust_device_power_watts", 1, "Power draw."),
    "power_limit_w": ("llm_locust_device_power_limit_watts", 1, "Power limit in force."),
    "temperature_c": ("llm_locust_device_temperature_celsius", 1, "Temperature of the GPU."),
    "sm_clock_mhz": ("llm_locust_device_sm_clock_hertz", 1e6, "Clock of the multiprocessors."),
}
"""Fields of a GPU sample: the metric, how many of its units are one of the field's, what it is."""

PROCESS_GAUGES: dict[str, tuple[str, float, str]] = {
    "rss_bytes": (
        "llm_locust_process_resident_memory_bytes",
        1,
        "Resident memory, summed; shared pages count repeatedly.",
    ),
    "pss_bytes": ("llm_locust_process_proportional_memory_bytes", 1, "Memory; every shared page counts once in all."),
    "rss_peak_bytes": ("llm_locust_process_resident_memory_peak_bytes", 1, "Each process's own peak, summed."),
    "cpu_pct": ("llm_locust_process_cpu_percent", 1, "Processor time since the sample before; 100 is one core."),
    "processes": ("llm_locust_process_processes", 1, "Processes in the tree."),
    "threads": ("llm_locust_process_threads", 1, "Threads in the tree."),
}
"""The same of a sample of processes."""

DEVICE_INFO = "llm_locust_device_info"
DEVICE_UP = "llm_locust_device_up"
CLOCK_REASON = "llm_locust_device_clock_reason"
PROCESS_INFO = "llm_locust_process_info"
TELEMETRY_INFO = "llm_locust_telemetry_info"
CLOCK_SECONDS = "llm_locust_telemetry_clock_seconds"
SAMPLE_AGE = "llm_locust_telemetry_sample_age_seconds"


class SamplePage:
    """Collects the newest samples whenever the page is asked for.

    Args:
        head: of the sampler.
        clock: the one that the samples are stamped by.
    """

    def __init__(self, head: TelemetryHead, clock: Clock) -> None:
        self._head = head
        self._clock = clock
        self._samples: Sequence[DeviceSample] = ()

    def show(self, samples: Sequence[DeviceSample]) -> None:
        """These are the newest."""
        self._samples = samples  # one assignment: the serving thread sees the old ones or the new ones

    def collect(self) -> Iterable[Metric]:
        """The page, as prometheus-client asks for it."""
        samples = self._samples
        info = GaugeMetricFamily(TELEMETRY_INFO, "The sampler.", labels=["session", "run_id"])
        info.add_metric([self._head.session, self._head.run_id or ""], 1)
        yield info
        now_ns = self._clock.now_ns()
        yield GaugeMetricFamily(CLOCK_SECONDS, "The sampler's clock, Unix time.", value=now_ns / NS_PER_S)
        if samples:
            age = max(now_ns - max(sample.at_ns for sample in samples), 0) / NS_PER_S
            yield GaugeMetricFamily(SAMPLE_AGE, "How long ago the newest sample was taken.", value=age)
        yield from _devices([sample for sample in samples if sample.kind == "gpu"])
        yield from _processes([sample for sample in samples if sample.kind == "process"])


def serve_page(page: SamplePage, address: str, port: int) -> tuple[str, Callable[[], None]]:
    """Serve the page on a thread of its own; returns its address and what ends it.

    Raises:
        UsageError: the port is taken, or the address cannot be listened on.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(page)
    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        hint = "another program uses it; choose another port (0 takes a free one)" if taken else str(error)
        raise UsageError(f"--port {port}: cannot listen on {address}: {hint}") from None

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{server.server_port}/metrics", stop


def _devices(samples: list[DeviceSample]) -> Iterable[Metric]:
    labels = ("gpu", "uuid")
    info = GaugeMetricFamily(DEVICE_INFO, "The GPU.", labels=[*labels, "name", "memory_kind"])
    up = GaugeMetricFamily(DEVICE_UP, "1 while the GPU answers.", labels=labels)
    reasons = GaugeMetricFamily(CLOCK_REASON, "Why clocks are below their maximum.", labels=[*labels, "reason"])
    for sample in samples:
        gpu = _gpu(sample)
        info.add_metric([*gpu, sample.name or "", sample.memory_kind or ""], 1)
        up.add_metric(gpu, 0 if sample.error else 1)
        for reason in (sample.clock_reasons or "").split():
            reasons.add_metric([*gpu, reason], 1)
    yield from (info, up, reasons)
    yield from _gauges(DEVICE_GAUGES, labels, samples, _gpu)


def _processes(samples: list[DeviceSample]) -> Iterable[Metric]:
    info = GaugeMetricFamily(PROCESS_INFO, "The tree of processes.", labels=["pid", "name", "memory_kind"])
    for sample in samples:
        info.add_metric([*_pid(sample), sample.name or "", sample.memory_kind or ""], 1)
    yield info
    yield from _gauges(PROCESS_GAUGES, ("pid",), samples, _pid)


def _gauges(
    table: dict[str, tuple[str, float, str]],
    labels: Sequence[str],
    samples: Sequence[DeviceSample],
    values: Callable[[DeviceSample], list[str]],
) -> Iterable[Metric]:
    for field, (metric, factor, text) in table.items():
        family = GaugeMetricFamily(metric, text, labels=labels)
        for sample in samples:
            value = getattr(sample, field)
            if value is not None:
                family.add_metric(values(sample), value * factor)
        yield family


def _gpu(sample: DeviceSample) -> list[str]:
    return [str(sample.gpu), sample.uuid or ""]


def _pid(sample: DeviceSample) -> list[str]:
    return [str(sample.pid)]
