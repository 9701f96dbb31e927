"""What differs between runs: one thing is compared, anything more is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from llm_locust.analysis.settings import differing
from llm_locust.analysis.verdict import NOT_JUDGED
from llm_locust.records import Manifest, UsageError, WorkloadFacts
from llm_locust.records.comparison import SettingDifference
from llm_locust.records.manifest import StageManifest
from llm_locust.records.stage import StageSpec
from llm_locust.records.summary import GeneratorHealth, Reconciliation, RunSummary, StageSummary


def stage(**spec: Any) -> StageManifest:
    values: dict[str, Any] = {
        "stage": 0, "rate_rps": 2.0, "warmup_s": 0.0, "window_s": 60.0, "cooldown_s": 5.0, "seed": 1, "first_index": 0,
    }  # fmt: skip
    return StageManifest(spec=StageSpec(**(values | spec)), start_ns=0, window_start_ns=0, window_end_ns=1)


def manifest(*, sha: str = "a" * 64, stages: list[StageManifest] | None = None, **changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "run_id": "r", "state": "complete", "started_at": "2026-09-21T14:13:20Z", "host": "http://127.0.0.1:8000",
        "seed": 1, "deadline_s": 30.0, "model": "m",
        "workload": WorkloadFacts(name="chat", kind="representative", source="a file", sha256=sha),
        "stages": stages if stages is not None else [stage()],
    }  # fmt: skip
    return Manifest(**(values | changes))


def summary(of: Manifest) -> RunSummary:
    return RunSummary(
        run_id=of.run_id, state=of.state, started_at=of.started_at, host=of.host, workload="chat",
        workload_kind="representative", workload_sha256=of.workload.sha256, deadline_s=of.deadline_s, verdict="", sent=1,
        reconciliation=Reconciliation(planned=1, attempted=1, not_sent=0, lost=0),
    )  # fmt: skip


def found(a: Manifest, b: Manifest, *allowed: str, in_common: bool = True) -> dict[str, str]:
    of = differing([a, b], [summary(a), summary(b)], points_in_common=in_common, allowed=allowed)
    return {difference.name: difference.role for difference in of}


def test_runs_made_alike_differ_in_nothing() -> None:
    assert found(manifest(), manifest(run_id="s", started_at="2027-01-01T00:00:00Z", command=["locust", "-x"])) == {}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model", {"model": "other"}),
        ("slo", {"slo": {"ttft": 500.0}}),
        ("gates", {"gates": ["oom=0"]}),
        ("quality", {"quality": "json"}),
        ("cancel", {"cancel": "share=0.1,after=2s"}),
        ("deadline", {"deadline_s": 60.0}),
        ("max_in_flight", {"max_in_flight": 8}),
        ("streaming", {"streaming": False}),
        ("tls_verified", {"tls_verified": False}),
        ("proxy", {"proxy": "http://p:3128"}),
        ("users", {"users": ["Other"]}),
        ("seed", {"seed": 2}),
        ("workload", {"sha": "b" * 64}),
        ("llm-locust", {"versions": {"llm-locust": "9"}}),
        ("engine", {"versions": {"engine": "vLLM", "engine_version": "1"}}),
        ("generator", {"machine": {"cpus": 4}}),
        ("prefix_caching", {"server_facts_start": {"prefix_caching": True}}),
        ("accelerator", {"facts": {"accelerator": "L4"}}),
        ("extra_body", {"options": {"extra_body": "{}"}}),
        ("window", {"stages": [stage(window_s=30.0)]}),
        ("window", {"stages": [stage(window_s=None, requests=100)]}),
        ("warmup", {"stages": [stage(warmup_s=10.0)]}),
        ("cooldown", {"stages": [stage(cooldown_s=10.0)]}),
    ],
)
def test_each_thing_that_matters_is_what_is_compared_when_it_alone_differs(name: str, change: dict[str, Any]) -> None:
    assert found(manifest(), manifest(**change)) == {name: "compared"}


@pytest.mark.parametrize(
    "options", [{"run_dir": "elsewhere"}, {"metrics": ["off"]}, {"price_per_hour": "2"}, {"max_requests": "9"}]
)
def test_options_that_change_no_figure_are_no_difference(options: dict[str, Any]) -> None:
    assert found(manifest(), manifest(options=options)) == {}


def test_more_than_one_thing_is_refused_with_both_values_of_each() -> None:
    with pytest.raises(UsageError) as refused:
        found(manifest(), manifest(seed=2, model="other", deadline_s=60.0))
    said = str(refused.value)
    assert "the runs differ in 3 things" in said
    for line in ("  model: m against other", "  seed: 1 against 2", "  deadline: 30 s against 60 s"):
        assert line in said.splitlines()
    assert "--allow seed --allow deadline" in said


def test_what_is_allowed_by_name_leaves_the_other_to_be_compared() -> None:
    a, b = manifest(), manifest(seed=2, model="other")
    assert found(a, b, "seed") == {"model": "compared", "seed": "allowed"}
    assert found(a, b, "seed", "model") == {"model": "allowed", "seed": "allowed"}


def test_a_name_that_is_none_is_refused_with_those_that_differ() -> None:
    with pytest.raises(UsageError, match="--allow sead: no setting is called so; what differs here is seed"):
        found(manifest(), manifest(seed=2), "sead")


def test_an_address_is_compared_only_where_nothing_else_differs() -> None:
    other = "http://127.0.0.1:8001"
    assert found(manifest(), manifest(host=other)) == {"host": "compared"}
    assert found(manifest(), manifest(host=other, model="m-int4")) == {"model": "compared", "host": "noted"}


def test_another_model_is_one_thing_however_many_facts_tell_of_it() -> None:
    a = manifest(server_facts_start={"model_id": "m", "quantization_dtype": "BF16", "kv_cache_size_tokens": 1000})
    b = manifest(
        model="m-int4",
        server_facts_start={"model_id": "m-int4", "quantization_dtype": "INT4", "kv_cache_size_tokens": 4000},
    )
    assert found(a, b) == {"model": "compared", "kv_cache_size_tokens": "noted"}


def test_a_digest_that_follows_from_an_option_is_not_a_second_difference() -> None:
    a, b = manifest(options={"input_tokens": "512"}), manifest(sha="b" * 64, options={"input_tokens": "2048"})
    assert found(a, b) == {"input_tokens": "compared"}
    with pytest.raises(UsageError, match="differ in 2 things"):
        found(a, manifest(sha="b" * 64, options={"input_tokens": "2048", "output_tokens": "8"}))


def test_the_same_prompts_in_another_place_are_the_same_prompts() -> None:
    assert found(manifest(options={"prompts": "a.jsonl"}), manifest(options={"prompts": "b.jsonl"})) == {}


def test_tokens_counted_by_different_things_are_a_difference() -> None:
    a, b = manifest(), manifest()
    of = [summary(a), summary(b)]
    for each, source in zip(of, ("usage", "events"), strict=True):
        each.stages = [
            StageSummary(
                stage=0, round=0, label="", mode="open", rate_rps=2.0, arrivals="poisson", concurrency=None, planned=9,
                attempted=9, not_sent=0, lost=0, warmup_requests=0, cooldown_requests=0, dispatched=9, sent=9,
                seconds_method=None, measured=9, successful=9, failed=0, seconds=60.0, token_sources={source: 9},
                generator=GeneratorHealth(valid=True, lag_bound_ms=5.0), verdict=NOT_JUDGED,
            )
        ]  # fmt: skip
    differences = differing([a, b], of, points_in_common=True)
    assert differences == [SettingDifference(name="output_token_source", values=["usage", "events"], role="compared")]


def test_open_arrivals_against_a_closed_loop_are_one_thing() -> None:
    closed = stage(mode="closed", rate_rps=None, concurrency=4, cooldown_s=0.0)
    assert found(manifest(), manifest(stages=[closed]), in_common=False) == {"load": "compared"}


def test_another_rate_or_process_is_compared_where_no_point_is_common() -> None:
    assert found(manifest(), manifest(stages=[stage(rate_rps=4.0)]), in_common=False) == {"rates": "compared"}
    bursty = stage(arrivals="gamma:cv=3")
    assert found(manifest(), manifest(stages=[bursty]), in_common=False) == {"arrivals": "compared"}


def test_further_rates_are_no_difference_where_some_are_common() -> None:
    assert found(manifest(), manifest(stages=[stage(), stage(stage=1, rate_rps=4.0)])) == {}
