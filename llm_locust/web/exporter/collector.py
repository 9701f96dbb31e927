"""The live picture of a run as metrics, read anew at every scrape; nothing is kept but how high counters were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from llm_locust.live.buckets import Buckets, GroupBuckets
from llm_locust.live.snapshot import (
    DeviceView,
    GroupView,
    Phase,
    RunState,
    ServerView,
    Snapshot,
    StageView,
    WorkerView,
)
from llm_locust.records.slo import latency_limits
from llm_locust.web.exporter.metrics import METRICS, MOST_CELLS, ExportedMetric

PERCENTILES = (("50", "p50"), ("95", "p95"), ("99", "p99"))
"""The label, which is not ``quantile`` (that is a summary's), and the field."""


class LivePicture(Protocol):
    """What the exporter reads."""

    def snapshot(self, since: float | None = None) -> Snapshot:
        """The run at this moment; its series from ``since`` on."""
        ...

    def buckets(self) -> Sequence[GroupBuckets]:
        """The histograms of the snapshot's groups."""
        ...

    @property
    def cost_s(self) -> float | None:
        """Processor time that the picture has cost so far; ``None``: not measured."""
        ...


class RunCollector(Collector):
    """Turns the picture into metrics.

    Args:
        live: The picture.
    """

    def __init__(self, live: LivePicture) -> None:
        self._live = live
        self._heights: dict[tuple[str, ...], float] = {}
        self._generation: int | None = None

    def collect(self) -> Iterable[Metric]:
        """The whole page."""
        now = self._live.snapshot(float("inf"))  # no point of the series is later: it is not needed here
        if now.generation != self._generation:
            self._generation, self._heights = now.generation, {}
        page = _Page(self._heights)
        _add_run(page, now, self._live.cost_s)
        exported = _exported_stages(now.stages)
        page.add("stages_left_out", len(now.stages) - len(exported))
        histograms = {(found.stage, found.slice, found.user): found for found in self._live.buckets()}
        for view in exported:
            _add_stage(page, view)
            for cell in cells_of(view.groups):
                _add_cell(page, view, cell, histograms.get((view.stage, cell.group.slice, cell.group.user)))
        for worker in now.workers:
            _add_worker(page, worker)
        for server in now.servers:
            _add_server(page, server)
        for device in now.devices:
            _add_device(page, device)
        return page.families()


class _Page:
    """The families of one scrape; a value of ``None`` makes no sample."""

    def __init__(self, heights: dict[tuple[str, ...], float]) -> None:
        self._heights = heights
        self._families: dict[str, CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily] = {}

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """One sample of a gauge or counter."""
        if value is None:
            return
        metric = METRICS[name]
        family = self._family(metric)
        assert not isinstance(family, HistogramMetricFamily)
        if metric.kind == "counter":
            # A counter that falls would be taken for a new start, and all of it counted again. What is due may fall by a few
            # when the arrivals of a cool-down are withdrawn.
            key = (name, *labels)
            value = self._heights[key] = max(value, self._heights.get(key, value))
        family.add_metric(labels, value)

    def add_histogram(self, name: str, buckets: Buckets, *labels: str) -> None:
        """One histogram, from milliseconds."""
        family = self._family(METRICS[name])
        assert isinstance(family, HistogramMetricFamily)
        counted = [
            (str(bound / 1000), float(count))
            for bound, count in zip(buckets.bounds_ms, buckets.cumulative, strict=True)
        ]
        family.add_metric(labels, [*counted, ("+Inf", float(buckets.count))], buckets.sum_ms / 1000)

    def families(self) -> Iterator[Metric]:
        """Those that have a sample, in the order of the table."""
        return (self._families[name] for name in METRICS if name in self._families)

    def _family(self, metric: ExportedMetric) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
        if metric.name not in self._families:
            kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
            made = kinds[metric.kind](metric.full_name, metric.help, labels=metric.labels, unit=metric.unit)
            self._families[metric.name] = made
        return self._families[metric.name]


class CellView(NamedTuple):
    """The finest group that the picture tells of, with the labels it is exported under."""

    slice: str
    user: str
    group: GroupView


def cells_of(groups: Sequence[GroupView]) -> list[CellView]:
    """Groups of which each request is in exactly one, so that sums over labels count it once; the finest there are."""
    everybody = _everybody(groups)
    if everybody is None or not everybody.measured:
        return []
    pairs = [group for group in groups if group.slice is not None and group.user is not None]
    slices = [group for group in groups if group.slice is not None and group.user is None]
    users = [group for group in groups if group.slice is None and group.user is not None]
    only_slice = (slices[0].slice or "") if len(slices) == 1 else ""
    only_user = (users[0].user or "") if len(users) == 1 else ""
    for parts in (pairs, *sorted((slices, users), key=len, reverse=True), [everybody]):
        if parts and sum(part.measured for part in parts) == everybody.measured:
            return [CellView(part.slice or only_slice, part.user or only_user, part) for part in parts]
    return []


def _everybody(groups: Sequence[GroupView]) -> GroupView | None:
    return next((group for group in groups if group.slice is None and group.user is None), None)


def _exported_stages(stages: Sequence[StageView]) -> list[StageView]:
    """The newest stages whose cells together are few enough, in their order; the newest of all in any case."""
    taken: list[StageView] = []
    cells = 0
    for view in reversed(stages):
        cells += max(len(cells_of(view.groups)), 1)
        if taken and cells > MOST_CELLS:
            break
        taken.append(view)
    return taken[::-1]


def _add_run(page: _Page, now: Snapshot, cost_s: float | None) -> None:
    if now.run_id is not None:
        page.add("run_info", 1, now.run_id, now.host or "", now.model or "", str(now.synthetic).lower())
    for state in get_args(RunState):
        page.add("run_state", int(state == now.state), state)
    page.add("runs_total", now.generation)
    page.add("run_start_time_seconds", now.started_s)
    page.add("run_stages_planned", now.stage_count)
    page.add("run_exit_code", None if now.judged is None else now.judged.exit_code)
    for name, limit_ms in latency_limits(now.slo).items():
        page.add("slo_limit_seconds", _s(limit_ms), name)
    page.add("live_view_cpu_seconds_total", cost_s)


def _add_stage(page: _Page, view: StageView) -> None:
    of = _stage_labels(view)
    page.add("stage_info", 1, *of, view.mode, str(view.round))
    for phase in get_args(Phase):
        page.add("stage_phase", int(phase == view.phase), *of, phase)
    if view.result is not None:
        page.add("stage_result", 1, *of, view.result)
    page.add("stage_offered_requests_per_second", view.rate_rps, *of)
    page.add("stage_offered_concurrency", view.concurrency, *of)
    page.add("stage_start_time_seconds", view.start_s, *of)
    page.add("stage_progress_ratio", view.share, *of)
    page.add("arrivals_planned_total", view.planned, *of)
    page.add("requests_sent_total", view.sent, *of)
    page.add("requests_completed_total", view.completed, *of)
    page.add("requests_in_flight", view.in_flight, *of)
    page.add("requests_waiting", view.waiting, *of)
    everybody = _everybody(view.groups)
    if everybody is not None:
        page.add("stage_window_seconds", everybody.seconds, *of)
        page.add("stage_throughput_requests_per_second", everybody.throughput_rps, *of)
        page.add("stage_goodput_requests_per_second", everybody.goodput_rps, *of)
        page.add("stage_attainment_ratio", everybody.attainment, *of)
        page.add("stage_error_ratio", everybody.error_rate, *of)
        for latency, spread in everybody.latencies.items():
            for percentile, field in PERCENTILES:
                page.add("stage_latency_seconds", _s(getattr(spread, field)), *of, latency, percentile)
    generator = view.generator
    page.add("generator_keeps_up", None if generator.keeps_up is None else int(generator.keeps_up), *of)
    page.add("generator_dispatch_lag_p99_seconds", _s(generator.dispatch_lag_p99_ms), *of)
    page.add("generator_dispatch_lag_bound_seconds", _s(generator.lag_bound_ms), *of)
    page.add("generator_first_coalesced_ratio", generator.first_coalesced_share, *of)
    page.add("generator_lost_workers", len(generator.lost_workers), *of)


def _add_cell(page: _Page, view: StageView, cell: CellView, histograms: GroupBuckets | None) -> None:
    group = cell.group
    of = (*_stage_labels(view), cell.slice, cell.user)
    for outcome, count in group.outcomes.items():
        page.add("measured_requests_total", count, *of, outcome)
    for status, count in group.status_counts.items():
        page.add("measured_responses_total", count, *of, status)
    page.add("good_requests_total", group.good, *of)
    page.add("measured_output_tokens_total", group.output_tokens, *of)
    if histograms is not None:
        for latency, buckets in histograms.latencies.items():
            page.add_histogram(f"{latency}_seconds", buckets, *of)


def _add_worker(page: _Page, worker: WorkerView) -> None:
    of = (str(worker.worker), worker.host)
    page.add("worker_up", int(worker.lost is None), *of)
    page.add("worker_report_age_seconds", worker.age_s, *of)
    page.add("worker_cpu_ratio", _share(worker.cpu_percent), *of)
    page.add("worker_loop_lag_seconds", _s(worker.loop_lag_ms), *of)
    page.add("worker_clock_uncertainty_seconds", _s(worker.clock_uncertainty_ms), *of)
    page.add("worker_requests_in_flight", worker.in_flight, *of)
    page.add("worker_requests_waiting", worker.waiting, *of)
    page.add("worker_failures_in_a_row", worker.failures_in_a_row, *of)


def _add_server(page: _Page, server: ServerView) -> None:
    of = (server.target, server.engine or "")
    page.add("server_up", int(server.error is None), *of)
    page.add("server_sample_age_seconds", server.age_s, *of)
    page.add("server_running_requests", server.running, *of)
    page.add("server_waiting_requests", server.waiting, *of)
    page.add("server_kv_cache_usage_ratio", server.kv_usage_max, *of)
    page.add("server_queue_time_p95_seconds", _s(server.queue_p95_ms), *of)
    page.add("server_model_residency_ratio", server.residency, *of)


def _add_device(page: _Page, device: DeviceView) -> None:
    of = (device.device, device.kind)
    page.add("server_device_utilisation_ratio", _share(device.utilisation_pct), *of)
    page.add("server_device_memory_used_bytes", device.memory_used_bytes, *of)
    page.add("server_device_memory_total_bytes", device.memory_total_bytes, *of)
    page.add("server_device_power_watts", device.power_w, *of)


def _stage_labels(view: StageView) -> tuple[str, str]:
    return str(view.stage), f"{view.label} round {view.round + 1}" if view.round else view.label


def _s(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
