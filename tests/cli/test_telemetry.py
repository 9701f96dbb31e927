"""``llm-locust telemetry`` as a user meets it: the real command on real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from llm_locust.cli.telemetry import command
from llm_locust.records import UsageError
from llm_locust.records.device_sample import TelemetryFile, read_telemetry_file
from llm_locust.telemetry.devices import nvml, sampler
from llm_locust.telemetry.devices.page_samples import device_samples_from_page, telemetry_page
from tests.telemetry.devices.actor import Actor
from tests.telemetry.devices.fake_nvml import GIB, FakeNvml, Gpu

TIMEOUT_S = 60


@pytest.fixture
def actor() -> Iterator[Actor]:
    with Actor() as actor:
        yield actor


class Sampler:
    """The real command, while it is entered."""

    def __init__(self, *arguments: object) -> None:
        self._arguments = [str(argument) for argument in arguments]

    def __enter__(self) -> Sampler:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llm_locust", "telemetry", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)

    def line(self, beginning: str) -> str:
        """Read on to the line that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line.rstrip("\n")
        raise AssertionError(f"no line {beginning!r}: {self.process.stderr and self.process.stderr.read()}")

    def end(self) -> tuple[int, str]:
        """Exit status and the rest of what it said."""
        said, errors = self.process.communicate(timeout=TIMEOUT_S)
        assert errors == ""
        return self.process.returncode, said


def sampled(path: Path, *, more_than: int) -> None:
    """Wait until more samples than that are in the partial file (a file cannot be awaited)."""
    partial = path.with_name(path.name + ".partial")
    give_up = time.monotonic() + TIMEOUT_S
    while not partial.exists() or partial.read_bytes().count(b"\n") <= more_than + 1:
        assert time.monotonic() < give_up, "no samples came"
        time.sleep(0.005)


