"""The server and its machine, by the newest rows of their pages."""

from __future__ import annotations

from collections import Counter

from llm_locust.live.series import CARRIED_S, SeriesRecorder
from llm_locust.live.sketch import nearest_rank
from llm_locust.live.snapshot import DeviceView, ServerView
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.server_sample import CumulativeHistogram, ServerSample
from llm_locust.records.stage import NS_PER_S

BETWEEN_LOOKS = 2.5
"""A level of a page stands for so many times the time between its last two rows."""
OTHER_SOURCE_S = 10.0
"""A source that was silent for so long gives way to another of the same GPU."""
FORGOTTEN_S = 60.0
"""A device of which nothing was told for so long is no longer shown."""


class _Page:
    """One metrics page."""

    def __init__(self, first: ServerSample) -> None:
        self.newest = first
        self.every_s = 1.0
        self.queue: CumulativeHistogram | None = first.queue_time
        self.queue_p95_ms: float | None = None

    def add(self, sample: ServerSample) -> bool:
        """Take the next row; whether it tells of requests that were queued since the last."""
        self.every_s = max((sample.at_ns - self.newest.at_ns) / NS_PER_S, 0.1)
        self.newest = sample
        if sample.queue_time is None:
            return False
        told = (
            self.queue is None or self.queue.le != sample.queue_time.le or self.queue.count != sample.queue_time.count
        )
        if told:
            self.queue_p95_ms = None if self.queue is None else queue_p95_ms(self.queue, sample.queue_time)
            self.queue = sample.queue_time
        return told


class ServerWatch:
    """What the pages of one run say.

    Args:
        series: Gets the levels.
    """

    def __init__(self, series: SeriesRecorder) -> None:
        self._series = series
        self._pages: dict[str, _Page] = {}
        self._devices: dict[str, DeviceSample] = {}

    def on_server(self, sample: ServerSample) -> None:
        """One row of a metrics page."""
        page = self._pages.get(sample.target)
        queued = False
        if page is None:
            page = self._pages[sample.target] = _Page(sample)
        else:
            queued = page.add(sample)
        at_s, stands_s = sample.at_ns / NS_PER_S, max(BETWEEN_LOOKS * page.every_s, CARRIED_S)
        for name, value in (
            ("server_running", sample.running),
            ("server_waiting", sample.waiting),
            ("server_kv_usage_pct", None if sample.kv_usage_max is None else 100 * sample.kv_usage_max),
            ("server_queue_p95_ms", page.queue_p95_ms if queued else None),
        ):
            self._series.level(name, sample.target, at_s, value, stands_s)

    def on_device(self, sample: DeviceSample) -> None:
        """One sample of a GPU or a tree of processes."""
        key = sample.uuid or f"{_name(sample)} at {sample.source}"
        before = self._devices.get(key)
        if before is not None:
            if before.at_ns >= sample.at_ns:
                return  # a page that was read again before its sampler looked again
            if before.source != sample.source and sample.at_ns - before.at_ns < OTHER_SOURCE_S * NS_PER_S:
                return  # of several sources for one GPU the first counts, while it tells
        self._devices[key] = sample
        if sample.kind != "gpu":
            return
        every_s = (sample.at_ns - before.at_ns) / NS_PER_S if before is not None else 1.0
        at_s, stands_s = sample.at_ns / NS_PER_S, max(BETWEEN_LOOKS * every_s, CARRIED_S)
        memory = None if sample.memory_used_bytes is None else sample.memory_used_bytes / 1e9
        self._series.level("gpu_utilisation_pct", key, at_s, sample.utilisation_pct, stands_s)
        self._series.level("gpu_memory_gb", key, at_s, memory, stands_s)

    def servers(self, now_ns: int) -> list[ServerView]:
        """Each page."""
        return [
            ServerView(
                target=target,
                engine=page.newest.engine,
                error=page.newest.error,
                age_s=max((now_ns - page.newest.at_ns) / NS_PER_S, 0.0),
                running=page.newest.running,
                waiting=page.newest.waiting,
                kv_usage_max=page.newest.kv_usage_max,
                queue_p95_ms=page.queue_p95_ms if page.newest.error is None else None,
                residency=page.newest.residency,
            )
            for target, page in self._pages.items()
        ]

    def devices(self, now_ns: int) -> list[DeviceView]:
        """Each GPU and each tree of processes."""
        shown = {
            key: sample for key, sample in self._devices.items() if (now_ns - sample.at_ns) / NS_PER_S < FORGOTTEN_S
        }
        names = Counter(map(_name, shown.values()))
        return [
            DeviceView(
                device=name if names[name := _name(sample)] == 1 else key,
                kind=sample.kind,
                utilisation_pct=sample.utilisation_pct if sample.kind == "gpu" else sample.cpu_pct,
                memory_used_bytes=sample.memory_used_bytes if sample.kind == "gpu" else sample.rss_bytes,
                memory_total_bytes=sample.memory_total_bytes,
                power_w=sample.power_w,
            )
            for key, sample in shown.items()
        ]


def queue_p95_ms(before: CumulativeHistogram, after: CumulativeHistogram) -> float | None:
    """An upper bound of the 95th percentile of what came between two readings: that of the bucket it lies in.

    ``None`` when nothing came, the server began anew, its buckets are others, or the percentile is above the last bound.
    """
    count = round(after.count - before.count)
    if before.le != after.le or count <= 0:
        return None
    rank = nearest_rank(95, count)
    for bound, earlier, later in zip(after.le, before.n, after.n, strict=True):
        if later - earlier >= rank:
            return 1000 * bound
    return None


def _name(sample: DeviceSample) -> str:
    if sample.kind == "gpu":
        return f"GPU {sample.gpu}" if sample.gpu is not None else sample.uuid or "GPU"
    name = sample.name or "process"
    return f"{name} ({sample.pid})" if sample.pid is not None else name
