"""The main job: a ladder of open arrivals from the locust command, on one process or many, against the server's own log."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from llm_locust.records import plan_header_line
from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, LADDER, Locust, free_port, processes, truth

pytestmark = pytest.mark.process

SHORT = ["--stage-time", "4", "--warmup-time", "1", "--cooldown", "2", "--max-tokens", "8", "--deadline", "10"]
Simulator = Callable[..., Running]


def test_a_ladder_alone_accounts_for_every_arrival_and_agrees_with_the_servers_log(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=40)
    run = locust.run("--host", server.base_url, "--rates", "5,10", *SHORT, "--slo", "ttft=8000,e2e=9000")
    assert run.code == 0, run.stderr + run.stdout
    run.assert_one_row_for_each_planned_arrival()
    rows, log = run.rows().set_index("request_id"), truth(server).set_index("request_id")
    assert set(rows.index) == set(log.index)
    assert log.index.is_unique
    both = rows.join(log, suffixes=("", "_true"))
    assert (both["output_tokens"] == both["output_tokens_true"]).all()
    assert (both["prompt_tokens"] == both["prompt_tokens_true"]).all()
    # Causality, on one machine's clock: nothing is received before it was sent, and nothing sent after it was received.
    tolerance_ns = 5_000_000
    assert (both["first_output_ns"] >= both["t_first_ns"] - tolerance_ns).all()
    assert (both["sent_ns"] <= both["t_recv_ns"] + tolerance_ns).all()
    assert [stage.result for stage in (s.verdict for s in run.summary.stages)] == ["pass", "pass"]
    assert run.summary.synthetic_engine
    assert "synthetic" in run.stdout


def test_two_workers_share_the_plan_and_the_master_has_a_copy_of_every_row(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=40)
    run = locust.run(*processes(2), "--host", server.base_url, "--rates", "6,12", *SHORT)
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    rows = run.rows()
    for _, stage in rows.groupby("stage"):
        ordered = stage.sort_values("index")
        assert set(ordered["worker"]) == {0, 1}
        assert (ordered["worker"].diff().dropna() != 0).all()  # arrivals[k::2]: they take turns
    copies = run.rows(shipped=True)
    assert sorted(copies["index"]) == sorted(rows["index"])
    assert len(truth(server)) == len(rows)


def test_the_plan_is_the_same_for_any_number_of_workers(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    plans = []
    for workers in ([], processes(2)):
        run = locust.run(*workers, "--host", server.base_url, "--rates", "8", *SHORT)
        run.assert_ran()
        start = run.manifest.stages[0].start_ns
        due = run.plan[run.plan["phase"] != "cooldown"]
        plans.append((run.manifest.stages[0].plan_sha256, [int(at) - start for at in due["planned_ns"]]))
    assert plans[0] == plans[1]


def test_master_and_workers_can_be_started_apart_and_elsewhere(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    port = str(free_port())
    elsewhere = Locust(locust.home / "elsewhere")
    elsewhere.home.mkdir()
    master = locust.start(
        "--headless", "--master", "--expect-workers", "2", "--master-bind-port", port,
        "--host", server.base_url, "--rates", "8", *SHORT,
    )  # fmt: skip
    workers = [elsewhere.start("--worker", "--master-port", port) for _ in range(2)]
    run = locust.finish(master)
    codes = [worker.communicate(timeout=30) and worker.returncode for worker in workers]
    run.assert_ran()
    assert codes == [0, 0]
    run.assert_one_row_for_each_planned_arrival()
    assert not (elsewhere.home / "runs").exists()  # the folder is the master's, wherever a worker was started


def test_a_worker_that_joins_during_a_stage_takes_part_from_the_next(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    port = str(free_port())
    master = locust.start(
        "--headless", "--master", "--expect-workers", "1", "--master-bind-port", port,
        "--host", server.base_url, "--rates", "8,9", *SHORT,
    )  # fmt: skip
    first = locust.start("--worker", "--master-port", port)
    give_up = time.monotonic() + 30
    while not locust.newest().generator.exists():
        assert time.monotonic() < give_up
        time.sleep(0.05)
    second = locust.start("--worker", "--master-port", port)
    run = locust.finish(master)
    assert [worker.communicate(timeout=30) and worker.returncode for worker in (first, second)] == [0, 0]
    run.assert_one_row_for_each_planned_arrival()
    workers = [set(part["worker"]) for _, part in run.rows().groupby("stage")]
    assert workers == [{0}, {0, 1}]


def test_overload_is_seen_in_the_window_and_fails(locust: Locust, simulator: Simulator) -> None:
    """10/s offered to a server that takes 5/s: one slot, 200 ms a reply of 10 tokens."""
    server = simulator(slots=1, decode_ms=20, batch_slowdown=0, prefill_tps=1e9)
    run = locust.run(
        "--host", server.base_url, "--rates", "10", "--arrivals", "constant", "--stage-time", "8", "--warmup-time", "1",
        "--cooldown", "2", "--max-tokens", "10", "--deadline", "30", "--slo", "ttft=2000",
    )  # fmt: skip
    assert run.code == 0, run.stderr  # the boundary was found: that is a success
    (stage,) = run.summary.stages
    assert stage.measured == 80
    assert stage.completed_in_window_rps == pytest.approx(5, abs=1)
    assert stage.request_throughput_rps == pytest.approx(10, abs=0.5)  # a ratio of the batch, and never a capacity
    assert stage.in_flight_trend is not None
    assert stage.in_flight_trend.state == "rising"
    assert stage.verdict.result == "fail"
    assert {"ttft", "in_flight_trend"} <= {dimension.name for dimension in stage.verdict.failing_dimensions}


def test_a_cap_is_a_wait_on_record_and_not_a_closed_loop(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=20, batch_slowdown=0, prefill_tps=1e9)
    run = locust.run(
        "--host", server.base_url, "--rates", "20", "--arrivals", "constant", "--stage-time", "3", "--warmup-time", "0",
        "--cooldown", "0", "--max-tokens", "10", "--deadline", "30", "--max-in-flight", "2",
    )  # fmt: skip
    run.assert_one_row_for_each_planned_arrival()
    rows = run.rows()
    assert len(rows) == 60  # every arrival of 20/s for 3 s was taken up, though only 10/s could be sent
    lag_ms = (rows["dispatched_ns"] - rows["planned_ns"]) / 1e6
    wait_ms = (rows["sent_ns"] - rows["dispatched_ns"]) / 1e6
    assert wait_ms.max() > 1000  # the last of 60 waits for some 58 others, two at a time
    assert lag_ms.median() < wait_ms.median()
    (stage,) = run.summary.stages
    assert stage.peak_in_flight is not None
    assert stage.percentiles["cap_wait_p95_ms"].value == pytest.approx(wait_ms.quantile(0.95), rel=0.1)


def test_locusts_own_totals_count_each_request_once(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    run = locust.run("--host", server.base_url, "--rates", "8", *SHORT, "--csv", "own")
    run.assert_ran()
    import pandas as pd

    table = pd.read_csv(locust.home / "own_stats.csv").set_index("Type")
    sent = len(run.rows())
    assert table.loc["POST", "Request Count"] == sent
    assert table[table["Name"] == "Aggregated"]["Request Count"].tolist() == [sent]
    assert {"TTFT", "TPOT", "ITL", "E2E", "client wait"} <= set(table.index)
    assert table.loc["ITL", "Request Count"] == sent * 7


def test_a_users_own_code_is_handed_every_record(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    own = locust.home / "own.py"
    own.write_text(
        """
