"""Pages of device metrics: ours there and back, and the DCGM exporter's."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry, generate_latest

from llm_locust.records import NS_PER_S, Clock, UsageError
from llm_locust.records.device_sample import DeviceSample
from llm_locust.telemetry.devices.page import SamplePage, serve_page
from llm_locust.telemetry.devices.page_samples import TelemetryPage, device_samples_from_page, telemetry_page
from tests.telemetry.devices.test_sample_file import head

GIB, MIB = 1024**3, 1024**2


class FixedClock(Clock):
    """Stands still."""

    def __init__(self, at_ns: int) -> None:
        self.anchor_ns = 0
        self.at_ns = at_ns

    def now_ns(self) -> int:
        return self.at_ns


GPU = DeviceSample(
    at_ns=100 * NS_PER_S, kind="gpu", gpu=0, uuid="GPU-a", name="Made-up H100", memory_kind="vram",
    memory_used_bytes=77_777_777_777, memory_total_bytes=80 * GIB, process_memory_bytes=61 * GIB + 1, utilisation_pct=57.0,
    memory_utilisation_pct=0.0, power_w=612.337, power_limit_w=700.0, temperature_c=64.0, sm_clock_mhz=1755.0,
    clock_reasons="sw_power_cap hw_slowdown",
)  # fmt: skip
PROCESS = DeviceSample(
    at_ns=100 * NS_PER_S, kind="process", pid=4711, name='vllm "x"', memory_kind="ram", rss_bytes=12_345_678_901,
    pss_bytes=1, rss_peak_bytes=12_400_000_000, cpu_pct=233.21, processes=5, threads=181,
)  # fmt: skip


def served(samples: list[DeviceSample], now_s: float = 100, **changes: Any) -> str:
    page = SamplePage(head(**changes), FixedClock(round(now_s * NS_PER_S)))
    page.show(samples)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(page)
    return generate_latest(registry).decode()


def test_the_page_is_served_over_http_as_it_is_at_the_moment() -> None:
    page = SamplePage(head(), Clock())
    address, stop = serve_page(page, "127.0.0.1", 0)
    try:
        page.show([GPU, PROCESS])
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert [s.kind for s in device_samples_from_page(answer.read().decode(), 1, address)] == ["gpu", "process"]
    finally:
        stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)


def test_what_is_served_comes_back_as_the_same_samples() -> None:
    other = structs.replace(GPU, gpu=1, uuid=None, clock_reasons="none", memory_kind="unified", memory_used_bytes=None)
    found = device_samples_from_page(served([GPU, other, PROCESS]), 900 * NS_PER_S, "http://gpu:9410")
    expected = [
        structs.replace(sample, at_ns=900 * NS_PER_S, source="http://gpu:9410", session="5e55")
        for sample in (GPU, other, PROCESS)
    ]
    assert found == expected


def test_names_and_units_are_prometheus_ones() -> None:
    text = served([GPU, PROCESS]).replace("e+0", "e+")  # older releases of the library write three digits: e+010
    for line in (
        'llm_locust_device_memory_used_bytes{gpu="0",uuid="GPU-a"} 7.7777777777e+10',
        'llm_locust_device_power_watts{gpu="0",uuid="GPU-a"} 612.337',
        'llm_locust_device_sm_clock_hertz{gpu="0",uuid="GPU-a"} 1.755e+9',
        'llm_locust_device_clock_reason{gpu="0",reason="hw_slowdown",uuid="GPU-a"} 1.0',
        'llm_locust_device_up{gpu="0",uuid="GPU-a"} 1.0',
        'llm_locust_process_threads{pid="4711"} 181.0',
        'llm_locust_telemetry_info{run_id="run-1",session="5e55"} 1.0',
    ):
        assert line in text.splitlines(), text


def test_a_sample_is_as_old_as_its_page_says() -> None:
    [found] = device_samples_from_page(served([PROCESS], now_s=100.75), 900 * NS_PER_S, "t")
    assert found.at_ns == 899_250_000_000


def test_what_was_not_measured_is_not_on_the_page() -> None:
    bare = DeviceSample(at_ns=100 * NS_PER_S, kind="gpu", gpu=0, uuid="GPU-a", memory_kind="vram")
    text = served([bare])
    assert "llm_locust_device_power_watts{" not in text
    [found] = device_samples_from_page(text, 1, "t")
    assert (found.power_w, found.clock_reasons, found.memory_used_bytes, found.error) == (None, None, None, None)


def test_a_gpu_that_does_not_answer_is_down() -> None:
    text = served([DeviceSample(at_ns=100 * NS_PER_S, kind="gpu", gpu=0, uuid="GPU-a", error="GPU is lost")])
    assert 'llm_locust_device_up{gpu="0",uuid="GPU-a"} 0.0' in text
    assert [s.error for s in device_samples_from_page(text, 1, "t")] == ["the GPU does not answer"]


def test_the_page_tells_its_sampler_and_its_clock() -> None:
    assert telemetry_page(served([], now_s=100.25)) == TelemetryPage("5e55", "run-1", 100_250_000_000)
    assert telemetry_page(served([], run_id=None)) == TelemetryPage("5e55", None, 100 * NS_PER_S)
    assert telemetry_page('up{job="x"} 1\n') is None


def test_the_clock_of_the_page_is_good_to_half_a_microsecond() -> None:
    now_ns = 1_796_000_123_456_789_012
    page = SamplePage(head(), FixedClock(now_ns))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(page)
    found = telemetry_page(generate_latest(registry).decode())
    assert found is not None
    assert abs(found.clock_ns - now_ns) <= 500


def test_a_page_before_the_first_sample_has_none() -> None:
    assert device_samples_from_page(served([]), 1, "t") == []


def test_a_port_that_is_taken_is_a_usage_error() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port}: .* another program uses it; choose another port"):
            serve_page(SamplePage(head(), Clock()), "127.0.0.1", port)


def test_an_address_that_is_not_ours_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"--port 0: cannot listen on 192\.0\.2\.1"):
        serve_page(SamplePage(head(), Clock()), "192.0.2.1", 0)


LABELS = 'gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA L4",Hostname="n1"'
DCGM = f"""\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{LABELS}}} 1410
DCGM_FI_DEV_GPU_TEMP{{{LABELS}}} 31
DCGM_FI_DEV_MEMORY_TEMP{{{LABELS}}} 9223372036854775794
DCGM_FI_DEV_POWER_USAGE{{{LABELS}}} 12.483000
DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 87
DCGM_FI_DEV_MEM_COPY_UTIL{{{LABELS}}} 9223372036854775794
DCGM_FI_DEV_FB_USED{{{LABELS}}} 20000
DCGM_FI_DEV_FB_FREE{{{LABELS}}} 2000
DCGM_FI_DEV_FB_RESERVED{{{LABELS}}} 500
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{LABELS}}} 4
"""


def test_the_page_of_the_dcgm_exporter_gives_the_same_kind_of_sample() -> None:
    assert device_samples_from_page(DCGM, 5, "http://n1:9400") == [
        DeviceSample(
            at_ns=5,
            source="http://n1:9400",
            kind="gpu",
            gpu=0,
            uuid="GPU-a",
            name="NVIDIA L4",
            memory_kind="vram",
            memory_used_bytes=20_000 * MIB,
            memory_total_bytes=22_500 * MIB,  # used, free and reserved
            utilisation_pct=87.0,
            memory_utilisation_pct=None,  # what DCGM could not read is a huge number
            power_w=12.483,
            temperature_c=31.0,
            sm_clock_mhz=1410.0,
            clock_reasons="sw_power_cap",
        )
    ]


def test_the_total_is_not_made_of_parts_when_one_is_missing() -> None:
    text = "".join(line for line in DCGM.splitlines(keepends=True) if "FB_RESERVED" not in line)
    assert device_samples_from_page(text, 5, "t")[0].memory_total_bytes is None
    assert device_samples_from_page(text + f"DCGM_FI_DEV_FB_TOTAL{{{LABELS}}} 23034\n", 5, "t")[
        0
    ].memory_total_bytes == (23_034 * MIB)


def test_a_gpu_that_several_pods_share_counts_once_and_parts_of_a_gpu_apart() -> None:
    text = (
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",pod="one"} 100\n'
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",pod="two"} 100\n'
        'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"} 200\n'
        'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",GPU_I_PROFILE="3g.40gb",GPU_I_ID="2"} 300\n'
    )
    found = device_samples_from_page(text, 5, "t")
    assert [(s.gpu, s.uuid, s.name, s.memory_used_bytes) for s in found] == [
        (0, "GPU-a", None, 100 * MIB),
        (1, "GPU-b/1", "3g.40gb", 200 * MIB),
        (1, "GPU-b/2", "3g.40gb", 300 * MIB),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "<html><body>404</body></html>", "DCGM_FI_DEV_FB_USED{gpu=", "vllm:num_requests_running 3\n", "\x00\x01 ! =",
     'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 0\n', 'DCGM_FI_DEV_FB_USED{gpu="0"} NaN\n'],
)  # fmt: skip
def test_a_page_without_devices_gives_no_sample(text: str) -> None:
    assert device_samples_from_page(text, 5, "t") == []
