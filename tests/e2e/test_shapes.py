"""The shapes that come along, run for real: what they promise, held against the server's own log."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from llm_locust.arrivals import plan_stage
from llm_locust.records.run import UserChoice
from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, ROOT, Locust, Run, processes, truth

pytestmark = pytest.mark.process

AZURE = ROOT / "tests" / "arrivals" / "traces" / "samples" / "azure_code.csv"
OLLAMA = f"{ROOT / 'locustfiles' / 'ollama_chat.py'}"
QUICK = ["--warmup-time", "0.5", "--cooldown", "0.5", "--max-tokens", "8", "--deadline", "20"]
Simulator = Callable[..., Running]


def files(shape: str, users: str = CHAT) -> str:
    return f"{users},{ROOT / 'shapes' / f'{shape}.py'}"


def measured(run: Run) -> pd.DataFrame:
    rows = run.rows()
    return rows[rows["phase"] == "measure"].sort_values("index")


def most_in_flight(log: pd.DataFrame) -> int:
    """By the server's log, from the arrival of a request to just before the write of its last token."""
    changes = [(at, 1) for at in log["t_recv_ns"]] + [(at, -1) for at in log["t_last_ns"]]
    level = np.cumsum([change for _, change in sorted(changes)])
    return int(level.max())


def test_rounds_of_n_requests_measure_n_each_with_fresh_arrivals_and_prompts(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=16, decode_ms=5)
    run = locust.run(
        *processes(2), "--host", server.base_url, "--rates", "20", "--requests", "30", "--rounds", "2", *QUICK,
        files=files("rate_ladder"),
    )  # fmt: skip
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    rows = measured(run)
    assert rows.groupby("round").size().to_dict() == {0: 30, 1: 30}
    assert run.rows()["prompt_sha256"].is_unique
    assert [(stage.round, stage.measured, stage.seconds_method) for stage in run.summary.stages] == [
        (number, 30, "planned_time_of_last_arrival") for number in (0, 1)
    ]
    starts = [stage.window_start_ns for stage in run.manifest.stages]
    offsets = [(part["planned_ns"] - starts[number]).tolist() for number, part in rows.groupby("stage")]
    assert offsets[0] != offsets[1]
    for stage, planned in zip(run.manifest.stages, offsets, strict=True):
        assert stage.window_end_ns is not None
        # Rows are on a worker's clock, a few microseconds from the master's.
        assert planned[-1] == pytest.approx(stage.window_end_ns - stage.window_start_ns, abs=5_000_000)
    assert len(truth(server)) == len(run.rows())


def test_a_concurrency_ladder_keeps_its_number_in_flight_over_all_workers_and_measures_n(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=16, decode_ms=5)
    prompts = locust.home / "ten.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"tell me {k}", "max_tokens": 8}) + "\n" for k in range(10)))
    run = locust.run(
        *processes(2), "--host", server.base_url, "--concurrency", "1,3", "--repeats", "10", *QUICK,
        "--prompts", str(prompts), files=files("concurrency_ladder"),
    )  # fmt: skip
    run.assert_ran()
    rows, log = run.rows(), truth(server).set_index("request_id")
    assert len(log) == len(rows)
    assert set(rows["outcome"]) == {"ok"}
    for concurrency, (number, part) in zip((1, 3), rows.groupby("stage"), strict=True):
        assert Counter(part["phase"])["measure"] == 10 * concurrency
        assert most_in_flight(log.loc[part["request_id"]]) == concurrency
        stage = run.summary.stages[int(number)]
        assert (stage.mode, stage.concurrency, stage.rate_rps) == ("closed", concurrency, None)
        assert (stage.measured, stage.seconds_method) == (10 * concurrency, "first_sent_to_last_end")
        ours = part[part["phase"] == "measure"]
        lasted_s = (ours["end_ns"].max() - ours["sent_ns"].min()) / 1e9
        assert stage.seconds == pytest.approx(lasted_s, abs=0.02)
    assert set(rows[rows["stage"] == 0]["worker"]) == {0}  # one loop: the other worker has none
    assert set(rows[rows["stage"] == 1]["worker"]) == {0, 1}
    for _, part in rows[rows["stage"] == 1].groupby("worker"):
        assert set(part["prompt_index"]) >= {0, 2, 4, 6, 8} or set(part["prompt_index"]) >= {1, 3, 5, 7, 9}


