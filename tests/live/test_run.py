"""The live picture from a run's begin to its judgement, and what it tells meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llm_locust.dispatch import Progress
from llm_locust.live.buckets import BOUNDS_MS
from llm_locust.live.groups import MOST_CELLS, OTHER
from llm_locust.live.run import LiveRun
from llm_locust.live.series import SETTLE_S
from llm_locust.live.snapshot import Snapshot, StageView
from llm_locust.records import (
    NS_PER_S,
    ClockSample,
    Manifest,
    Outcome,
    RequestRecord,
    StageManifest,
    StageSpec,
    StageWorker,
    WorkloadFacts,
    encode_rows,
)
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.server_sample import CumulativeHistogram, ServerSample

T0 = 1_790_000_000 * NS_PER_S
MS = 1_000_000


class Scene:
    """A run that goes on by a clock of the test's."""

    def __init__(self, slo: dict[str, float] | None = None) -> None:
        self.now_s = 0.0
        """Since T0."""
        self.live = LiveRun(lambda: T0 + round(self.now_s * NS_PER_S))
        self.slo = {"ttft": 500.0} if slo is None else slo
        self.begin()

    def begin(self, run_id: str = "run-1") -> None:
        self.live.begin(
            Manifest(
                run_id=run_id,
                state="running",
                started_at="",
                host="http://127.0.0.1:8000",
                model="m",
                seed=1,
                deadline_s=30.0,
                slo=self.slo,
                gates=["oom<=0"],
                workload=WorkloadFacts(name="w", kind="synthetic", source="s", sha256=""),
            ),
            f"runs/{run_id}",
            3,
        )

    def stage(self, number: int = 0, **fields: Any) -> StageManifest:
        """A stage from T0 + 10 s on: 5 s of warm-up, 20 s of window, 10 s of cool-down."""
        spec: dict[str, Any] = {
            "stage": number, "rate_rps": 2.0, "warmup_s": 5.0, "window_s": 20.0, "cooldown_s": 10.0, "seed": 1,
            "first_index": 0,
        }  # fmt: skip
        record = StageManifest(
            spec=StageSpec(**{**spec, **fields}),
            start_ns=T0 + 10 * NS_PER_S,
            window_start_ns=T0 + 15 * NS_PER_S,
            window_end_ns=T0 + 35 * NS_PER_S,
            workers=[
                StageWorker(worker=k, client_id=f"w{k}", rank=k, host=f"load-{k}", clock_start=clock(k)) for k in (0, 1)
            ],
        )
        self.live.stage_starts(record)
        return record

    def row(self, at_s: float, **fields: Any) -> RequestRecord:
        record = request(at_s, **fields)
        self.live.on_record(record)
        return record

    def report(self, worker: int, **fields: Any) -> None:
        values: dict[str, Any] = {
            "stage": 0, "at_ns": 0, "due": 0, "sent": 0, "in_flight": 0, "waiting": 0, "ok": 0, "failed": 0, "batch_left": 0,
            "output_tokens": 0, "failures_in_a_row": 0, "last_failure": None, "stop": None, "cpu_percent": None,
            "loop_lag_ms": None,
        }  # fmt: skip
        self.live.on_report(worker, Progress(**{**values, **fields}))

    def look(self, since: float | None = None) -> Snapshot:
        found = self.live.snapshot(since)
        assert msgspec.json.decode(msgspec.json.encode(found), type=Snapshot) == found  # as a page gets it
        return found

    def newest(self) -> StageView:
        return self.look().stages[-1]


def clock(worker: int) -> ClockSample:
    """Each worker's clock is 100 s more ahead than the last one's."""
    return ClockSample(at_ns=T0, offset_ns=100 * NS_PER_S * worker, uncertainty_ns=80_000)


