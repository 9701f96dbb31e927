"""The file of a sampler: nothing is lost, whatever ends it; and what reads it back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.records import UsageError
from llm_locust.records.device_sample import (
    DEVICE_COLUMNS,
    DEVICE_STRING_COLUMNS,
    DeviceSample,
    TelemetryClock,
    TelemetryHead,
    TelemetryMachine,
    TelemetryNote,
    device_header_line,
    encode_device_rows,
    read_device_rows,
    read_telemetry_file,
)
from llm_locust.telemetry.devices.sample_file import MAX_NOTES, SampleFile


def head(**changes: Any) -> TelemetryHead:
    values: dict[str, Any] = {
        "llm_locust": "0.1.0",
        "session": "5e55",
        "run_id": "run-1",
        "started_ns": 1,
        "interval_s": 1.0,
        "clock": TelemetryClock(anchor_ns=1000, boot_id="b"),
        "machine": TelemetryMachine(host="h", system="Linux"),
        "process": None,
        "gpu_available": False,
        "gpu_reason": "NVML: none",
        "driver_version": None,
        "cuda_version": None,
        "gpus": [],
    }
    return TelemetryHead(**(values | changes))


def sample(at_ns: int, **values: Any) -> DeviceSample:
    return DeviceSample(at_ns=at_ns, kind="process", pid=7, rss_bytes=at_ns * 100, **values)


def test_the_final_file_is_whole_and_the_partial_one_gone(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    file = SampleFile(path, head())
    file.add(sample(1))
    file.note(2, "GPU 0: GPU is lost")
    file.add(sample(3, cpu_pct=0.0))
    assert not path.exists()
    file.finish("duration", 4, -5)
    file.close()
    assert [p.name for p in tmp_path.iterdir()] == ["server.json"]
    plain = json.loads(path.read_text())
    assert plain["gpu_available"] is False
    assert plain["samples"] == [
        {"at_ns": 1, "kind": "process", "pid": 7, "rss_bytes": 100},
        {"at_ns": 3, "kind": "process", "pid": 7, "rss_bytes": 300, "cpu_pct": 0.0},
    ]
    read = read_telemetry_file(path)
    assert (read.run_id, read.ended, read.ended_ns, read.wall_step_ns) == ("run-1", "duration", 4, -5)
    assert read.notes == [TelemetryNote(at_ns=2, note="GPU 0: GPU is lost")]
    assert [(s.at_ns, s.source, s.session) for s in read.samples] == [
        (1, "server.json", "5e55"),
        (3, "server.json", "5e55"),
    ]


def test_a_file_without_any_sample_can_be_read(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "a.json", head())
    file.finish("signal", 4, 0)
    file.close()
    assert read_telemetry_file(tmp_path / "a.json").samples == []


def test_what_a_killed_sampler_leaves_can_be_read_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "server.json", head())
    file.add(sample(1))
    file.note(2, "lost")
    file.add(sample(3))
    file.close()
    partial = tmp_path / "server.json.partial"
    with partial.open("ab") as torn:
        torn.write(b'{"at_ns":5,"ki')
    read = read_telemetry_file(partial)
    assert [s.at_ns for s in read.samples] == [1, 3]
    assert read.notes == [TelemetryNote(at_ns=2, note="lost")]
    assert (read.ended, read.ended_ns, read.session) == ("unknown", 3, "5e55")
    with pytest.raises(UsageError, match=r"server\.json is not there, but server\.json\.partial is: .* Give that one"):
        read_telemetry_file(tmp_path / "server.json")


def test_a_sampler_killed_before_its_first_sample_leaves_an_empty_file(tmp_path: Path) -> None:
    SampleFile(tmp_path / "a.json", head()).close()
    read = read_telemetry_file(tmp_path / "a.json.partial")
    assert (read.samples, read.ended, read.ended_ns) == ([], "unknown", None)


def test_what_a_killed_sampler_left_is_kept_by_the_next_one(tmp_path: Path) -> None:
    for at in (1, 2):
        killed = SampleFile(tmp_path / "a.json", head())
        killed.add(sample(at))
        killed.close()
    third = SampleFile(tmp_path / "a.json", head())
    third.close()
    assert third.moved_aside == tmp_path / "a.json.partial.2"
    assert [read_telemetry_file(tmp_path / f"a.json.partial.{n}").samples[0].at_ns for n in (1, 2)] == [1, 2]


def test_two_samplers_cannot_write_one_file(tmp_path: Path) -> None:
    first = SampleFile(tmp_path / "a.json", head())
    with pytest.raises(UsageError, match="another llm-locust telemetry is writing it"):
        SampleFile(tmp_path / "a.json", head())
    first.finish("duration", 1, 0)
    first.close()
    SampleFile(tmp_path / "a.json", head()).close()


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        SampleFile(tmp_path / "missing" / "a.json", head())
    with pytest.raises(UsageError, match="that is a folder; name a file in it"):
        SampleFile(tmp_path, head())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_names_the_partial_file_and_leaves_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SampleFile(tmp_path / "a.json", head())
    file.add(sample(1))
    real = os.write
    room = iter([4])

    def full(descriptor: int, data: bytes) -> int:
        for left in room:  # a few bytes still fit
            return real(descriptor, data[:left])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left") as failed:
        file.add(sample(2))
    monkeypatch.undo()
    assert failed.value.filename == str(tmp_path / "a.json.partial")
    file.close()
    assert (tmp_path / "a.json.partial").read_bytes().endswith(b"}\n")
    assert [s.at_ns for s in read_telemetry_file(tmp_path / "a.json.partial").samples] == [1]


def test_something_that_comes_and_goes_for_days_does_not_fill_the_file(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "a.json", head())
    for at in range(MAX_NOTES + 50):
        file.note(at, "GPU 0 answers again")
    file.finish("duration", 1, 0)
    file.close()
    assert len(read_telemetry_file(tmp_path / "a.json").notes) == MAX_NOTES


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"\x89PNG\r\n", "not JSON"),
        (b"[1, 2]", "not a file of llm-locust telemetry (its format is None)"),
        (b'{"run_id": "x"}', "not a file of llm-locust telemetry (its format is None)"),
        (
            b'{"format": "llm-locust telemetry", "version": 9, "llm_locust": "3.0"}',
            "version 9 of the telemetry file, but this llm-locust reads version 1: use the one that wrote it (3.0)",
        ),
        (
            b'{"format": "llm-locust telemetry", "version": 1, "llm_locust": "0.1.0"}',
            "not a file of llm-locust telemetry: Object missing required field `session`",
        ),
    ],
)
def test_another_file_is_a_usage_error_that_says_what_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_telemetry_file(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_bad_line_of_a_partial_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json.partial"
    path.write_bytes(msgspec.json.encode(head()) + b'\n{"at_ns":1,"kind":"gpu"}\n{"at_ns":"soon"}\n')
    with pytest.raises(UsageError, match=r"a\.json\.partial, line 3: not a sample"):
        read_telemetry_file(path)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        read_telemetry_file(tmp_path / "a.json")


def test_a_file_that_another_program_has_laid_out_anew_can_be_read(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "a.json", head())
    file.add(sample(1))
    file.finish("duration", 1, 0)
    file.close()
    (tmp_path / "b.json").write_text(json.dumps(json.loads((tmp_path / "a.json").read_text()), indent=4))
    assert read_telemetry_file(tmp_path / "b.json").samples[0].rss_bytes == 100


def test_rows_of_devices_csv_come_back_as_they_were(tmp_path: Path) -> None:
    samples = [
        DeviceSample(
            at_ns=1_796_000_000_123_456_789, source="http://a:1", session="s", kind="gpu", gpu=0, uuid="GPU-a",
            name='A "big", one', memory_kind="vram", memory_used_bytes=0, utilisation_pct=0.0, power_w=612.5,
            clock_reasons="none",
        ),
        sample(2, threads=3, cpu_pct=12.25),
        DeviceSample(at_ns=3, kind="gpu", gpu=1, error="GPU is lost"),
    ]  # fmt: skip
    path = tmp_path / "devices.csv"
    path.write_text(device_header_line() + encode_device_rows(samples) + "17,loc")
    assert read_device_rows(path) == samples


def test_every_column_of_devices_csv_is_text_or_a_number() -> None:
    kinds = {field.name: str(field.type) for field in msgspec.structs.fields(DeviceSample)}
    assert {name for name, kind in kinds.items() if "str" in kind or "Literal" in kind} == set(DEVICE_STRING_COLUMNS)
    assert device_header_line() == ",".join(DEVICE_COLUMNS) + "\n"


def test_a_bad_row_of_devices_csv_is_named(tmp_path: Path) -> None:
    path = tmp_path / "devices.csv"
    path.write_text(device_header_line() + encode_device_rows([sample(1)]) + "soon,local,,process\n")
    with pytest.raises(UsageError, match=r"devices\.csv, line 3: not a device sample"):
        read_device_rows(path)