def test_a_replay_sends_in_each_second_what_the_trace_has_in_it(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=64, decode_ms=1, prefill_tps=1e9, max_model_len=100_000)
    run = locust.run(
        "--host", server.base_url, "--trace", str(AZURE), "--time-scale", "0.1", *QUICK, files=files("trace_replay")
    )
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    times = pd.to_datetime(pd.read_csv(AZURE)["TIMESTAMP"]).astype("datetime64[ns]").astype("int64")
    trace_ns = (times - times.iloc[0]).tolist()
    (stage,) = run.manifest.stages
    plan = run.plan[run.plan["phase"] == "measure"]
    planned_ns = [int(at) - stage.window_start_ns for at in plan["planned_ns"]]
    assert planned_ns == [at // 10 for at in trace_ns]
    per_second = Counter(at // 10**9 for at in trace_ns)
    assert Counter(at // 10**8 for at in planned_ns) == per_second  # a second of the trace is a tenth of ours
    rows = measured(run)
    assert len(rows) == 40  # all were dispatched: 1 % of them is less than one
    assert rows["dispatched_ns"].notna().all()
    lengths = pd.read_csv(AZURE)
    assert rows["input_tokens_asked"].tolist() == lengths["ContextTokens"].tolist()
    assert rows["max_tokens"].tolist() == lengths["GeneratedTokens"].tolist()
    assert rows["output_tokens"].tolist() == lengths["GeneratedTokens"].tolist()
    (judged,) = run.summary.stages
    assert (judged.seconds_method, judged.seconds, judged.measured) == (
        "trace_slice",
        pytest.approx((trace_ns[-1] + 100) / 1e10, abs=1e-9),
        40,
    )
    assert judged.dispatched == 40
    assert judged.verdict.result != "invalid" or not judged.generator.valid  # late is told, not hidden


def test_bursts_are_the_same_requests_at_other_times(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=64, decode_ms=2)
    run = locust.run(
        "--host", server.base_url, "--rates", "20", "--stage-time", "2", *QUICK, "--burst", "gamma:cv=2",
        files=files("burst"),
    )  # fmt: skip
    run.assert_ran()
    even, bursty = (part["prompt_sha256"].tolist() for _, part in measured(run).groupby("stage"))
    assert len(even) == 40
    shared = min(len(even), len(bursty))
    assert shared > 10
    assert even[:shared] == bursty[:shared]
    others = run.rows()[run.rows()["phase"] != "measure"]["prompt_sha256"]
    assert others.is_unique
    assert not set(others) & {*even, *bursty}
    assert [stage.label for stage in run.summary.stages] == ["open 20/s constant", "open 20/s gamma:cv=2"]


def test_a_capacity_search_brackets_what_the_server_can_do_and_ends_with_bursts(
    locust: Locust, simulator: Simulator
) -> None:
    """One slot, ten tokens of 20 ms: 5 requests per second, whatever is offered."""
    server = simulator(slots=1, decode_ms=20, batch_slowdown=0, prefill_tps=1e9)
    run = locust.run(
        "--host", server.base_url, "--rates", "4,8", "--arrivals", "constant", "--resolution", "0.45",
        "--stage-time", "3", "--warmup-time", "0.5", "--cooldown", "0", "--max-tokens", "10", "--deadline", "20",
        "--slo", "ttft=400", files=files("capacity_search"),
    )  # fmt: skip
    run.assert_ran()
    found = [(stage.rate_rps, stage.arrivals, stage.verdict.result) for stage in run.summary.stages]
    tried = Counter(stage[:2] for stage in found if stage[2] == "invalid")
    twice = [point for point, times in tried.items() if times > 1 and point[1] == "constant"]
    if twice:  # this machine was too busy to send on time: then nothing is said of the server, and the search is over
        steady = [stage for stage in found if stage[1] == "constant"]
        assert steady[-1][:2] == twice[0]
        return
    found = [stage for stage in found if stage[2] != "invalid" or stage[1] != "constant"]  # those were tried again
    assert [(rate, arrivals) for rate, arrivals, _ in found] == [
        (4, "constant"),
        (8, "constant"),
        (5.66, "constant"),
        (4, "gamma:cv=3"),
    ]
    assert [result for _, _, result in found[:3]] == ["pass", "fail", "fail"]
    boundary = run.summary.boundary
    assert boundary is not None
    assert (boundary.last_pass_rps, boundary.first_fail_rps) == (4, 5.66)  # the truth, 5, is between
    assert boundary.burst == found[3][2]
    assert boundary.burst_name is not None
    assert "gamma" in boundary.burst_name


def test_a_cold_start_has_one_cold_request_and_then_only_those_that_were_to_be(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=2, load_seconds=0.3)
    run = locust.run(
        "--host", server.base_url, "--unload", "--idle", "0.5", "--cold-share", "0.4", "--rates", "2", "--arrivals",
        "constant", "--stage-time", "4", "--warmup-time", "0", "--cooldown", "0", "--max-tokens", "8", "--deadline", "20",
        files=files("cold_start", OLLAMA),
    )  # fmt: skip
    run.assert_ran()
    rows = run.rows().sort_values("index")
    first, warm = rows[rows["stage"] == 0], rows[rows["stage"] == 1]
    assert (first["cold"].tolist(), first["load_duration_ns"].tolist()) == ([1], [300_000_000])
    assert first["phase"].tolist() == ["measure"]
    assert run.manifest.stages[0].spec.unload_before
    assert "asking the server to unload" in run.stderr
    plan = plan_stage(run.manifest.stages[1].spec, [UserChoice(name="ChatUser", weight=1)])
    assert plan.cold is not None
    wanted = [0, *map(int, plan.cold.tolist()[1:])]  # nobody has the model unloaded before the first
    assert 0 < sum(wanted) < 8
    assert warm["cold"].tolist() == wanted


def test_a_soak_is_one_long_stage(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=2)
    run = locust.run("--host", server.base_url, "--rates", "20", "--stage-time", "2", *QUICK, files=files("soak"))
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    (stage,) = run.summary.stages
    assert (stage.label, len(stage.spans)) == ("open 20/s poisson", 10)
    assert [span.start_s for span in stage.spans] == pytest.approx([0.2 * k for k in range(10)])
    assert sum(span.sent for span in stage.spans) > 20


def test_n_requests_that_somebody_stops_are_an_interrupted_stage_and_not_a_smaller_n(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=10)
    process = locust.start(
        "--headless", "--host", server.base_url, "--concurrency", "2", "--repeats", "1000", "--warmup-time", "0",
        "--max-tokens", "8", files=files("concurrency_ladder"),
    )  # fmt: skip
    _await_rows(locust, 4)
    process.send_signal(signal.SIGINT)
    run = locust.finish(process)
    assert run.manifest.state == "interrupted"
    (stage,) = run.manifest.stages
    assert stage.interrupted == "interrupted"
    (judged,) = run.summary.stages
    assert judged.seconds_method == "window_cut_short"
    assert 0 < judged.measured < 2000


def _await_rows(locust: Locust, count: int) -> None:
    give_up = time.monotonic() + 30
    while _lines(locust.newest().requests_dir) < count + 1:
        assert time.monotonic() < give_up, "no rows came"
        time.sleep(0.05)


def _lines(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.glob("worker-0.csv"))
