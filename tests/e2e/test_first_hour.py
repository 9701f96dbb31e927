"""What a tired person does in the first hour: wrong targets, budgets, dying servers, Ctrl-C, full disks, keys."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from llm_locust.simulator.process import Running, SimulatorProcess
from tests.e2e.conftest import CHAT, LADDER, Locust, free_port, processes, truth
from tests.e2e.waiting import llm_locust, rows_on_disk, until

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

FAST = ["--stage-time", "4", "--warmup-time", "0.5", "--cooldown", "1", "--max-tokens", "8", "--deadline", "10"]
LONG = ["--stage-time", "600", "--warmup-time", "0", "--cooldown", "1", "--max-tokens", "8", "--deadline", "20"]
LOOSE = ["--slo", "ttft=8000"]


# --- nothing is sent ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dry_run_says_what_would_happen_and_sends_nothing(locust: Locust, simulator: Simulator, workers: int) -> None:
    server = simulator()
    run = locust.run(
        *(processes(workers) if workers else []), "--host", server.base_url, "--rates", "0.5,1,2", "--dry-run",
        "--slo", "ttft=500,e2e=3000", "--price-per-hour", "2.5",
    )  # fmt: skip
    assert run.code == 0, run.stderr
    for word in ("0.5", "P95", "P99", "signed", "tokens", "2.5"):
        assert word in run.stdout
    assert len(truth(server)) == 0
    assert not run.folder.path.exists()


def test_a_server_that_is_still_loading_is_waited_for(locust: Locust, simulator: Simulator) -> None:
    server = simulator(loading_seconds=4)
    run = locust.run("--host", server.base_url, "--rates", "5", *FAST, *LOOSE)
    run.assert_ran()
    assert "waiting for" in run.stderr
    assert set(run.rows()["outcome"]) == {"ok"}


@pytest.mark.parametrize(
    ("options", "arguments", "says"),
    [
        ({"model": "qwen"}, ["--model", "qwem"], "qwen"),
        ({"api_key_env": "SIM_KEY"}, [], "LLM_LOCUST_API_KEY"),
        ({"fault": ["html:1.0"]}, [], "web page"),
        ({"fault": ["not-streamed:1.0"]}, [], "stream"),
        ({"fault": ["status=429:1.0"]}, [], "429"),
        ({"max_model_len": 16}, [], "context"),
    ],
)
def test_what_cannot_work_is_named_before_load(
    locust: Locust,
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.setenv("SIM_KEY", "a-key-of-the-server")
    server = simulator(**options)
    run = locust.run("--host", server.base_url, "--rates", "5", *FAST, *arguments)
    assert run.code == 2
    assert says in run.stderr
    assert "Traceback" not in run.stderr
    assert not run.folder.path.exists()


def test_a_wrong_path_under_the_right_host_is_named(locust: Locust, simulator: Simulator) -> None:
    server = simulator()
    run = locust.run("--host", f"{server.base_url}/api/openai", "--rates", "5", *FAST)
    assert run.code == 2
    assert "404" in run.stderr


def test_a_server_that_is_not_there_is_waited_for_and_then_named(locust: Locust) -> None:
    run = locust.run("--host", f"http://127.0.0.1:{free_port()}", "--rates", "5", "--ready-timeout", "1")
    assert run.code == 2
    assert "not ready within 1 s" in run.stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "class Mine(OpenAIChatUser):\n    def build_body(self, prompt):\n        return prompt.nope\n",
            "Mine cannot make a request",
        ),
        (
            "class Mine(OpenAIChatUser):\n    def build_headers(self, prompt):\n        raise KeyError('team')\n",
            "mine.py:4",
        ),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_mistake_in_the_users_own_class_is_named_where_it_stands(
    locust: Locust, simulator: Simulator, code: str, says: str, workers: int
) -> None:
    server = simulator()
    mine = locust.home / "mine.py"
    mine.write_text(f"from llm_locust import OpenAIChatUser\n{code}")
    forked = processes(workers) if workers else []
    run = locust.run(*forked, "--host", server.base_url, "--rates", "5", *FAST, files=f"{mine},{LADDER}")
    assert run.code == 2
    assert says in run.stderr.splitlines()[-1]  # the last thing that is said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return ['1', 2]", "which is no stage"),
        ("yield options.open_stage(-1)", "greater than 0"),
        ("yield options.open_stage(1e9)", "arrivals in one stage"),
        ("return 5", "cannot list its stages: TypeError"),
        ("import msgspec; yield msgspec.structs.replace(options.open_stage(1), rate_rps='1')", "wrong value: Expected"),
    ],
)
def test_a_mistake_in_a_shape_is_named(locust: Locust, body: str, says: str) -> None:
    mine = locust.home / "mine.py"
    mine.write_text(
        f"from llm_locust import StageShape\nclass Mine(StageShape):\n    def stages(self, options):\n        {body}\n"
    )
    run = locust.run("--host", "http://127.0.0.1:1", files=f"{CHAT},{mine}")
    assert run.code == 2
    assert says in run.stderr
    assert "Traceback" not in run.stderr


def test_a_run_folder_that_cannot_be_written_is_named(locust: Locust, simulator: Simulator) -> None:
    server = simulator()
    run = locust.run("--host", server.base_url, "--rates", "5", *FAST, "--run-dir", "/proc/runs")
    assert run.code == 2
    assert "--run-dir" in run.stderr


def test_a_prompts_file_with_a_bad_seventh_line_is_named_by_file_line_and_reason(locust: Locust) -> None:
    prompts = locust.home / "mine.jsonl"
    prompts.write_text('{"prompt": "good"}\n' * 6 + '{"promt": "typo"}\n')
    run = locust.run("--host", "http://127.0.0.1:1", "--rates", "5", "--prompts", str(prompts))
    assert run.code == 2
    assert f'{prompts}:7: unknown key "promt": write "prompt"' in run.stderr


# --- budgets and mercy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_no_more_requests_are_sent_than_the_budget_allows(locust: Locust, simulator: Simulator, workers: int) -> None:
    server = simulator(slots=16)
    run = locust.run(
        *(processes(workers) if workers else []),
        "--host",
        server.base_url,
        "--rates",
        "20",
        *LONG,
        "--max-requests",
        "25",
    )
    assert run.code == 4  # cut short: the stage cannot be judged
    run.assert_one_row_for_each_planned_arrival()
    rows = run.rows()
    assert rows["sent_ns"].notna().sum() == 25
    assert set(rows[rows["sent_ns"].isna()]["outcome"]) == {"not_sent"}
    assert len(truth(server)) == 25
    assert run.manifest.state == "interrupted"
    assert "--max-requests" in run.stdout


def test_no_more_tokens_are_generated_than_the_budget_allows(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=16)
    run = locust.run("--host", server.base_url, "--rates", "20", *LONG, "--max-output-tokens", "100")
    run.assert_one_row_for_each_planned_arrival()
    assert 92 < run.rows()["output_tokens"].sum() <= 100  # replies of 8: twelve fit
    assert "--max-output-tokens" in run.stdout


def test_the_time_budget_ends_a_run(locust: Locust, simulator: Simulator) -> None:
    server = simulator()
    run = locust.run("--host", server.base_url, "--rates", "5", *LONG, "--max-minutes", "0.05")
    run.assert_one_row_for_each_planned_arrival()
    assert "--max-minutes 0.05 is over" in run.stdout


def test_a_closed_loop_keeps_its_budget_too(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=16)
    run = locust.run(
        "-u", "4", "-r", "4", "--host", server.base_url, "--max-tokens", "8", "--max-requests", "30", files=CHAT
    )
    assert run.rows()["sent_ns"].notna().sum() == 30
    assert len(truth(server)) == 30


def test_a_ladder_stops_at_its_first_failing_stage_when_asked(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=1, decode_ms=20, batch_slowdown=0)
    run = locust.run(
        "--host", server.base_url, "--rates", "1,20,21", "--arrivals", "constant", "--stage-time", "10",
        "--warmup-time", "0", "--cooldown", "0", "--max-tokens", "8", "--deadline", "10", "--slo", "ttft=1500",
        "--stop-on-fail",
    )  # fmt: skip
    assert [stage.spec.rate_rps for stage in run.manifest.stages] == [1.0, 20.0]
    assert run.summary.stages[-1].verdict.result == "fail"
    assert "--stop-on-fail" in run.stdout


def test_when_everything_fails_the_circuit_breaks_and_says_why(locust: Locust) -> None:
    server = SimulatorProcess({"port": 0, "slots": 16})
    process = locust.start(
        "--headless",
        "--host",
        server.base_url,
        "--rates",
        "20,30",
        *LONG,
        "--max-failures",
        "10",
        "--ready-timeout",
        "1",
    )
    until(lambda: rows_on_disk(locust) > 10, "rows")
    server.stop()
    run = locust.finish(process)
    assert run.code == 4
    run.assert_one_row_for_each_planned_arrival()
    assert len(run.manifest.stages) == 1  # the server did not come back: there is no second stage to run
    assert "requests in a row failed" in (run.manifest.stages[0].interrupted or "")
    assert "connect_error" in run.stdout
    outcomes = set(run.rows()["outcome"])
    assert {"ok", "connect_error"} <= outcomes


def test_a_server_that_dies_and_comes_back_costs_its_requests_and_no_more(locust: Locust) -> None:
    port = free_port()
    server = SimulatorProcess({"port": port, "slots": 16})
    process = locust.start(
        "--headless", "--host", server.base_url, "--rates", "20", "--stage-time", "8", "--warmup-time", "0",
        "--cooldown", "1", "--max-tokens", "8", "--deadline", "10", "--max-failures", "0", *LOOSE,
    )  # fmt: skip
    until(lambda: rows_on_disk(locust) > 10, "rows")
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    before = rows_on_disk(locust)
    until(lambda: rows_on_disk(locust) > before + 5, "rows of a dead server")
    server = SimulatorProcess({"port": port, "slots": 16})
    try:
        run = locust.finish(process)
    finally:
        server.stop()
    run.assert_one_row_for_each_planned_arrival()
    outcomes = list(run.rows().sort_values("planned_ns")["outcome"])
    assert outcomes[0] == outcomes[-1] == "ok"
    assert "connect_error" in outcomes
    (stage,) = run.summary.stages
    assert stage.verdict.result == "fail"
    assert stage.measured == stage.successful + stage.failed


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGINT) -> None:
    """As a terminal does it: the signal goes to every process of the group."""
    os.killpg(process.pid, number)


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_once_lets_the_flying_requests_land_and_judges_what_there_is(
    locust: Locust, simulator: Simulator, workers: int
) -> None:
    server = simulator(slots=32, decode_ms=100)
    process = locust.start(
        *(processes(workers) if workers else []), "--headless", "--host", server.base_url, "--rates", "10,20", *LONG
    )
    until(lambda: rows_on_disk(locust) > 5, "rows")
    interrupt(process)
    run = locust.finish(process)
    run.assert_one_row_for_each_planned_arrival()
    assert set(run.rows()["outcome"]) == {"ok", "not_sent"}
    assert run.manifest.state == "interrupted"
    assert len(run.manifest.stages) == 1
    assert "interrupted" in run.stdout
    assert run.folder.report_md.exists()
    assert run.code == 4
    assert "Traceback" not in run.stderr
    assert len(truth(server)) == run.rows()["sent_ns"].notna().sum()


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_twice_cancels_and_still_writes_and_judges(locust: Locust, simulator: Simulator, workers: int) -> None:
    server = simulator(slots=64, decode_ms=2000)  # replies of 16 s: nothing ends by itself in time
    process = locust.start(
        *(processes(workers) if workers else []), "--headless", "--host", server.base_url, "--rates", "10", *LONG,
        "--deadline", "60", "--max-tokens", "8",
    )  # fmt: skip
    until(
        lambda: locust.newest().generator.exists() and "\n" in locust.newest().generator.read_text()[200:], "progress"
    )
    interrupt(process)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("stopping:"):
            break
    interrupt(process)
    run = locust.finish(process, timeout_s=30)
    run.assert_one_row_for_each_planned_arrival()
    assert {"cancelled", "not_sent"} >= set(run.rows()["outcome"])
    assert run.code in (2, 4)  # 2 when the interrupt came before the first request
    assert run.folder.report_md.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_a_closed_terminal_end_a_run_in_order(locust: Locust, simulator: Simulator, number: int) -> None:
    server = simulator(slots=32)
    process = locust.start("--headless", "--host", server.base_url, "--rates", "10", *LONG)
    until(lambda: rows_on_disk(locust) > 5, "rows")
    process.send_signal(number)
    run = locust.finish(process)
    run.assert_one_row_for_each_planned_arrival()
    assert run.manifest.state == "interrupted"
    assert run.code == 4


def test_a_worker_killed_hard_loses_its_arrivals_and_the_stage_is_invalid(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=32)
    process = locust.start(
        *processes(2), "--headless", "--host", server.base_url, "--rates", "10", "--stage-time", "6", "--warmup-time", "0",
        "--cooldown", "1", "--max-tokens", "8", "--deadline", "10",
    )  # fmt: skip
    until(lambda: rows_on_disk(locust) > 10, "rows")
    import json

    stages = json.loads(locust.newest().manifest.read_text())["stages"]
    victim = stages[0]["workers"][1]
    os.kill(victim["pid"], signal.SIGKILL)
    run = locust.finish(process)
    assert run.code == 4
    merged = pd.read_csv(run.folder.merged, dtype={"outcome": "string"})
    assert sorted(merged["index"]) == sorted(run.plan["index"])  # one outcome for each, lost ones included
    lost = merged[merged["outcome"] == "lost"]
    assert len(lost) > 0
    assert set(lost["worker"]) == {victim["worker"]}
    (stage,) = run.summary.stages
    assert stage.verdict.result == "invalid"
    assert stage.planned == stage.attempted + stage.not_sent + stage.lost


# --- a disk that is full --------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_ends_the_run_with_whole_files(locust: Locust, simulator: Simulator, small_disk: Path) -> None:
    server = simulator(slots=32)
    process = locust.start(
        "--headless",
        "--host",
        server.base_url,
        "--rates",
        "20",
        *LONG[2:],
        "--stage-time",
        "60",
        "--run-dir",
        str(small_disk),
    )
    until(lambda: any(small_disk.glob("*/requests/worker-0.csv")), "the run folder", 40)
    with open(small_disk / "ballast", "wb") as ballast:  # somebody else fills the disk
        try:
            while True:
                ballast.write(b"x" * 65536)
                ballast.flush()
        except OSError:
            pass
    stdout, stderr = process.communicate(timeout=90)
    (folder,) = (path for path in small_disk.iterdir() if path.is_dir())
    rows = (folder / "requests" / "worker-0.csv").read_text()
    assert rows.endswith("\n")
    planned = pd.read_csv(folder / "plan.csv")["index"]
    assert sorted(pd.read_csv(folder / "requests" / "worker-0.csv")["index"]) == sorted(planned)
    assert "No space left on device" in " ".join((stdout + stderr).split())
    assert process.returncode in (1, 4)


# --- keys, headers, whole replies -----------------------------------------------------------------------------------

SECRET = "sk-the-secret-0123456789abcdef"


@pytest.mark.parametrize("workers", [0, 2])
def test_the_key_reaches_the_server_and_nothing_else(
    locust: Locust, simulator: Simulator, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv("SIM_KEY", SECRET)
    server = simulator(api_key_env="SIM_KEY")
    forked = processes(workers) if workers else []
    run = locust.run(
        *forked, "--host", server.base_url, "--rates", "5", *FAST, *LOOSE, "--api-key-env", "MY_KEY", "--loglevel", "DEBUG",
        "--header", "X-Also-Token: @env:MY_KEY", "--logfile", "log.txt", env={"MY_KEY": SECRET},
    )  # fmt: skip
    run.assert_ran()
    assert set(run.rows()["outcome"]) == {"ok"}
    written = [path for path in locust.home.rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in run.stdout + run.stderr
    assert "MY_KEY" in run.folder.manifest.read_text()


def test_a_wrong_key_is_not_shown_when_the_server_echoes_it(
    locust: Locust, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIM_KEY", "another")
    server = simulator(api_key_env="SIM_KEY")
    run = locust.run("--host", server.base_url, "--rates", "5", *FAST, env={"LLM_LOCUST_API_KEY": SECRET})
    assert run.code == 2
    assert SECRET not in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--header", f"Authorization: Bearer {SECRET}"], "@env:"),
        (["--header", f"X-Api-Key: {SECRET}"], "@env:"),
        (["--header", f"X-Team: {SECRET}"], "@env:"),
        (["--host", f"http://127.0.0.1:1/v1?key={SECRET}"], "after ? or #"),
        (["--header", "no colon"], "Name: value"),
        (["--header", "X-Key: @env:NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE is not set"),
        (["--api-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
        (["--no-stream", "--slo", "ttft=500"], "whole reply has no first token"),
        (["--warmup-time", "20", "--stage-time", "10"], "longer than the measured window"),
        (["--max-requests", "0"], "at least 1"),
        (["--max-minutes", "0"], "greater than 0"),
        (["--require-rate", "x"], "requests per second"),
    ],
)
def test_what_cannot_be_meant_is_refused(locust: Locust, arguments: list[str], says: str) -> None:
    run = locust.run("--host", "http://127.0.0.1:1", "--rates", "1", *arguments)
    assert run.code == 2
    assert says in run.stderr
    assert SECRET not in run.stdout + run.stderr


def test_whole_replies_have_no_ttft_and_are_judged_by_e2e(locust: Locust, simulator: Simulator) -> None:
    server = simulator()
    run = locust.run("--host", server.base_url, "--rates", "10", *FAST, "--no-stream", "--slo", "e2e=8000")
    run.assert_ran()
    rows = run.rows()
    assert set(rows["outcome"]) == {"ok"}
    assert rows["first_output_ns"].isna().all()
    assert set(rows["output_tokens_source"]) == {"usage"}
    (stage,) = run.summary.stages
    assert stage.attainment == 1.0
    assert stage.percentiles["ttft_p95_ms"].value is None
    assert not run.manifest.streaming


# --- judging again, exit codes --------------------------------------------------------------------------------------


def test_an_old_run_can_be_judged_by_other_limits_and_is_marked_so(locust: Locust, simulator: Simulator) -> None:
    server = simulator()
    run = locust.run("--host", server.base_url, "--rates", "10", *FAST, *LOOSE, "--require-pass")
    assert run.code == 0, run.stderr
    before = run.folder.report_md.read_bytes()
    again = llm_locust("report", str(run.folder.path), "--slo", "ttft=1")
    assert again.returncode == 3, again.stderr  # what the run required is not there by these limits
    assert "set after the run" in again.stdout
    assert "NOT met" in again.stdout
    assert run.folder.report_md.read_bytes() == before
    merged = llm_locust("merge", str(run.folder.path))
    assert merged.returncode == 0
    gate = llm_locust("gate", str(run.folder.path), "--require-rate", "9")
    assert (gate.returncode, "set after the run" in gate.stdout) == (0, True)
    assert llm_locust("gate", str(run.folder.path), "--require-rate", "11").returncode == 3
    assert llm_locust("gate", str(run.folder.path / "nothing")).returncode == 2


def test_a_requirement_that_is_not_met_exits_with_three(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=1, decode_ms=50)
    run = locust.run(
        "--host", server.base_url, "--rates", "10", "--arrivals", "constant", "--stage-time", "6", "--warmup-time", "0",
        "--cooldown", "0", "--max-tokens", "8", "--slo", "ttft=2000", "--require-rate", "10",
    )  # fmt: skip
    assert run.code == 3, run.stdout
    assert "Required: a sustained rate of at least 10 req/s: NOT met" in run.stdout


def test_more_workers_than_arrivals_is_fine_and_said(locust: Locust, simulator: Simulator) -> None:
    server = simulator()
    run = locust.run(
        *processes(3),
        "--host",
        server.base_url,
        "--rates",
        "0.3",
        "--arrivals",
        "constant",
        *FAST,
        files=f"{CHAT},{LADDER}",
    )
    run.assert_one_row_for_each_planned_arrival()
    assert len(run.rows()) < 3
    assert "some will idle" in run.stderr