def request(at_s: float, **fields: Any) -> RequestRecord:
    """Planned at T0 + at_s on the master's clock; first output after 100 ms, complete after 1 s."""
    worker = fields.get("worker", 0)
    sent = T0 + round(at_s * NS_PER_S) + 100 * NS_PER_S * worker
    values: dict[str, Any] = {
        "run_id": "run-1", "stage": 0, "phase": "measure", "index": 0, "request_id": "x", "worker": worker, "user": "Chat",
        "planned_ns": sent, "dispatched_ns": sent, "sent_ns": sent, "first_output_ns": sent + 100 * MS,
        "last_output_ns": sent + NS_PER_S, "complete_ns": sent + NS_PER_S, "end_ns": sent + NS_PER_S,
        "outcome": Outcome.OK, "status": 200, "output_tokens": 10, "max_gap_ns": 200 * MS, "first_coalesced": False,
    }  # fmt: skip
    return RequestRecord(**{**values, **fields})


def test_before_the_first_run_there_is_nothing() -> None:
    found = LiveRun(lambda: T0).snapshot()
    assert (found.state, found.generation, found.run_id, found.stages, found.series.t) == ("idle", 0, None, [], [])
    assert found.judged is None


def test_a_run_says_what_it_is() -> None:
    found = Scene().look()
    assert (found.state, found.generation, found.run_id, found.folder) == ("running", 1, "run-1", "runs/run-1")
    assert (found.host, found.model, found.synthetic) == ("http://127.0.0.1:8000", "m", False)
    assert (found.slo, found.gates, found.stage_count, found.started_s) == (
        {"ttft": 500.0},
        ["oom<=0"],
        3,
        T0 / NS_PER_S,
    )


def test_a_stage_goes_through_its_phases() -> None:
    scene = Scene()
    record = scene.stage()
    record.start_ns, start = 0, record.start_ns
    assert (scene.newest().phase, scene.newest().left_s, scene.newest().start_s) == ("preparing", None, None)
    record.start_ns = start
    for now, phase, left, share in (
        (9.5, "preparing", 0.5, 0.0),
        (10, "warm-up", 5, 0.0),
        (15, "window", 20, 0.2),
        (34, "window", 1, 0.96),
        (35, "cool-down", 10, 1.0),
        (44, "cool-down", 1, 1.0),
    ):
        scene.now_s = now
        found = scene.newest()
        assert found.phase == phase
        assert found.left_s == pytest.approx(left)
        assert found.share == share
    record.arrivals_end_ns = T0 + 45 * NS_PER_S
    assert (scene.newest().phase, scene.newest().left_s) == ("draining", None)
    record.end_ns = T0 + 46 * NS_PER_S
    assert (scene.newest().phase, scene.newest().end_s) == ("done", T0 / NS_PER_S + 46)


def test_only_what_was_planned_inside_the_window_is_measured_and_rates_are_of_the_time_that_has_passed() -> None:
    scene = Scene()
    scene.stage()
    for at in (12, 15, 16, 36):  # warm-up, the window's first instant, window, cool-down
        scene.row(at, phase="measure" if 15 <= at < 35 else "warmup")
    scene.row(17, first_output_ns=T0 + 17_600 * MS)  # 600 ms
    scene.row(18, outcome=Outcome.REJECTED, status=429)
    scene.now_s = 25.0
    group = scene.newest().groups[0]
    assert (group.measured, group.ok, group.failed, group.good) == (4, 3, 1, 2)
    assert (group.outcomes, group.status_counts) == ({"ok": 3, "rejected": 1}, {"200": 3, "429": 1})
    assert (group.seconds, group.throughput_rps, group.goodput_rps) == (10.0, 0.3, 0.2)
    assert (group.attainment, group.error_rate, group.output_tokens) == (0.5, 0.25, 30)
    assert group.latencies["ttft"].count == 3
    assert group.latencies["ttft"].max == 600.0
    assert scene.newest().completed == 6


def test_a_stage_that_is_cut_short_measures_as_far_as_it_went() -> None:
    scene = Scene()
    record = scene.stage()
    record.window_end_ns = record.arrivals_end_ns = T0 + 20 * NS_PER_S
    record.interrupted = "somebody said so"
    scene.row(16)
    scene.row(21, outcome=Outcome.NOT_SENT, sent_ns=None, status=None)  # of the plan, but after the cut
    scene.now_s = 30.0
    found = scene.newest()
    assert (found.groups[0].measured, found.groups[0].seconds, found.interrupted) == (1, 5.0, "somebody said so")


