"""What the report says of the server and its machine: in the terminal, in Markdown, for a pipeline, and on which clock."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from llm_locust.cli.gate import command as gate
from llm_locust.cli.merge import command as merge
from llm_locust.records import NS_PER_S, ClockSample, RunFolder, UsageError
from llm_locust.records.device_sample import (
    DeviceSample,
    TelemetryClock,
    TelemetryFile,
    TelemetryMachine,
    TelemetryNote,
    TelemetryProcess,
)
from llm_locust.records.server_sample import CumulativeHistogram
from llm_locust.report import merge_run, print_reported, report_run
from tests.analysis.run_builder import METRICS, T0, RunBuilder

GB = 1_000_000_000


def told(at: float) -> dict[str, Any]:
    """Two running, none waiting; of 120 requests in the minute each waited up to 100 ms and had its token by 250 ms."""
    n = 2.0 * min(max(at, 0.0), 60.0)
    return {
        "running": 2,
        "waiting": 0,
        "kv_usage_max": 0.4,
        "kv_usage_mean": 0.2,
        "preemptions": 0,
        "requests": n,
        "prefix_cache_queries": 100 * n,
        "prefix_cache_hits": 25 * n,
        "queue_time": CumulativeHistogram(le=(0.1, 0.25, 0.5), n=(n, n, n), count=n),
        "ttft": CumulativeHistogram(le=(0.1, 0.25, 0.5), n=(0.0, n, n), count=n),
    }


def run_with(tmp_path: Path, **manifest: Any) -> RunBuilder:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, **manifest)
    stage = run.stage(rate=2)
    stage.requests(120, ttft=300)
    stage.scraped(told)
    return run


def printed(run: RunBuilder, telemetry: tuple[Path, ...] = ()) -> str:
    out = io.StringIO()
    print_reported(merge_run(run.write(), telemetry=telemetry), Console(file=out, width=400))
    return out.getvalue()


def section(text: str, heading: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index(heading) + 2
    return lines[start : next((k for k in range(start, len(lines)) if not lines[k]), len(lines))]


def test_the_terminal_says_what_the_server_said_under_each_stage(tmp_path: Path) -> None:
    lines = [line.strip() for line in printed(run_with(tmp_path)).splitlines()]
    assert (
        "server: running peak 2, flat; waiting peak 0, flat; KV cache peak 40 %, preemptions 0, prefix-cache hit rate 25 %"
        in lines
    )
    assert (
        "P95 side by side, not added up: TTFT at the client 300 ms, TTFT in the server 100 to 250 ms, server queue up to "
        "100 ms" in lines
    )
    assert "Client and server agree on 120 requests" in lines


def test_markdown_says_it_in_full_with_what_is_not_known(tmp_path: Path) -> None:
    text = merge_run(run_with(tmp_path).write()).report.read_text()
    assert section(text, "#### What the server said") == [
        f"- 60 pages of {METRICS} read in the window by the mapping vllm",
        "- Running peak 2, mean 2, flat; waiting peak 0, mean 0, flat (from 0 to 0 over the window, which is within the "
        "noise)",
        "- KV cache peak 40 %, preemptions 0, prefix-cache hit rate 25 %",
        "- P95 side by side, not added up: TTFT at the client 300 ms, TTFT in the server 100 to 250 ms, server queue up to "
        "100 ms",
        f"- Not measured: evictions, prompt tokens, generation tokens, rejections, tpot, itl, prefill time and 2 more: "
        f"{METRICS} (vllm) does not export it",
    ]
    assert "| queue | 120 | up to 100 ms | up to 100 ms | up to 100 ms |" in text
    assert "| TTFT | 120 | 100 to 250 ms | 100 to 250 ms | 100 to 250 ms |" in text
    assert "They are explanations, not to be added up" in text
    assert "What its machine used" not in text


def test_without_metrics_the_stage_says_what_took_no_part(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2).requests(120)
    text = merge_run(run.write()).report.read_text()
    assert section(text, "#### What the server said") == [
        "- The server's metrics were not read: waiting\\_trend took no part in the verdict"
    ]
    assert "## Client and server" not in text
    assert "server:" not in printed(run)


def test_an_unverified_mapping_stands_beside_the_figures(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    for sample in run.samples:
        sample.engine, sample.verified = "triton", False
    text = printed(run)
    assert "prefix-cache hit rate 25 % (unverified mapping)" in text
    assert "server queue up to 100 ms (unverified mapping)" in text


def test_a_page_that_never_came_is_named_instead_of_figures(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(120)
    stage.scraped(lambda at: {"engine": None, "verified": None, "error": "HTTP 404: <b>no</b>"})
    assert f"server: no page of {METRICS} could be read: HTTP 404: <b>no</b>" in printed(run)
    text = merge_run(run.write()).report.read_text()
    assert section(text, "#### What the server said")[0] == (
        f"- 0 pages of {METRICS} read in the window; 60 could not be read"
    )
    assert "\\<b>no\\</b>" in text


def test_a_difference_of_counts_is_named_in_every_report(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    for sample in run.samples:
        if sample.at_ns > run.stages[0].window_start_ns + 60 * NS_PER_S and sample.requests is not None:
            sample.requests += 5
    said = "lient and server disagree: requests: the client counted 120, the server 125 (+4.17 %)"
    assert said in printed(run)
    folder = run.folder.path
    assert said in RunFolder(folder).report_md.read_text()
    assert said in report_run(folder, {"ttft": 100.0}).report.read_text()
    summary = tmp_path / "ci.md"
    result = CliRunner().invoke(gate, [str(folder), "--markdown", str(summary)])
    assert said in result.output
    assert said in summary.read_text()


def test_the_value_of_a_queue_gate_is_its_bucket(tmp_path: Path) -> None:
    run = run_with(tmp_path, gates=["queue_p95<=50"])
    text = merge_run(run.write()).report.read_text()
    assert "| queue\\_p95 | \\<= 50 | up to 100 ms | undetermined | no |" in text


def test_a_server_that_changed_is_no_fault_of_the_generator_in_junit(tmp_path: Path) -> None:
    run = run_with(tmp_path, server_facts_start={"engine": "vLLM"}, server_facts_end={"engine": "SGLang"})
    merge_run(run.write())
    junit = tmp_path / "junit.xml"
    assert CliRunner().invoke(gate, [str(run.folder.path), "--junit", str(junit)]).exit_code == 4
    text = junit.read_text()
    assert 'message="invalid: the server changed during the run"' in text
    assert "fell short" not in text


def gpu(at: float, used: int, **values: Any) -> DeviceSample:
    values = {"power_w": 600.0, "utilisation_pct": 90.0, "clock_reasons": "none", **values}
    return DeviceSample(
        at_ns=T0 + round(at * NS_PER_S),
        session="s",
        kind="gpu",
        gpu=0,
        uuid="GPU-a",
        name="NVIDIA H100",
        memory_kind="vram",
        memory_used_bytes=used,
        memory_total_bytes=80 * GB,
        power_limit_w=700.0,
        **values,
    )


def test_a_gpu_is_reported_with_its_start_up_beside_its_steady_peak(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    throttled = {"power_w": 700.0, "utilisation_pct": 100.0, "clock_reasons": "sw_power_cap"}
    run.devices = [gpu(-30, 72 * GB), gpu(-20, 64 * GB)]
    run.devices += [gpu(at, 70 * GB, **(throttled if at >= 45 else {})) for at in range(61)]
    folder = run.write()
    text = merge_run(folder).report.read_text()
    assert section(text, "#### What its machine used") == [
        "- Memory peak 70 GB in the window, 72 GB before load (GPU memory of the device with all its users, NVML)",
        # 44 s at 600 W, one in which it rose to 700, 15 s at 700 W.
        "- GPU 0 NVIDIA H100: in use 70 GB of 80 GB at most; busy 92.5 % on average, 100 % at most; 625.8 W on average, "
        "700 W at most of 700 W, 37550 J; clocks held back in 25 % of the samples (sw\\_power\\_cap 25 %); "
        "not measured: temperature max: the GPU does not tell it",
        "- Memory is that of the GPUs with all their users: the server's own share was not told",
    ]
    assert (
        "machine: memory peak 70 GB in the window, 72 GB before load (GPU memory of the device with all its users, NVML); "
        "GPU 0 busy 92.5 %, 625.8 W, clocks held back in 25 % of the samples (sw_power_cap 25 %)"
    ) in printed(run)


def test_a_replica_that_died_in_the_stage_is_named_below_the_table_and_in_the_report(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    (stage,) = run.stages
    stage.scraped(lambda at: told(at) if at < 20 else {"error": "connection refused"}, target="http://b:8000/metrics")
    said = "http://b:8000/metrics stopped answering; its last page came at 19.5 of 60 s: connection refused"
    assert f"  server: {said}" in printed(run).splitlines()
    report = merge_run(run.write()).report.read_text()
    assert any(
        "stopped answering; its last page came at 19.5 of 60 s" in line
        for line in section(report, "#### What the server said")
    )


def telemetry_file(tmp_path: Path, ahead_ns: int = 0, **changes: Any) -> Path:
    """A sampler that watched one process from 60 s before the window, on a clock of its own."""
    samples = [
        DeviceSample(
            at_ns=T0 + at * NS_PER_S + ahead_ns,
            kind="process",
            pid=4711,
            name="llama-server",
            memory_kind="ram",
            rss_bytes=(3 if at < 0 else 2) * GB,
            rss_peak_bytes=4 * GB,
            cpu_pct=250.0,
            processes=1,
            threads=8,
        )
        for at in range(-60, 60)
    ]
    given: dict[str, Any] = {
        "llm_locust": "0.1.0",
        "session": "abc",
        "run_id": None,
        "started_ns": samples[0].at_ns,
        "interval_s": 1.0,
        "clock": TelemetryClock(anchor_ns=1_000 + ahead_ns, boot_id="boot-1"),
        "machine": TelemetryMachine(host="gpu-7", system="Linux 6.8"),
        "process": TelemetryProcess(pid=4711, name="llama-server", started_ns=T0 - 61 * NS_PER_S + ahead_ns),
        "gpu_available": False,
        "gpu_reason": "no NVIDIA driver",
        "driver_version": None,
        "cuda_version": None,
        "gpus": [],
        "ended": "duration",
        "samples": samples,
    }
    path = tmp_path / "server.json"
    path.write_bytes(msgspec.json.encode(TelemetryFile(**(given | changes))))
    return path


def test_a_telemetry_file_is_joined_and_its_clock_is_stated(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    text = merge_run(run.write(), telemetry=[telemetry_file(tmp_path)]).report.read_text()
    assert section(text, "## Client and server") == [
        "- Client and server agree on 120 requests",
        "- Telemetry server.json: 120 samples of gpu-7; its clock against the master's is not known, assumed to be 0: "
        "nobody measured the two machines' clocks against each other",
        "- Telemetry server.json: no GPU was sampled: no NVIDIA driver",
    ]
    assert section(text, "#### What its machine used") == [
        "- Memory peak 2 GB in the window, 4 GB before load (main memory of the server's processes, RSS by the kernel)",
        "- Process 4711 llama-server: resident 2 GB at most in the window, 3 GB before load (the kernel's own peak 4 GB); "
        "CPU 250 % of one core on average, 250 % at most; 1 process, 8 threads at most",
    ]


def test_a_sampler_on_the_masters_machine_is_put_on_the_masters_clock_exactly(tmp_path: Path) -> None:
    # Two hours apart: without the offset no sample would lie in the run.
    path = telemetry_file(tmp_path, ahead_ns=7200 * NS_PER_S)
    run = run_with(tmp_path, machine={"clock_anchor_ns": 1_000, "boot_id": "boot-1"})
    found = merge_run(run.write(), telemetry=[path]).summary
    assert found.telemetry_notes[0] == (
        "telemetry server.json: 120 samples of gpu-7; its clock is 7200 s ahead of the master's (same machine, same "
        "monotonic clock)"
    )
    device = found.stages[0].device
    assert device is not None
    assert device.peak_memory_bytes == 2 * GB
    # Sampling began a second after the process did: the start was seen, and there is nothing to warn of.
    assert device.notes == []


def test_a_sampler_whose_page_the_master_read_is_put_on_its_clock_as_measured_then(tmp_path: Path) -> None:
    path = telemetry_file(tmp_path, ahead_ns=7200 * NS_PER_S)  # another machine's boot than the master's
    seen = ClockSample(at_ns=T0, offset_ns=7200 * NS_PER_S, uncertainty_ns=250_000)
    run = run_with(tmp_path, machine={"clock_anchor_ns": 1_000, "boot_id": "boot-2"}, telemetry_clocks={"abc": seen})
    found = merge_run(run.write(), telemetry=[path]).summary
    assert found.telemetry_notes[0] == (
        "telemetry server.json: 120 samples of gpu-7; its clock is 7200 s ahead of the master's, give or take 0.25 ms "
        "(measured when the page was read)"
    )
    device = found.stages[0].device
    assert device is not None
    assert device.peak_memory_bytes == 2 * GB


def test_samples_that_lie_nowhere_in_the_run_are_told(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    path = telemetry_file(tmp_path, ahead_ns=-7200 * NS_PER_S)
    assert "machine: no sample in the window" in printed(run, (path,))
    found = merge_run(run.write(), telemetry=[path]).summary
    assert (
        "telemetry server.json: none of its samples lies between the start of the first stage and the end of the last: "
        "is it of another run, or are the two clocks apart?"
    ) in found.telemetry_notes


def test_what_the_sampler_noted_is_passed_on(tmp_path: Path) -> None:
    notes = [TelemetryNote(note=f"note {k}", at_ns=0) for k in range(7)]
    path = telemetry_file(tmp_path, notes=notes, ended="unknown", gpu_reason=None)
    found = merge_run(run_with(tmp_path).write(), telemetry=[path]).summary
    assert found.telemetry_notes[1:] == [
        "telemetry server.json: its sampler was killed or is still running; what it had sampled is used",
        *(f"telemetry server.json: note {k}" for k in range(5)),
        "telemetry server.json: 2 more notes are in the file",
    ]


def test_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    with pytest.raises(UsageError, match=r"server\.json: it was taken for the run run-9, but this one is run-1"):
        merge_run(run.write(), telemetry=[telemetry_file(tmp_path, run_id="run-9")])


def test_merge_takes_files_by_option_and_report_keeps_what_they_showed(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    folder = run.write()
    path = telemetry_file(tmp_path, run_id="run-1")
    result = CliRunner().invoke(merge, [str(folder), "--telemetry", str(path)])
    assert result.exit_code == 0, result.output
    assert "memory peak 2 GB in the window, 4 GB before load" in " ".join(result.output.split())
    again = report_run(folder).summary
    assert again.stages[0].device is not None
    assert again.telemetry_notes[0].startswith("telemetry server.json: 120 samples")
    assert str(path) in again.reconciliation.sources
