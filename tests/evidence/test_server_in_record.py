"""What server and devices showed, as it stands in the records of merged runs: facts, peaks, the grade that they earn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.analysis.evidence_rules import violations
from llm_locust.analysis.server_facts import server_facts
from llm_locust.records import NS_PER_S, RunFolder, UsageError
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.evidence import EvidenceRecord
from llm_locust.records.facts import Facts
from llm_locust.records.server_sample import CumulativeHistogram
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder
from tests.evidence.by_hand import FACTS, SEEN, document, manifest, record_of, stage

STARTED = {
    "engine": "vLLM",
    "engine_version": "0.11.0",
    "context_limit_tokens": 8192,
    "kv_cache_size_tokens": 65536,
    "kv_cache_max_concurrency": 8.0,
    "prefix_caching": True,
    "cache_config_info": {"": {"block_size": "16"}},
}


def told(at: float, shift: float = 0.0) -> dict[str, Any]:
    """120 requests in the minute after ``shift`` requests before it."""
    n = shift + 2.0 * min(max(at, 0.0), 60.0)
    return {
        "running": 2 if -1 < at < 61 else 0,
        "waiting": 0,
        "kv_usage_max": 0.415,
        "kv_usage_mean": 0.2,
        "preemptions": 3 if at < 30 else 4,
        "evictions": 0,
        "prefix_cache_queries": 100 * n,
        "prefix_cache_hits": 25 * n,
        "requests": n,
        "queue_time": CumulativeHistogram(le=(0.01, 0.02), n=(0.0, n), count=n),
    }


def three_rounds(tmp_path: Path, **changes: Any) -> RunBuilder:
    given = {"versions": {"engine": "vLLM", "engine_version": "0.11.0"}, "server_facts_start": STARTED, "facts": FACTS}
    run = RunBuilder(tmp_path, slo={"ttft": 500}, **(given | changes))
    for round in range(3):
        part = run.stage(rate=2, stage=0, round=round)
        part.requests(120, ttft=300)
        part.scraped(lambda at, before=120.0 * round: told(at, before))
        for at in range(-30, 61):
            run.devices.append(gpu(part.window_start_ns + at * NS_PER_S, 72.5 if at < -20 and round == 0 else 71.5))
    return run


def gpu(at_ns: int, used_gb: float) -> DeviceSample:
    used = round(used_gb * 1e9)
    return DeviceSample(at_ns=at_ns, kind="gpu", gpu=0, uuid="GPU-a", memory_kind="vram", memory_used_bytes=used)


def records(run: RunBuilder) -> list[EvidenceRecord]:
    folder = RunFolder(merge_run(run.write()).report.parent)
    paths = sorted(folder.records_dir.iterdir())
    assert {path.name: violations(msgspec.json.decode(path.read_bytes())) for path in paths} == {
        path.name: [] for path in paths
    }
    return [EvidenceRecord.load(path) for path in paths]


def test_a_run_that_shows_everything_earns_performance(tmp_path: Path) -> None:
    found = records(three_rounds(tmp_path))
    assert [(record.evidence_grade, record.evidence_grade_reasons) for record in found] == [("performance", [])] * 3
    first = found[0]
    assert (first.running_peak, first.running_trend, first.waiting_peak, first.waiting_trend) == (2, "flat", 0, "flat")
    assert (first.kv_cache_peak_pct, first.prefix_cache_hit_rate) == (41.5, 0.25)
    assert (first.preemptions, first.evictions) == (1, 0)
    assert first.queue_time_p95_ms == pytest.approx(19.5)  # the 114th of 120 that lie evenly between 10 and 20 ms
    assert (first.startup_peak_memory_gb, first.peak_memory_gb) == (72.5, 71.5)
    assert (first.memory_tool, first.memory_scope, first.memory_kind) == ("NVML", "device", "vram")
    assert (first.kv_cache_size_tokens, first.kv_cache_max_concurrency) == (65536, 8.0)
    assert (first.context_limit_tokens, first.prefix_caching) == (8192, True)
    assert first.server_changes == []


def test_without_the_servers_metrics_or_the_devices_it_is_partial_and_says_so(tmp_path: Path) -> None:
    unread = three_rounds(tmp_path / "a")
    unread.samples.clear()
    assert records(unread)[0].evidence_grade_reasons == [
        "the engine's metrics were not read: running_peak, waiting_peak, kv_cache_peak_pct not measured"
    ]
    unsampled = three_rounds(tmp_path / "b")
    unsampled.devices.clear()
    assert records(unsampled)[0].evidence_grade_reasons == [
        "the device was not sampled: peak_memory_gb, memory_tool, memory_scope, memory_kind not measured"
    ]


def test_a_server_that_changed_leaves_invalid_records_that_say_what_changed(tmp_path: Path) -> None:
    found = records(three_rounds(tmp_path, server_facts_end={"engine_version": "0.11.1"}))
    changed = "engine version from '0.11.0' to '0.11.1'"
    assert [(record.result, record.server_changes) for record in found] == [("invalid", [changed])] * 3
    assert found[0].evidence_grade_reasons == [
        f"the server changed during the run: {changed}",
        "0 valid rounds of this test point, not 3",
    ]


def test_a_verdict_on_a_server_that_changed_breaks_a_rule() -> None:
    bad = violations(document(server_changes=["slots from 8 to 4"], evidence_grade="partial"))
    assert [(v.field, v.rule) for v in bad] == [
        ("result", "neither pass nor fail when the server changed during the run"),
        ("evidence_grade_reasons", "a grade below performance says what is lacking"),
    ]


def test_facts_of_a_metrics_page_are_numbers_in_text_and_an_open_choice_is_none() -> None:
    said = {"kv_cache_size_tokens": "65536", "kv_cache_max_concurrency": "8.00", "kv_cache_dtype": "auto"}
    found = server_facts(manifest(server_facts_start=said | {"prefix_caching": "True", "max_active_sequences": 0}))
    assert found == {
        "engine": "vLLM",
        "engine_version": "0.11.0",
        "model_id": "Qwen/Qwen3-8B",
        "kv_cache_size_tokens": 65536,
        "kv_cache_max_concurrency": 8.0,
        "prefix_caching": True,
    }


def test_a_person_against_what_the_server_said_of_its_cache_is_an_error() -> None:
    with pytest.raises(UsageError, match="kv_cache_size_tokens is 1000, but the server said 65536"):
        record_of(stage(), Facts({"kv_cache_size_tokens": 1000}), server_facts_start=STARTED)


def test_a_persons_start_up_peak_stands_where_none_was_measured_and_must_agree_where_one_was() -> None:
    assert record_of(stage(), Facts({"startup_peak_memory_gb": 71.2})).startup_peak_memory_gb == 71.2
    device = msgspec.structs.replace(SEEN["device"], startup_peak_memory_bytes=72_000_000_000)
    seen = stage(**(SEEN | {"device": device}))
    assert record_of(seen, Facts({"startup_peak_memory_gb": 71.2})).startup_peak_memory_gb == 72.0  # people round
    with pytest.raises(UsageError, match="startup_peak_memory_gb is 60, but 72 was measured"):
        record_of(seen, Facts({"startup_peak_memory_gb": 60.0}))


def test_a_reading_of_0_bytes_is_no_memory() -> None:
    device = msgspec.structs.replace(SEEN["device"], peak_memory_bytes=0)
    assert record_of(stage(device=device)).peak_memory_gb is None


@pytest.mark.parametrize(
    ("in_vram", "residency", "offload"),
    [
        (5_000_000_000, "100 % of the model (size_vram 5 of 5 GB)", "none"),
        (3_000_000_000, "60 % of the model (size_vram 3 of 5 GB)", "2 of 5 GB of the model in main memory"),
        (0, "0 % of the model (size_vram 0 of 5 GB)", "5 of 5 GB of the model in main memory"),
    ],
)
def test_where_ollama_holds_the_model_is_its_residency(in_vram: int, residency: str, offload: str) -> None:
    ps = {
        "start": {"size": 5_000_000_000, "size_vram": 5_000_000_000},
        "end": {"size": 5 * 10**9, "size_vram": in_vram},
    }
    found = record_of(stage(), ollama=ps)
    assert (found.gpu_residency, found.offload) == (residency, offload)
    assert found.kv_cache_peak_pct is None


def test_what_a_person_wrote_of_residency_stands() -> None:
    ps = {"end": {"size": 5, "size_vram": 5}}
    assert record_of(stage(), Facts({"gpu_residency": "all layers"}), ollama=ps).gpu_residency == "all layers"


@pytest.mark.parametrize("entry", [None, "loaded", {}, {"size": 0, "size_vram": 0}, {"size": 5, "size_vram": 6}])
def test_an_answer_that_tells_no_residency_leaves_it_null(entry: Any) -> None:
    found = record_of(stage(), ollama={"start": entry})
    assert (found.gpu_residency, found.offload) == (None, None)
