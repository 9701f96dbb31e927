"""Figures of the machine under test: every value here is worked out by hand beside it."""

from __future__ import annotations

from typing import Any

import pytest

from llm_locust.analysis.device_figures import DeviceHistory, device_figures, energy_j
from llm_locust.records import NS_PER_S
from llm_locust.records.device_figures import DeviceFigures
from llm_locust.records.device_sample import DeviceSample

GIB = 1024**3
T0 = 1_796_000_000 * NS_PER_S
"""The window's start; stages begin 10 s earlier."""


def at(seconds: float) -> int:
    return T0 + round(seconds * NS_PER_S)


def gpu(seconds: float, used_gib: float | None = None, **values: Any) -> DeviceSample:
    values = {"gpu": 0, "uuid": "GPU-a", "memory_kind": "vram", "session": "s", **values}
    used = None if used_gib is None else round(used_gib * GIB)
    return DeviceSample(at_ns=at(seconds), kind="gpu", memory_used_bytes=used, **values)


def process(seconds: float, rss: int, **values: Any) -> DeviceSample:
    values = {"pid": 7, "memory_kind": "ram", "session": "s", **values}
    return DeviceSample(at_ns=at(seconds), kind="process", rss_bytes=rss, **values)


def figures(
    *samples: DeviceSample, window: tuple[float, float] = (0, 4), load: float = -10, started: float | None = None
) -> DeviceFigures:
    history = DeviceHistory(samples, None if started is None else at(started))
    return device_figures(history, at(window[0]), at(window[1]), at(load))


def test_the_start_up_peak_is_what_came_before_the_first_stage_and_the_steady_peak_what_came_in_the_window() -> None:
    found = figures(gpu(-20, 60), gpu(-15, 72), gpu(-5, 90), gpu(0, 64), gpu(2, 70), gpu(3, 68), gpu(4, 99))
    assert found.gpus[0].startup_peak_bytes == 72 * GIB  # 90 was in the warm-up of the first stage
    assert found.gpus[0].peak_bytes == 70 * GIB  # the window is half open: 99 at its end is not in it
    assert found.gpus[0].samples == 3
    assert (found.peak_memory_bytes, found.startup_peak_memory_bytes) == (70 * GIB, 72 * GIB)
    assert (found.memory_scope, found.memory_kind, found.memory_tool) == ("device", "vram", "NVML")


def test_without_samples_nothing_is_claimed_and_the_reason_is_told() -> None:
    found = figures(gpu(10, 60, power_w=100.0))
    assert found.gpus[0].peak_bytes is None
    assert found.gpus[0].reasons["peak_bytes"] == "no sample in the window"
    assert (found.peak_memory_bytes, found.memory_scope, found.memory_kind, found.memory_tool) == (None,) * 4
    assert found.reasons == {
        "peak_memory_bytes": "no memory was sampled in the window",
        "startup_peak_memory_bytes": "no such memory was sampled before the first stage began",
        "energy_j": "GPU 0: power was not sampled in the window",
    }
    assert figures().reasons["energy_j"] == "no GPU was sampled"


def test_use_power_heat_and_clocks_of_the_window() -> None:
    values = [  # utilisation, memory utilisation, power, temperature, clock, reasons
        (90.0, 40.0, 100.0, 60.0, 1900.0, "none"),
        (100.0, 50.0, 300.0, 66.0, 1500.0, "sw_power_cap"),
        (80.0, 60.0, 200.0, 64.0, 1400.0, "sw_power_cap hw_thermal_slowdown"),
        (30.0, 10.0, 200.0, 61.0, 1980.0, "gpu_idle applications_clocks_setting"),
    ]
    samples = [
        gpu(
            t,
            1,
            utilisation_pct=u,
            memory_utilisation_pct=m,
            power_w=p,
            temperature_c=c,
            sm_clock_mhz=f,
            clock_reasons=r,
        )
        for t, (u, m, p, c, f, r) in enumerate(values)
    ]
    [found] = figures(*samples, gpu(4, 1, power_w=200.0, utilisation_pct=0.0)).gpus
    assert (found.utilisation_mean_pct, found.utilisation_max_pct) == (75.0, 100.0)  # 300 / 4
    assert found.memory_utilisation_mean_pct == 40.0  # 160 / 4
    assert found.energy_j == 850.0  # 200 + 250 + 200 + 200
    assert found.power_mean_w == 212.5  # 850 J / 4 s
    assert found.power_max_w == 300.0
    assert found.temperature_max_c == 66.0
    assert (found.sm_clock_mean_mhz, found.sm_clock_min_mhz) == (1695.0, 1400.0)  # 6780 / 4
    assert found.throttled_share == 0.5  # idleness and a chosen clock hold nothing back
    assert found.throttle_reasons == {"hw_thermal_slowdown": 0.25, "sw_power_cap": 0.5}
    assert found.reasons == {}