def test_the_window_of_locusts_own_users_begins_when_all_are_there() -> None:
    scene = Scene()
    record = scene.stage(mode="closed", rate_rps=None, concurrency=2, by_users=True, window_s=None)
    record.window_start_ns, record.window_end_ns = record.start_ns, None
    scene.row(11, planned_ns=None, phase="warmup")
    assert scene.newest().groups[0].measured == 1
    record.window_start_ns = T0 + 13 * NS_PER_S
    assert scene.newest().groups[0].measured == 0
    scene.row(14, planned_ns=None, phase="warmup")
    scene.now_s = 23.0
    found = scene.newest()
    assert (found.groups[0].measured, found.groups[0].seconds, found.phase) == (1, 10.0, "window")
    assert "client_wait" not in found.groups[0].latencies


def test_workers_reports_add_up() -> None:
    scene = Scene()
    scene.stage()
    scene.now_s = 20.0
    scene.report(0, due=10, sent=9, in_flight=3, waiting=1, ok=5, failed=1, cpu_percent=80.0, loop_lag_ms=2.0)
    scene.now_s = 20.3
    scene.report(1, due=11, sent=11, in_flight=2, ok=9, cpu_percent=30.0, loop_lag_ms=9.0, last_failure="timeout: x")
    found = scene.look()
    stage = found.stages[0]
    assert (stage.planned, stage.sent, stage.completed, stage.in_flight, stage.waiting) == (21, 20, 15, 5, 1)
    assert (stage.generator.cpu_percent_max, stage.generator.loop_lag_ms_max) == (80.0, 9.0)
    assert [worker.host for worker in found.workers] == ["load-0", "load-1"]
    assert found.workers[0].age_s == pytest.approx(0.3)
    assert [worker.clock_uncertainty_ms for worker in found.workers] == [0.08, 0.08]
    assert found.workers[1].last_failure == "timeout: x"


def test_a_request_is_drawn_where_it_ended_by_the_masters_clock() -> None:
    scene = Scene()
    scene.stage()
    scene.now_s = 21.0
    scene.row(16, worker=1)
    scene.row(18.5, worker=0)
    scene.now_s = 23.0
    series = scene.look().series
    by_time = dict(zip(series.t, series.columns["completed_rps"], strict=True))
    assert {t - T0 / NS_PER_S: rate for t, rate in by_time.items() if rate} == {17.0: 1.0, 19.0: 1.0}


def test_lines_say_what_records_say_and_bad_ones_are_counted() -> None:
    scene, other = Scene(), Scene()
    records = [request(16 + k / 10, slice="faq", gaps_us=[1_000, 20_000 + k]) for k in range(20)]
    for of in (scene, other):
        of.stage()
    slices = list(scene.live.on_rows(encode_rows(records) + "no,row\n"))
    for record in records:
        other.live.on_record(record)
    assert len(slices) == 3  # 8, 8 and 5: others had their turn in between
    assert scene.newest() == other.newest()
    assert scene.newest().groups[0].latencies["itl"].count == 40
    assert scene.look().notes == ["1 rows could not be read, or are of no known stage."]


def test_quality_as_a_limit_waits_for_the_first_check() -> None:
    scene = Scene({"ttft": 500.0, "quality": 1.0})
    scene.stage()
    scene.row(16)
    assert scene.newest().groups[0].good is None  # nothing was checked so far
    scene.row(17, quality="pass")
    scene.row(18, quality="fail")
    assert scene.newest().groups[0].good == 2
    scene.row(19, quality="error")
    assert scene.newest().groups[0].good is None


def test_without_limits_no_request_is_good_or_not() -> None:
    scene = Scene({})
    scene.stage()
    scene.row(16)
    group = scene.newest().groups[0]
    assert (group.ok, group.good, group.attainment, group.goodput_rps) == (1, None, None, None)