def test_it_samples_for_the_duration_and_writes_one_file(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "server.json"
    arguments = ["--pid", actor.pid, "--duration", "0.5", "--interval", "0.1", "--output", path, "--run-id", "run-1"]
    with Sampler(*arguments) as running:
        status, said = running.end()
    assert status == 0
    assert [p.name for p in tmp_path.iterdir()] == ["server.json"]
    found = read_telemetry_file(path)
    assert re.search(
        rf"^sampling process {actor.pid} \(python.*\), no GPU .* every 0.1 s for 0.5 s$", said, re.MULTILINE
    )
    assert re.search(rf"^{len(found.samples)} samples in {path}, peak resident memory 0\.\d+ GB$", said, re.MULTILINE)
    assert (found.run_id, found.ended, found.interval_s) == ("run-1", "duration", 0.1)
    assert found.gpu_available is False
    assert found.gpu_reason
    assert found.process is not None
    assert found.process.pid == actor.pid
    times = [sample.at_ns for sample in found.samples]
    assert 1 < len(times) <= 6
    assert times == sorted(set(times))
    assert found.started_ns <= times[0]
    assert all(sample.pid == actor.pid and sample.rss_bytes for sample in found.samples)
    assert found.samples[0].cpu_pct is None
    assert found.samples[1].cpu_pct is not None


def test_it_ends_with_the_duration_however_long_the_interval(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "server.json"
    with Sampler("--pid", actor.pid, "--output", path, "--interval", "3600", "--duration", "0.1") as running:
        assert running.end()[0] == 0
    found = read_telemetry_file(path)
    assert (found.ended, len(found.samples)) == ("duration", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_a_whole_file_and_status_0(tmp_path: Path, actor: Actor, number: signal.Signals) -> None:
    path = tmp_path / "server.json"
    with Sampler("--pid", actor.pid, "--output", path, "--interval", "0.05") as running:
        running.line("sampling")
        running.process.send_signal(number)
        status, said = running.end()
    assert status == 0
    assert said.startswith(f"{number.name} after ")
    found = read_telemetry_file(path)
    assert found.ended == "signal"
    assert found.samples


def test_the_end_of_the_process_ends_it_at_once_however_long_the_interval(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "server.json"
    with Sampler("--pid", actor.pid, "--output", path, "--interval", "3600", "--duration", "7200") as running:
        running.line("sampling")
        actor.end()
        status, said = running.end()
    assert status == 0
    assert said.startswith(f"process {actor.pid} ended after ")
    found = read_telemetry_file(path)
    assert (found.ended, len(found.samples)) == ("process_ended", 1)


def test_a_sampler_that_is_killed_has_kept_every_sample(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "server.json"
    with Sampler("--pid", actor.pid, "--output", path, "--interval", "0.02") as running:
        running.line("sampling")
        sampled(path, more_than=5)
        running.process.kill()
        running.process.wait(TIMEOUT_S)
    assert not path.exists()
    found = read_telemetry_file(tmp_path / "server.json.partial")
    assert found.ended == "unknown"
    assert len(found.samples) > 5
    with Sampler("--pid", actor.pid, "--output", path, "--duration", "0.01") as again:
        _, said = again.end()
    kept = tmp_path / "server.json.partial.1"
    assert f"a sampler that was killed had left its samples: they are kept as {kept}" in said
    assert [sample.at_ns for sample in read_telemetry_file(kept).samples] == [sample.at_ns for sample in found.samples]
    assert read_telemetry_file(path).session != found.session


def test_the_page_is_read_like_any_target(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "server.json"
    with Sampler("--pid", actor.pid, "--output", path, "--interval", "0.05", "--port", "0") as running:
        address = running.line("serving").removeprefix("serving ")
        running.line("sampling")
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        running.process.terminate()
        assert running.end()[0] == 0
    found = read_telemetry_file(path)
    assert address.startswith("http://127.0.0.1:")
    [sample] = device_samples_from_page(text, 1, address)
    assert (sample.kind, sample.pid, sample.session) == ("process", actor.pid, found.session)
    assert sample.rss_bytes in {of.rss_bytes for of in found.samples}
    page = telemetry_page(text)
    assert page is not None
    assert found.started_ns <= page.clock_ns <= (found.ended_ns or 0)


def test_that_nobody_reads_what_it_says_is_no_reason_to_stop(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "server.json"
    with Sampler("--pid", actor.pid, "--output", path, "--interval", "0.02") as running:
        assert running.process.stdout is not None
        running.process.stdout.close()
        sampled(path, more_than=3)
        running.process.terminate()
        running.process.wait(TIMEOUT_S)
    assert len(read_telemetry_file(path).samples) > 3


def in_process(monkeypatch: pytest.MonkeyPatch, library: FakeNvml, *arguments: object) -> tuple[TelemetryFile, str]:
    monkeypatch.setattr(nvml, "_library", lambda: library)
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return read_telemetry_file(Path(arguments[arguments.index("--output") + 1])), result.output  # type: ignore[arg-type]


def test_gpus_are_sampled_beside_the_processes(tmp_path: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-a")
    gpu.running = [(actor.pid, 3 * GIB)]
    found, said = in_process(
        monkeypatch, FakeNvml(gpu), "--pid", actor.pid, "--duration", 0.01, "--output", tmp_path / "a.json"
    )
    assert (found.gpu_available, found.gpu_reason, found.driver_version, found.cuda_version) == (
        True, None, "570.86.15", "12.8",
    )  # fmt: skip
    process, of_gpu = found.samples
    assert (process.kind, process.memory_kind, of_gpu.kind, of_gpu.memory_kind) == ("process", "ram", "gpu", "vram")
    assert process.at_ns == of_gpu.at_ns
    assert (of_gpu.memory_used_bytes, of_gpu.process_memory_bytes) == (10 * GIB, 3 * GIB)
    assert f"sampling process {actor.pid} " in said
    assert "GPU 0 (Made-up H100)" in said
    assert "peak GPU 0 memory 10.737 GB" in said


def test_a_gpu_that_falls_off_midway_is_noted_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Gpu("GPU-a"), Gpu("GPU-b")

    class Falling(FakeNvml):
        def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:
            if gpu is two and two.asked.count("PowerUsage") == 1:
                one.errors = {"*": 15}  # after its second sample began, so the third has nothing of it
            return super().nvmlDeviceGetPowerUsage(gpu)

    found, said = in_process(
        monkeypatch, Falling(one, two), "--duration", 0.3, "--interval", 0.1, "--output", tmp_path / "a.json"
    )
    of_one = [sample for sample in found.samples if sample.uuid == "GPU-a"]
    assert [sample.error for sample in of_one[:2]] == [None, None]
    assert {sample.error for sample in of_one[2:]} == {"GPU is lost"}
    assert of_one[2:]
    assert all(sample.error is None and sample.power_w for sample in found.samples if sample.uuid == "GPU-b")
    assert [(note.at_ns, note.note) for note in found.notes] == [(of_one[2].at_ns, "GPU 0: GPU is lost")]
    assert "GPU 0: GPU is lost\n" in said


def test_a_driver_that_hangs_holds_up_neither_the_samples_of_the_processes_nor_the_end(
    tmp_path: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, go_on = Gpu("GPU-a"), threading.Event()

    class Hanging(FakeNvml):
        def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:
            if gpu.asked.count("PowerUsage") == 1:
                go_on.wait(TIMEOUT_S)
            return super().nvmlDeviceGetPowerUsage(gpu)

    library = Hanging(gpu)
    monkeypatch.setattr(sampler, "PATIENCE_S", 0.05)
    found, _ = in_process(
        monkeypatch, library, "--pid", actor.pid, "--duration", 0.5, "--interval", 0.05, "--output", tmp_path / "a.json"
    )
    go_on.set()
    of_gpu = [sample for sample in found.samples if sample.kind == "gpu"]
    assert [sample.error for sample in of_gpu[:2]] == [None, "the driver did not answer within 0.05 s"]
    assert len(of_gpu) > 2
    assert len(of_gpu) == len([sample for sample in found.samples if sample.kind == "process"])
    assert [note.note for note in found.notes] == ["GPU 0: the driver did not answer within 0.05 s"]
    assert library.open == 1  # letting go of the library would hang as well


def test_the_main_memory_of_a_machine_whose_gpu_has_none_is_unified(
    tmp_path: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu("GPU-a")
    gpu.errors = {"MemoryInfo": 3, "MemoryInfo_v2": 3}
    found, _ = in_process(
        monkeypatch, FakeNvml(gpu), "--pid", actor.pid, "--duration", 0.01, "--output", tmp_path / "a.json"
    )
    assert [sample.memory_kind for sample in found.samples] == ["unified", "unified"]


def usage_error(*arguments: object) -> str:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if isinstance(result.exception, UsageError):
        return str(result.exception)
    assert result.exit_code == 2, result.output
    return result.output


def test_wrong_input_is_a_usage_error_that_names_the_option(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "a.json"
    good = ("--pid", actor.pid, "--output", path)
    assert "'--pid'" in usage_error("--pid", 0, "--output", path)
    assert "'--pid'" in usage_error("--pid", "vllm", "--output", path)
    assert "--pid 4194305: there is no such process" in usage_error("--pid", 2**22 + 1, "--output", path)
    assert "'--output'" in usage_error("--pid", actor.pid)
    for name in ("--duration", "--interval"):
        for value in ("-1", "nan", "inf", "1d"):
            assert f"{name} '{value}': write seconds, or a number with s, m or h" in usage_error(*good, name, value)
        assert f"{name} 0: must be greater than 0" in usage_error(*good, name, "0")
    assert "--gpus 'a': give the indices of GPUs" in usage_error(*good, "--gpus", "a")
    assert "--gpus '-1': the first GPU is 0" in usage_error(*good, "--gpus", "-1")
    assert "'--port'" in usage_error(*good, "--port", "70000")
    assert "that is a folder" in usage_error("--pid", actor.pid, "--output", tmp_path)
    assert "cannot be written" in usage_error("--pid", actor.pid, "--output", tmp_path / "missing" / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_sample_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_library", lambda: FakeNvml(no_library=True))
    said = usage_error("--output", tmp_path / "a.json")
    assert said == (
        "nothing to sample: no --pid was given, and there is no GPU (NVML: NVML Shared Library Not Found); give --pid"
    )


def test_gpus_that_were_chosen_must_be_there(tmp_path: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_library", lambda: FakeNvml())
    said = usage_error("--pid", actor.pid, "--gpus", "0", "--output", tmp_path / "a.json")
    assert said == (
        "--gpus: no GPU can be sampled here (NVML: the driver knows no GPU); leave the option out to sample a process alone "
        "(--pid)"
    )


def test_a_port_that_is_taken_is_a_usage_error_and_leaves_no_file(tmp_path: Path, actor: Actor) -> None:
    path = tmp_path / "a.json"
    with Sampler("--pid", actor.pid, "--output", path, "--port", "0") as running:
        port = running.line("serving").removesuffix("/metrics").rpartition(":")[2]
        running.line("sampling")
        other = tmp_path / "b.json"
        said = usage_error("--pid", actor.pid, "--output", other, "--port", port)
        assert f"--port {port}: cannot listen on 127.0.0.1: another program uses it" in said
        assert "another llm-locust telemetry is writing it" in usage_error("--pid", actor.pid, "--output", path)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json.partial"]
        running.process.terminate()
        assert running.end()[0] == 0


def test_no_command_line_of_the_server_is_kept(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", "input()", "--api-key", "sk-very-secret"], stdin=subprocess.PIPE, text=True
    )
    try:
        result = CliRunner().invoke(
            command, ["--pid", str(server.pid), "--duration", "0.01", "--output", str(tmp_path / "a.json")]
        )
        assert result.exit_code == 0
        assert "secret" not in (tmp_path / "a.json").read_text() + result.output
        assert json.loads((tmp_path / "a.json").read_text())["process"]["pid"] == server.pid
    finally:
        server.communicate("\n", timeout=TIMEOUT_S)


def test_the_sampler_stays_light() -> None:
    names = "import sys, llm_locust.telemetry.devices.sampler; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", names], capture_output=True, text=True, check=True, env={**os.environ}
    ).stdout.split()
    assert {"psutil", "prometheus_client"} <= set(loaded)
    assert not {"gevent", "locust", "pandas", "numpy", "scipy"} & set(loaded)