def test_what_a_gpu_does_not_tell_is_null_with_the_reason() -> None:
    [found] = figures(gpu(0, 1), gpu(1, 1), gpu(2, 1), gpu(3, 1)).gpus
    assert (found.utilisation_mean_pct, found.throttled_share, found.throttle_reasons) == (None, None, {})
    assert found.reasons == {
        "utilisation_mean_pct": "the GPU does not tell it",
        "temperature_max_c": "the GPU does not tell it",
        "throttled_share": "the GPU does not tell it",
        "energy_j": "power was not sampled in the window",
        "power_mean_w": "power was not sampled in the window",
    }


SECONDS = [at(t) for t in range(-2, 8)]


@pytest.mark.parametrize(
    ("power", "window", "joules"),
    [
        ([100.0] * 10, (0, 4), 400.0),
        # rising by 100 W/s from 100 W at -2 s: 300 W at 0 and 500 W at 2 s
        ([100.0 * n for n in range(1, 11)], (0, 2), 800.0),
        # ... from 0.5 s (350 W) to 2.5 s (550 W): 2 s x 450 W
        ([100.0 * n for n in range(1, 11)], (0.5, 2.5), 900.0),
        # one value is missing at 1 s: the line runs on from 300 W at 0 s to 500 W at 2 s
        ([100.0, 200.0, 300.0, None, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0], (0, 2), 800.0),
        # the last sample is at 7 s and 100 W stay for the second that is left
        ([100.0] * 10, (5, 8), 300.0),
    ],
)
def test_energy_is_the_area_under_straight_lines_cut_at_the_windows_edges(
    power: list[float | None], window: tuple[float, float], joules: float
) -> None:
    energy, unknown = energy_j(SECONDS, power, at(window[0]), at(window[1]))
    assert unknown is None
    assert energy == pytest.approx(joules, rel=1e-12)


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ((5, 12), "power was not sampled in the last 5.0 s of the window"),
        ((-7, 3), "power was not sampled in the first 5.0 s of the window"),
        ((20, 24), "power was not sampled in the window"),
    ],
)
def test_power_is_not_made_up_where_it_was_not_sampled(window: tuple[float, float], why: str) -> None:
    assert energy_j(SECONDS, [100.0] * 10, at(window[0]), at(window[1])) == (None, why)


def test_a_gap_in_the_samples_leaves_the_energy_unknown() -> None:
    times = [at(t) for t in (0, 1, 2, 3, 8, 9, 10, 11)]
    assert energy_j(times, [100.0] * 8, at(1), at(10)) == (None, "power was not sampled for 5.0 s in the window")
    assert energy_j(times, [100.0] * 8, at(8), at(11)) == (300.0, None)  # the gap lies before


def test_gpus_are_added_at_the_same_instant_not_peak_by_peak() -> None:
    found = figures(
        gpu(0, 10, power_w=100.0), gpu(1, 30, power_w=100.0), gpu(2, 10, power_w=100.0), gpu(3, 10, power_w=100.0),
        gpu(0, 20, gpu=1, uuid="GPU-b", power_w=50.0), gpu(1, 20, gpu=1, uuid="GPU-b", power_w=50.0),
        gpu(2, 35, gpu=1, uuid="GPU-b", power_w=50.0), gpu(3, 20, gpu=1, uuid="GPU-b", power_w=50.0),
    )  # fmt: skip
    assert [of.peak_bytes for of in found.gpus] == [30 * GIB, 35 * GIB]
    assert found.peak_memory_bytes == 50 * GIB  # at 1 s: 30 + 20; at 2 s: 10 + 35
    assert (found.energy_j, found.power_mean_w) == (600.0, 150.0)  # 400 J + 200 J


def test_the_servers_own_memory_wins_over_the_devices_where_the_driver_tells_it() -> None:
    found = figures(
        gpu(-20, 50, process_memory_bytes=44 * GIB),
        gpu(0, 60, process_memory_bytes=40 * GIB),
        gpu(1, 70, process_memory_bytes=41 * GIB),
        process(1, 5 * GIB),
    )
    assert (found.peak_memory_bytes, found.startup_peak_memory_bytes) == (41 * GIB, 44 * GIB)
    assert (found.memory_scope, found.memory_kind, found.memory_tool) == ("process", "vram", "NVML")
    assert found.gpus[0].peak_bytes == 70 * GIB


def test_device_memory_is_never_put_down_to_the_server_and_a_note_says_so() -> None:
    found = figures(gpu(0, 60), gpu(1, 60), process(1, 5 * GIB))
    assert found.memory_scope == "device"
    assert found.gpus[0].process_peak_bytes is None
    assert "memory is that of the GPUs with all their users: the server's own share was not told" in found.notes