def test_the_generator_is_doubted_as_soon_as_the_merge_would_call_it_invalid() -> None:
    scene = Scene()
    record = scene.stage()
    assert scene.newest().generator.keeps_up is None
    for k in range(100):
        scene.row(16 + k / 100)
    found = scene.newest().generator
    assert (found.keeps_up, found.late, found.dispatched) == (True, 0, 100)
    for k in range(2):
        late = T0 + (17 + k) * NS_PER_S
        scene.row(17 + k, planned_ns=late, dispatched_ns=late + 6 * MS, sent_ns=late + 6 * MS)
    found = scene.newest().generator
    assert (found.keeps_up, found.late, found.dispatched) == (False, 2, 102)
    assert found.warnings == ["dispatch was late: 2 of 102 arrivals by more than 5 ms (lag P99 6.0 ms)"]
    scene.row(19, outcome=Outcome.GENERATOR_ERROR, status=None)
    record.workers[1].lost, record.workers[1].lost_reason = True, "no sign of life for 16 s"
    found = scene.newest().generator
    assert found.lost_workers == [1]
    assert found.warnings[1:] == [
        "1 requests failed by the generator's own error",
        "worker 1 was lost: no sign of life for 16 s",
    ]
    assert scene.look().workers[1].lost == "no sign of life for 16 s"


def test_what_the_server_and_its_machine_say() -> None:
    scene = Scene()
    scene.now_s = 10.0

    def page(at: float, count: float, **fields: Any) -> ServerSample:
        values: dict[str, Any] = {
            "engine": "vllm", "running": 3.0, "waiting": 1.0, "kv_usage_max": 0.25,
            "queue_time": CumulativeHistogram(le=(0.1, 0.5), n=(count / 2, count), count=count),
        }  # fmt: skip
        return ServerSample(at_ns=T0 + round(at * NS_PER_S), target="http://s/metrics", **{**values, **fields})

    def gpu(at: float, source: str, used: int) -> DeviceSample:
        return DeviceSample(
            at_ns=T0 + round(at * NS_PER_S), source=source, kind="gpu", gpu=0, uuid="GPU-x", utilisation_pct=50.0,
            memory_used_bytes=used,
        )  # fmt: skip

    scene.live.on_server([page(1.0, 0), page(2.0, 10), page(3.0, 10)])
    scene.live.on_devices([gpu(2.0, "a", 2_000_000_000), gpu(2.1, "b", 9_000_000_000), gpu(2.0, "a", 5)])
    scene.live.on_devices([DeviceSample(at_ns=T0 + 2 * NS_PER_S, kind="process", pid=7, name="vllm", rss_bytes=5)])
    found = scene.look()
    server = found.servers[0]
    assert (server.target, server.engine, server.running, server.waiting) == ("http://s/metrics", "vllm", 3.0, 1.0)
    assert (server.kv_usage_max, server.queue_p95_ms, server.age_s) == (0.25, 500.0, 7.0)
    assert [(device.device, device.kind, device.memory_used_bytes) for device in found.devices] == [
        ("GPU 0", "gpu", 2_000_000_000), ("vllm (7)", "process", 5),
    ]  # fmt: skip
    columns = found.series.columns
    assert columns["server_kv_usage_pct"][1:4] == [25.0, 25.0, 25.0]
    assert columns["server_queue_p95_ms"][1:4] == [None, 500.0, None]  # nothing was queued between the last two looks
    assert columns["gpu_memory_gb"][2] == 2.0
    scene.live.on_server([page(9.0, 0, error="HTTP 500", engine=None, running=None, waiting=None, queue_time=None)])
    server = scene.look().servers[0]
    assert (server.error, server.running, server.queue_p95_ms) == ("HTTP 500", None, None)


def test_a_run_is_stopped_ends_and_is_judged() -> None:
    scene = Scene()
    record = scene.stage()
    scene.row(16)
    scene.live.stopping("drain")
    assert scene.look().stopping == "drain"
    scene.live.stopping("now")
    scene.live.stopping("drain")  # what was asked for cannot be taken back
    record.end_ns = T0 + 40 * NS_PER_S
    scene.live.stage_ends(record)
    scene.now_s = 41.0
    scene.live.over("stopped from the web page")
    found = scene.look()
    assert (found.state, found.stopping, found.reason) == ("judging", "now", "stopped from the web page")
    scene.live.judged(4, "2 req/s is undetermined.", report=True, results={0: "undetermined", 9: "pass"})
    found = scene.look()
    assert found.state == "judged"
    assert found.judged is not None
    assert (found.judged.exit_code, found.judged.sentence, found.judged.report) == (4, "2 req/s is undetermined.", True)
    assert found.stages[0].result == "undetermined"


