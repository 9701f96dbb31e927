"""The exporter's page: what a snapshot says, in base units, once, and nothing where nothing was measured."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.live.buckets import GroupBuckets
from llm_locust.live.snapshot import GeneratorView, ServerView, Snapshot
from llm_locust.web.exporter.collector import RunCollector
from llm_locust.web.exporter.metrics import METRICS, MOST_CELLS, exported_series
from tests.live.made_up import group, judged, snapshot, stage
from tests.web.exporter.pictures import Picture, histogram

Page = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Exporter:
    """A collector and the picture it reads."""

    def __init__(self, now: Snapshot | None = None, *found: GroupBuckets) -> None:
        self.picture = Picture(now, found)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(RunCollector(self.picture))

    def page(self) -> Page:
        found: Page = {}
        for family in text_string_to_metric_families(generate_latest(self.registry).decode()):
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in found, f"{sample.name} twice with {sample.labels}"
                found[key] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        return self.page().get((f"llm_locust_{name}", frozenset(labels.items())))

    def values(self, name: str, **labels: str) -> list[float]:
        """All samples with at least these labels."""
        wanted = set(labels.items())
        return [value for (of, held), value in self.page().items() if of == f"llm_locust_{name}" and wanted <= held]


FIRST = {"stage": "0", "load": "1 req/s"}
SECOND = {"stage": "1", "load": "2 req/s"}


def test_a_made_up_run_is_exported_in_base_units() -> None:
    exporter = Exporter()
    assert exporter.value("run_info", run_id="20261130-040000-ab12", target="http://127.0.0.1:8000", model="demo",
                          synthetic="true") == 1  # fmt: skip
    assert exporter.value("slo_limit_seconds", limit="ttft") == 0.2
    assert exporter.value("stage_latency_seconds", **SECOND, latency="ttft", percentile="95") == 0.24
    assert exporter.value("generator_dispatch_lag_p99_seconds", **SECOND) == 0.0012
    assert exporter.value("worker_cpu_ratio", worker="1", host="load-1") == 0.31
    assert exporter.value("server_kv_cache_usage_ratio", target="http://127.0.0.1:8000/metrics", engine="vllm") == 0.41
    assert (
        exporter.value("server_queue_time_p95_seconds", target="http://127.0.0.1:8000/metrics", engine="vllm") == 0.03
    )
    assert exporter.value("server_device_utilisation_ratio", device="GPU-0", kind="gpu") == 0.88
    assert exporter.value("server_device_memory_used_bytes", device="GPU-0", kind="gpu") == 2.1e10


def test_the_finest_groups_are_exported_and_count_each_request_once() -> None:
    exporter = Exporter(snapshot(stages=[stage(groups=[
        group(measured=100), group("faq", measured=60), group("long", measured=40), group(None, "ChatUser", measured=100),
    ])]))  # fmt: skip
    assert sum(exporter.values("measured_requests_total")) == 100
    assert (
        exporter.value("measured_requests_total", stage="0", load="2 req/s", slice="faq", user="ChatUser", outcome="ok")
        == 56
    )


def test_pairs_of_slice_and_user_class_are_finer_than_either() -> None:
    pairs = [("faq", "A", 10), ("faq", "B", 20), ("long", "A", 30), ("long", "B", 40)]
    groups = [group(measured=100), group("faq", measured=30), group("long", measured=70), group(None, "A", measured=40),
              group(None, "B", measured=60), *(group(s, u, measured=n) for s, u, n in pairs)]  # fmt: skip
    exporter = Exporter(snapshot(stages=[stage(groups=groups)]))
    assert sum(exporter.values("measured_requests_total")) == 100
    assert len(exporter.values("good_requests_total")) == 4


def test_slices_that_leave_requests_out_are_not_taken_for_all() -> None:
    groups = [group(measured=100), group("faq", measured=60), group(None, "ChatUser", measured=100)]
    exporter = Exporter(snapshot(stages=[stage(groups=groups)]))
    assert sum(exporter.values("measured_requests_total")) == 100


def test_a_histogram_is_cumulative_in_seconds_and_ends_with_its_count() -> None:
    found = GroupBuckets(
        stage=1, slice="faq", user=None, latencies={"ttft": histogram("ttft", 100.0, 100.5, 300_000.0)}
    )
    exporter = Exporter(None, found)
    labels = {**SECOND, "slice": "faq", "user": "OpenAIChatUser"}
    assert exporter.value("ttft_seconds_bucket", **labels, le="0.08") == 0
    assert exporter.value("ttft_seconds_bucket", **labels, le="0.1") == 1
    assert exporter.value("ttft_seconds_bucket", **labels, le="0.25") == 2
    assert exporter.value("ttft_seconds_bucket", **labels, le="160.0") == 2
    assert exporter.value("ttft_seconds_bucket", **labels, le="+Inf") == 3
    assert exporter.value("ttft_seconds_count", **labels) == 3
    assert exporter.value("ttft_seconds_sum", **labels) == pytest.approx(300.2005)


def test_what_was_not_measured_has_no_sample() -> None:
    unknown = group(good=None, attainment=None, error_rate=None, goodput_rps=None, output_tokens=None, latencies={})
    generator = GeneratorView(keeps_up=None, warnings=[], dispatch_lag_p99_ms=None, lag_bound_ms=None,
                              first_coalesced_share=None, lost_workers=[], cpu_percent_max=None,
                              loop_lag_ms_max=None)  # fmt: skip
    server = ServerView(target="u", engine=None, error="no page", age_s=1.0, running=None, waiting=None, kv_usage_max=None,
                        queue_p95_ms=None, residency=None)  # fmt: skip
    exporter = Exporter(snapshot(stages=[stage(groups=[unknown], generator=generator, rate_rps=None)], servers=[server],
                                 started_s=None, stage_count=None))  # fmt: skip
    for name in ("good_requests_total", "stage_attainment_ratio", "stage_goodput_requests_per_second", "stage_error_ratio",
                 "measured_output_tokens_total", "stage_latency_seconds", "generator_keeps_up", "run_start_time_seconds",
                 "generator_dispatch_lag_p99_seconds", "stage_offered_requests_per_second", "stage_offered_concurrency",
                 "server_running_requests", "server_waiting_requests", "run_stages_planned", "run_exit_code",
                 "live_view_cpu_seconds_total", "stage_result"):  # fmt: skip
        assert exporter.values(name) == [], name
    assert exporter.value("server_up", target="u", engine="") == 0
    assert exporter.value("generator_lost_workers", stage="0", load="2 req/s") == 0  # a measured 0


def test_a_stage_without_a_measured_request_has_no_cell() -> None:
    nobody = msgspec.structs.replace(
        group(), measured=0, ok=0, failed=0, outcomes={}, status_counts={}, good=0, latencies={}
    )
    exporter = Exporter(snapshot(stages=[stage(groups=[nobody])]))
    assert exporter.values("good_requests_total") == []
    assert exporter.values("requests_sent_total") == [139]


def test_counters_do_not_fall_while_a_run_lasts_and_begin_anew_with_the_next() -> None:
    exporter = Exporter(snapshot(stages=[stage(planned=140)]))
    assert exporter.values("arrivals_planned_total") == [140]
    exporter.picture.now = snapshot(stages=[stage(planned=137)])  # arrivals of the cool-down were withdrawn
    assert exporter.values("arrivals_planned_total") == [140]
    exporter.picture.now = snapshot(stages=[stage(planned=2)], generation=2)
    assert exporter.values("arrivals_planned_total") == [2]


def test_a_state_is_1_and_the_others_are_0() -> None:
    exporter = Exporter(snapshot(state="judged", judged=judged(4)))
    assert exporter.value("run_state", state="judged") == 1
    assert sum(exporter.values("run_state")) == 1
    assert exporter.value("run_exit_code") == 4
    assert exporter.value("stage_phase", **FIRST, phase="done") == 1
    assert sum(exporter.values("stage_phase", **FIRST)) == 1


def test_before_the_first_run_the_page_says_idle() -> None:
    idle = snapshot(state="idle", generation=0, run_id=None, folder=None, started_s=None, host=None, model=None, slo={},
                    stage_count=None, stages=[], workers=[], servers=[], devices=[])  # fmt: skip
    exporter = Exporter(idle)
    assert exporter.value("run_state", state="idle") == 1
    assert exporter.value("runs_total") == 0
    assert exporter.values("run_info") == []


def test_rounds_of_one_rate_have_names_of_their_own() -> None:
    exporter = Exporter(snapshot(stages=[stage(0), stage(1, round=1)]))
    assert exporter.value("requests_in_flight", stage="1", load="2 req/s round 2") == 9


def test_older_stages_leave_the_page_first_and_that_is_said() -> None:
    slices = [group(measured=100 * 40), *(group(f"s{k}", measured=100) for k in range(40))]
    stages = [stage(number, groups=slices) for number in range(6)]
    exporter = Exporter(snapshot(stages=stages))
    exported = {dict(labels)["stage"] for name, labels in exporter.page() if name == "llm_locust_requests_sent_total"}
    assert exported == {"3", "4", "5"}  # 40 cells each, of at most 128
    assert MOST_CELLS == 128
    assert exporter.value("stages_left_out") == 3


def test_the_newest_stage_is_whole_however_many_cells_it_has() -> None:
    slices = [group(measured=100 * 200), *(group(f"s{k}", measured=100) for k in range(200))]
    exporter = Exporter(snapshot(stages=[stage(0), stage(1, groups=slices)]))
    assert len(exporter.values("good_requests_total", stage="1")) == 200
    assert exporter.value("stages_left_out") == 1


def test_text_from_elsewhere_cannot_break_the_page() -> None:
    nasty = 'a"b\\c\nd'
    exporter = Exporter(
        snapshot(model=nasty, stages=[stage(label=nasty, groups=[group(), group(nasty, measured=100)])])
    )
    assert exporter.value("requests_sent_total", stage="0", load=nasty) == 139


def test_the_page_is_openmetrics_too() -> None:
    found = GroupBuckets(stage=1, slice="faq", user=None, latencies={"e2e": histogram("e2e", 100.0)})
    exporter = Exporter(None, found)
    families = list(openmetrics_families(openmetrics(exporter.registry).decode()))
    names = {sample.name for family in families for sample in family.samples}
    assert names <= exported_series()
    assert {family.unit for family in families if family.name.endswith("_seconds")} == {"seconds"}


def test_the_table_of_names_follows_prometheus_practice() -> None:
    for metric in METRICS.values():
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not any(part in ("ms", "milliseconds", "percent", "pct", "gb") for part in metric.name.split("_")), (
            metric.name
        )
        assert metric.help.endswith("."), metric.name
        assert len(metric.labels) == len(set(metric.labels)) <= 5, metric.name