def test_without_a_gpu_memory_is_that_of_the_processes() -> None:
    found = figures(
        process(-20, 3 * GIB, rss_peak_bytes=3 * GIB, processes=1, cpu_pct=None, threads=4),
        process(-12, 2 * GIB, rss_peak_bytes=6 * GIB, processes=1, cpu_pct=150.0, threads=4),
        process(0, 4 * GIB, rss_peak_bytes=6 * GIB, processes=2, cpu_pct=100.0, threads=9),
        process(2, 5 * GIB, rss_peak_bytes=7 * GIB, processes=3, cpu_pct=200.0, threads=8),
    )
    assert (found.peak_memory_bytes, found.memory_scope, found.memory_kind) == (5 * GIB, "process", "ram")
    assert found.memory_tool == "RSS by the kernel"
    assert found.startup_peak_memory_bytes == 6 * GIB  # the kernel saw, between two samples, what no sample did
    [of] = found.processes
    assert (of.startup_peak_rss_bytes, of.startup_peak_kernel_bytes, of.peak_rss_bytes) == (3 * GIB, 6 * GIB, 5 * GIB)
    assert (of.cpu_mean_pct, of.cpu_max_pct, of.processes_max, of.threads_max) == (150.0, 200.0, 3, 9)


def test_the_kernels_peaks_of_several_processes_are_an_upper_bound_and_no_start_up_peak() -> None:
    found = figures(process(-20, 3, rss_peak_bytes=9, processes=2), process(1, 4, processes=2))
    assert found.startup_peak_memory_bytes == 3
    assert found.processes[0].startup_peak_kernel_bytes == 9


def test_proportional_memory_is_taken_before_resident_memory() -> None:
    found = figures(process(0, 8 * GIB, pss_bytes=5 * GIB), process(1, 9 * GIB, pss_bytes=6 * GIB))
    assert (found.peak_memory_bytes, found.memory_tool) == (6 * GIB, "PSS by the kernel")
    assert found.processes[0].peak_rss_bytes == 9 * GIB


def test_memory_that_cpu_and_gpu_share_is_called_so() -> None:
    found = figures(gpu(0, memory_kind="unified", utilisation_pct=50.0), process(0, 7 * GIB, memory_kind="unified"))
    assert (found.peak_memory_bytes, found.memory_kind, found.memory_scope) == (7 * GIB, "unified", "process")


def test_one_gpu_seen_by_two_samplers_counts_once() -> None:
    own = [gpu(t, 40, power_w=100.0, source="server.json") for t in range(4)]
    dcgm = [gpu(t + 0.5, 41, power_w=100.0, source="http://gpu:9400", session=None) for t in (0, 2)]
    found = figures(*own, *dcgm)
    assert [of.source for of in found.gpus] == ["server.json"]
    assert (found.peak_memory_bytes, found.energy_j) == (40 * GIB, 400.0)


def test_the_file_and_the_page_of_one_sampler_count_once_and_different_machines_add_up() -> None:
    found = figures(
        process(0, 10, source="a.json", session="one"),
        process(1, 12, source="a.json", session="one"),
        process(1.2, 12, source="http://a:9410", session="one"),
        process(0.5, 20, source="b.json", session="two"),
    )
    assert [(of.source, of.samples) for of in found.processes] == [("a.json", 2), ("b.json", 1)]
    assert found.peak_memory_bytes == 32


def test_each_span_takes_the_source_that_knows_it() -> None:
    found = figures(
        gpu(-20, 77, source="http://gpu:9400", session=None),
        *(gpu(t, 40, source="server.json") for t in range(3)),
    )
    assert found.gpus[0].source == "server.json"
    assert found.gpus[0].startup_peak_bytes == 77 * GIB


def test_the_tool_of_a_dcgm_page_is_its_exporter() -> None:
    assert figures(gpu(0, 40, source="http://gpu:9400", session=None)).memory_tool == "DCGM exporter"


def test_a_gpu_that_is_lost_is_told_with_the_time() -> None:
    lost = [gpu(t, error="GPU is lost") for t in (2, 3)]
    found = figures(gpu(0, 40), gpu(1, 42), *lost)
    assert (found.gpus[0].peak_bytes, found.gpus[0].lost_at_ns) == (42 * GIB, at(2))
    assert found.gpus[0].lost_reason == "GPU is lost"
    assert "GPU 0 did not answer at 2.0 s of the window: GPU is lost" in found.notes


def test_samples_that_end_early_say_how_far_the_peaks_reach() -> None:
    found = figures(*(process(t, 5) for t in range(4)), window=(0, 60))
    assert found.notes == ["process 7 was sampled from 0.0 to 3.0 s of the window only: its peaks are of that"]
    assert figures(*(process(t, 5) for t in range(58)), window=(0, 60)).notes == []


def test_a_sampler_that_began_late_cannot_vouch_for_the_start_up_peak() -> None:
    samples = [gpu(-20, 60, process_memory_bytes=1), gpu(0, 60, process_memory_bytes=1)]
    late = "sampling began 35 s after the server had started: its start-up peak may have been higher"
    assert figures(*samples, started=-55).notes == [late]
    assert figures(*samples, started=-21).notes == []
