"""The dry run of every shape that comes along: its stages, its time, its tokens, and nothing that is not so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_locust.arrivals import load_trace
from llm_locust.records.run import UserChoice
from llm_locust.report.preview import preview_text
from llm_locust.sizing import Preview, preview
from llm_locust.workload import load_workload
from tests.plugin.shapes import AZURE, listed, options
from tests.sizing.runs import closed_stage, look_ahead

SHORT = {"warmup_time": "5", "cooldown": "10", "deadline": "20"}


def ahead(name: str, **given: Any) -> Preview:
    asked = {**SHORT, **given}
    read = options(**asked)
    return preview(
        listed(name, **asked),
        [UserChoice(name="U", weight=1)],
        load_workload(read.workload),
        slo=read.slo,
        deadline_s=read.deadline_s,
        workers=2,
    )


def said(found: Preview) -> str:
    return " ".join(preview_text(found, width=120).split())


def test_a_rate_ladder_of_n_requests_lasts_about_n_over_the_rate_and_measures_n() -> None:
    found = ahead("rate_ladder", rates="0.5,1", requests="20", rounds="2")
    assert [stage.window_s for stage in found.stages] == [40, 20, 40, 20]
    assert [stage.requests for stage in found.stages] == [20] * 4
    assert [(stage.window_planned, stage.samples) for stage in found.stages] == [(20, 20)] * 4
    assert len({stage.all_planned for stage in found.stages}) > 1  # every round has arrivals of its own
    assert found.at_least_s == 4 * 5 + 2 * 40 + 2 * 20


def test_a_closed_stage_of_n_requests_ends_with_them_and_is_never_waited_for_by_hand() -> None:
    found = ahead("concurrency_ladder", concurrency="1,4", repeats="3")
    # Three requests one after another (in each loop), each to its deadline of 20 s, after one that the warm-up left.
    assert [(stage.requests, stage.at_least_s, stage.at_most_s) for stage in found.stages] == [(3, 5, 85), (12, 5, 85)]
    text = said(found)
    assert "The run takes at least 10 s, at most 2 min 50 s" in text
    assert "Note: stage 1 is a closed loop: nothing is planned, and it lasts until 3 requests are measured." in text
    assert "until it is stopped" not in text


def test_loops_of_unlike_shares_are_waited_for_as_long_as_the_longest() -> None:
    (stage,) = look_ahead(closed_stage(concurrency=4, requests=9), deadline_s=10.0).stages
    assert (stage.at_least_s, stage.at_most_s) == (0, 3 * 10)


def test_a_closed_stage_of_a_set_time_lasts_that_long() -> None:
    found = ahead("concurrency_ladder", concurrency="2", stage_time="30")
    assert [(stage.at_least_s, stage.at_most_s) for stage in found.stages] == [(35, 55)]


def test_a_cold_start_counts_its_idle_time_and_says_what_comes_before_the_first_request() -> None:
    found = ahead("cold_start", rates="2", idle="90", stage_time="30")
    first, warm = found.stages
    assert (first.requests, first.at_least_s, first.at_most_s) == (1, 90, 110)
    assert warm.at_least_s == 35
    text = said(found)
    assert "closed C=1 after 90 s idle" in text
    assert "it lasts until 1 request is measured" in text


def test_the_bursts_of_a_search_and_its_ladder_are_all_that_is_foretold() -> None:
    found = ahead("capacity_search", rates="1", stage_time="30")
    assert [stage.label for stage in found.stages] == ["open 1/s poisson", "open 1/s gamma:cv=3"]
    assert found.at_most_s is not None


def test_a_soak_is_foretold_in_hours() -> None:
    assert "at least 1 h 5 s" in said(ahead("soak", rates="0.5", stage_time="1h"))


def test_a_replay_is_foretold_with_its_own_arrivals_and_lengths() -> None:
    found = ahead("trace_replay", trace=AZURE, warmup_time="0", cooldown="0", max_tokens="999")
    (stage,) = found.stages
    trace = load_trace(AZURE, "azure")
    assert (stage.window_planned, stage.all_planned) == (40, 40)
    assert stage.tokens is not None
    assert stage.tokens.output_at_most == int(trace.output_tokens.sum())
    assert "40 prompts" not in said(found)  # made-up text has as many as are asked for


def test_the_tokens_of_a_slice_are_those_of_its_rows_and_not_of_the_first(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"timestamp": at, "prompt": "x" * 40 * (at + 1), "max_tokens": at + 1} for at in range(10)]
    log.write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = ahead("trace_replay", trace=str(log), trace_from="5", trace_to="8", warmup_time="0", cooldown="0")
    (stage,) = found.stages
    assert stage.window_planned == 3
    assert stage.tokens is not None
    assert (stage.tokens.output_at_most, stage.tokens.input_estimated) == (6 + 7 + 8, (6 + 7 + 8) * 10)


def test_the_bursts_tokens_are_those_of_the_prompts_that_both_stages_share(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": "abcd", "max_tokens": k + 1}) + "\n" for k in range(10)))
    found = ahead("burst", rates="2", stage_time="15", warmup_time="0", cooldown="0", prompts=str(path))
    even, bursty = found.stages
    assert even.tokens is not None
    assert bursty.tokens is not None
    assert even.window_planned == 30
    assert even.tokens.output_at_most == 3 * 55  # from prompt 1,000,000,000 on: three times through the file
    count = bursty.window_planned
    assert count is not None
    assert bursty.tokens.output_at_most == 55 * (count // 10) + sum(range(1, count % 10 + 1))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rate_ladder", {"rates": "0.5,1", "rounds": "2", "shuffle": True}),
        ("concurrency_ladder", {"concurrency": "1,8", "repeats": "4"}),
        ("capacity_search", {"rates": "1,2"}),
        ("burst", {"rates": "2", "burst": "on-off:on=1,off=3"}),
        ("cold_start", {"rates": "1", "unload": True, "cold_share": "0.25"}),
        ("trace_replay", {"trace": AZURE, "rate_scale": "2", "trace_jitter": True}),
        ("soak", {"rates": "0.1", "stage_time": "10m"}),
    ],
)
def test_every_shape_can_be_foretold_in_the_width_of_a_terminal(name: str, given: dict[str, Any], width: int) -> None:
    text = preview_text(ahead(name, **given), width=width)
    assert text.startswith("Dry run: nothing is sent.")
    assert max(map(len, text.splitlines())) <= width