from locust import events
from llm_locust import OpenAIChatUser, Prompt

class Short(OpenAIChatUser):
    def build_body(self, prompt: Prompt):
        return {**super().build_body(prompt), "max_tokens": 3}

@events.llm_request.add_listener
def keep(record, reply, user, **kwargs):
    with open("seen.txt", "a") as file:
        file.write(f"{record.index} {record.output_tokens} {type(user).__name__}\\n")
"""
    )
    run = locust.run("--host", server.base_url, "--rates", "8", *SHORT, files=f"{own},{LADDER}")
    run.assert_ran()
    seen = sorted((locust.home / "seen.txt").read_text().split("\n")[:-1], key=lambda line: int(line.split()[0]))
    assert seen == [f"{index} 3 Short" for index in sorted(run.rows()["index"])]


def test_options_come_from_the_environment_and_from_locusts_config_file(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    (locust.home / "locust.conf").write_text("rates = 7\nstage-time = 3\nslo = ttft=1500\n")
    run = locust.run(
        "--host", server.base_url, "--warmup-time", "0", "--cooldown", "1",
        env={"LOCUST_LLM_MAX_TOKENS": "4", "LOCUST_LLM_SEED": "9"},
    )  # fmt: skip
    run.assert_ran()
    manifest = run.manifest
    assert [stage.spec.rate_rps for stage in manifest.stages] == [7.0]
    assert (manifest.seed, manifest.slo) == (9, {"ttft": 1500.0})
    assert set(run.rows()["output_tokens"]) == {4}


def test_the_completions_endpoint_is_one_locustfile_away(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    prompts = locust.home / "p.jsonl"
    prompts.write_text('{"prompt": "once upon", "max_tokens": 4}\n{"prompt": "a time", "max_tokens": 6}\n')
    files = f"{CHAT.replace('chat.py', 'completions.py')},{LADDER}"
    run = locust.run("--host", server.base_url, "--rates", "8", *SHORT, "--prompts", str(prompts), files=files)
    run.assert_ran()
    rows = run.rows()
    assert set(rows["outcome"]) == {"ok"}
    assert (rows["output_tokens"] == rows["max_tokens"]).all()
    assert set(rows["output_tokens"]) == {4, 6}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rates", "0"], "greater than 0"),
        (["--rates", "-1"], "greater than 0"),
        (["--rates", "fast"], "requests per second"),
        (["--rates", "inf"], "concurrency_ladder"),
        ([], "--rates is missing"),
        (["--rates", "1", "--slo", "ttft=500s"], "without a unit"),
        (["--rates", "1", "--slo", "ttfb=500"], "ttft"),
        (["--rates", "1", "--arrivals", "uniform"], "poisson"),
        (["--rates", "1", "--stage-time", "soon"], "seconds"),
        (["--rates", "1", "--max-in-flight", "0"], "at least 1"),
        (["--rates", "1", "--prompts", "none.jsonl"], "No such file"),
        (["--rates", "1", "--host", "http://me:secret@127.0.0.1:1"], "LLM_LOCUST_API_KEY"),
        (["--rates", "1", "--host", "127.0.0.1"], "base URL"),
    ],
)
def test_a_wrong_option_is_refused_before_load_with_what_is_allowed(
    locust: Locust, arguments: list[str], says: str
) -> None:
    run = locust.run("--host", "http://127.0.0.1:1", *arguments)
    assert run.code == 2
    assert says in run.stderr
    assert "Traceback" not in run.stderr
    assert not run.folder.path.exists()


def test_the_plan_header_is_the_contract(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    run = locust.run("--host", server.base_url, "--rates", "5", *SHORT)
    assert run.folder.plan.read_text().splitlines()[0] + "\n" == plan_header_line()