def test_a_new_run_begins_a_new_generation_and_forgets_the_last() -> None:
    scene = Scene()
    scene.stage()
    scene.row(16)
    scene.live.missed(3)
    scene.live.failed("the server went away")
    found = scene.look()
    assert (found.state, found.reason, found.generation) == ("failed", "the server went away", 1)
    assert found.notes == ["3 rows came faster than they could be counted: they are on disk, but not in here."]
    scene.begin("run-2")
    found = scene.look()
    assert (found.state, found.reason, found.generation, found.run_id) == ("running", None, 2, "run-2")
    assert (found.stages, found.workers, found.series.t, found.notes) == ([], [], [], [])
    scene.live.failed("x")
    scene.live.failed("--rates is wrong")  # of a run that did not even begin
    found = scene.look()
    assert (found.generation, found.run_id, found.reason) == (3, None, "--rates is wrong")


def test_a_stage_that_never_began_is_not_shown() -> None:
    scene = Scene()
    record = scene.stage()
    record.start_ns = 0
    scene.live.stage_ends(record)
    assert scene.look().stages == []


def test_old_stages_keep_their_figures_and_no_sketches() -> None:
    scene = Scene()
    for number in range(70):
        record = scene.stage(number)
        scene.row(16, stage=number)
        record.end_ns = T0 + 40 * NS_PER_S
        scene.live.stage_ends(record)
    scene.row(17, stage=69)
    scene.row(17, stage=0)  # far too late
    scene.live.judged(0, "", report=False, results={0: "pass"})
    found = scene.look()
    assert [stage.groups[0].measured for stage in found.stages] == [1] * 69 + [2]
    assert found.stages[0].result == "pass"
    assert found.stages[0].groups[0].latencies["ttft"].p95 == 100.0
    assert found.notes == ["1 rows came when their stage was long over; its figures are without them."]
    assert len(scene.live.buckets()) == 140  # two groups each, of frozen stages too


def test_groups_are_bounded_and_nothing_is_lost() -> None:
    scene = Scene()
    scene.stage()
    for k in range(MOST_CELLS + 30):
        scene.row(16, slice=f"slice-{k:03}")
    found = scene.look()
    groups = found.stages[0].groups
    assert groups[0].measured == MOST_CELLS + 30
    scene.row(17)
    assert scene.newest().groups[0].measured == MOST_CELLS + 30  # so many are not put together at every look
    scene.now_s = 5.0
    assert scene.newest().groups[0].measured == MOST_CELLS + 31
    other = [group for group in groups if group.slice == OTHER and group.user is None]
    assert [group.measured for group in other] == [30]
    assert found.notes == ["There are more slices and user classes than are told apart: the rest is counted together."]


def test_histograms_count_what_the_sketches_count() -> None:
    scene = Scene()
    scene.stage()
    for k in range(10):
        scene.row(
            16 + k, first_output_ns=T0 + round((16 + k) * NS_PER_S) + (100 + 100 * k) * MS, gaps_us=[2_500, 30_000]
        )
    everybody = scene.live.buckets()[0]
    ttft = everybody.latencies["ttft"]
    assert (everybody.stage, everybody.slice, everybody.user, ttft.count, ttft.sum_ms) == (0, None, None, 10, 5_500.0)
    counts = dict(zip(BOUNDS_MS["ttft"], ttft.cumulative, strict=True))
    assert (counts[80.0], counts[100.0], counts[500.0], counts[1_000.0]) == (0, 1, 5, 10)
    assert everybody.latencies["itl"].count == 20
    assert scene.newest().groups[0].latencies["ttft"].count == 10


def test_looking_and_counting_have_their_cost() -> None:
    scene = Scene()
    scene.stage()
    before = scene.live.cost_s
    for k in range(200):
        scene.row(16 + k / 100)
    assert scene.live.cost_s > before
    scene.begin("run-2")
    assert scene.live.cost_s == 0.0


def test_reports_make_time_go_on_where_nobody_looks() -> None:
    scene = Scene()
    scene.stage()
    for half in range(200):
        scene.now_s = half / 2
        scene.report(0, due=half, sent=half)
    series = scene.live._series
    assert series is not None
    assert len(series._open) <= SETTLE_S + 2
    assert scene.look().series.columns["sent_rps"][20:30] == [2.0] * 10
