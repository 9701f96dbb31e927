"""GPUs through NVML, over a made-up library."""

from __future__ import annotations

import pytest

from llm_locust.records import UsageError
from llm_locust.records.device_sample import CLOCK_REASONS, DeviceSample, TelemetryGpu, clock_reasons
from llm_locust.telemetry.devices.nvml import Gpus, NoGpus
from tests.telemetry.devices.fake_nvml import GIB, FakeNvml, Gpu

NOT_SUPPORTED, NO_PERMISSION, LOST, UNKNOWN = 3, 4, 15, 999


def test_a_gpu_is_told_with_its_units() -> None:
    gpu = Gpu("GPU-a")
    gpu.reasons = 0x4 | 0x40
    gpu.running = [(7, 6 * GIB), (8, GIB), (99, 2 * GIB)]
    gpus = Gpus(library=FakeNvml(gpu))
    assert (gpus.driver_version, gpus.cuda_version) == ("570.86.15", "12.8")
    assert gpus.facts == [
        TelemetryGpu(gpu=0, uuid="GPU-a", name="Made-up H100", memory_total_bytes=80 * GIB, power_limit_w=700.0)
    ]
    assert gpus.sample(5, pids={7, 8}) == [
        DeviceSample(
            at_ns=5,
            kind="gpu",
            gpu=0,
            uuid="GPU-a",
            name="Made-up H100",
            memory_kind="vram",
            memory_used_bytes=10 * GIB,  # without what the driver reserves
            memory_total_bytes=80 * GIB,
            process_memory_bytes=7 * GIB,  # of the tree: not the other process's
            utilisation_pct=97.0,
            memory_utilisation_pct=41.0,
            power_w=612.5,
            power_limit_w=700.0,
            temperature_c=64.0,
            sm_clock_mhz=1755.0,
            clock_reasons="sw_power_cap hw_thermal_slowdown",
        )
    ]


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("Utilization", {"utilisation_pct", "memory_utilisation_pct"}),
        ("PowerUsage", {"power_w"}),
        ("PowerLimit", {"power_limit_w"}),
        ("Temperature", {"temperature_c"}),
        ("Clock", {"sm_clock_mhz"}),
        ("Processes", {"process_memory_bytes"}),
    ],
)
@pytest.mark.parametrize("error", [NOT_SUPPORTED, NO_PERMISSION, UNKNOWN])
def test_a_question_that_fails_leaves_its_own_values_null_and_no_other(
    question: str, fields: set[str], error: int
) -> None:
    gpu = Gpu("GPU-a")
    gpu.running = [(7, GIB)]
    gpus = Gpus(library=FakeNvml(gpu))
    [whole] = gpus.sample(1, pids={7})
    gpu.errors = {question: error}
    [sample] = gpus.sample(1, pids={7})
    changed = {f for f in sample.__struct_fields__ if getattr(sample, f) != getattr(whole, f)}
    assert changed == fields
    assert all(getattr(sample, field) is None for field in fields)


def test_older_drivers_are_asked_by_older_names() -> None:
    gpu = Gpu("GPU-a")
    gpu.reasons = 0x8
    gpu.errors = {"EventReasons": NOT_SUPPORTED, "MemoryInfo_v2": NOT_SUPPORTED}
    [sample] = Gpus(library=FakeNvml(gpu)).sample(1)
    assert sample.clock_reasons == "hw_slowdown"
    assert sample.memory_used_bytes == 11 * GIB  # the first version cannot leave the reserved part out


def test_no_reason_is_not_the_same_as_no_answer() -> None:
    gpu = Gpu("GPU-a")
    gpus = Gpus(library=FakeNvml(gpu))
    assert gpus.sample(1)[0].clock_reasons == "none"
    gpu.errors = {"EventReasons": NOT_SUPPORTED, "ThrottleReasons": NOT_SUPPORTED}
    assert gpus.sample(1)[0].clock_reasons is None


def test_a_gpu_that_falls_off_the_bus_gives_its_error_and_the_others_go_on() -> None:
    one, two = Gpu("GPU-a"), Gpu("GPU-b")
    gpus = Gpus(library=FakeNvml(one, two))
    one.errors = {"*": LOST}
    one.asked.clear()
    lost, well = gpus.sample(9)
    assert lost == DeviceSample(
        at_ns=9, kind="gpu", gpu=0, uuid="GPU-a", name="Made-up H100", memory_kind="vram", error="GPU is lost"
    )
    assert len(one.asked) == 1  # each further question could take the driver seconds
    assert (well.uuid, well.error, well.power_w) == ("GPU-b", None, 612.5)
    one.errors = {}
    assert gpus.sample(10)[0].error is None


def test_a_gpu_lost_between_two_questions_gives_no_half_sample() -> None:
    gpu = Gpu("GPU-a")
    gpus = Gpus(library=FakeNvml(gpu))
    gpu.errors = {"Temperature": LOST}
    [sample] = gpus.sample(9)
    assert (sample.error, sample.memory_used_bytes, sample.power_w) == ("GPU is lost", None, None)


def test_a_gpu_that_answers_nothing_says_why() -> None:
    gpu = Gpu("GPU-a")
    gpus = Gpus(library=FakeNvml(gpu))
    gpu.errors = {"*": UNKNOWN}
    assert gpus.sample(9)[0].error == "Unknown Error"


def test_the_tree_on_one_gpu_is_0_on_the_others_and_unknown_where_it_is_seen_on_none() -> None:
    one, two = Gpu("GPU-a"), Gpu("GPU-b")
    two.running = [(99, GIB)]
    gpus = Gpus(library=FakeNvml(one, two))
    assert [s.process_memory_bytes for s in gpus.sample(1, pids={7})] == [None, None]  # ids of a container, perhaps
    one.running = [(7, GIB)]
    assert [s.process_memory_bytes for s in gpus.sample(1, pids={7})] == [GIB, 0]
    two.errors = {"Processes": NOT_SUPPORTED}
    assert [s.process_memory_bytes for s in gpus.sample(1, pids={7})] == [GIB, None]
    one.running = [(7, None), (7, GIB)]  # the driver lists it and does not tell how much
    assert [s.process_memory_bytes for s in gpus.sample(1, pids={7})] == [None, None]


def test_a_gpu_without_memory_of_its_own_shares_that_of_the_machine() -> None:
    gpu = Gpu("GPU-a")
    gpu.errors = {"MemoryInfo": NOT_SUPPORTED, "MemoryInfo_v2": NOT_SUPPORTED}
    gpus = Gpus(library=FakeNvml(gpu))
    assert gpus.unified
    [sample] = gpus.sample(1)
    assert (sample.memory_kind, sample.memory_used_bytes, sample.memory_total_bytes) == ("unified", None, None)
    assert not Gpus(library=FakeNvml(Gpu("GPU-b"))).unified


def test_chosen_gpus_only_are_sampled() -> None:
    gpus = Gpus({2, 0}, library=FakeNvml(Gpu("GPU-a"), Gpu("GPU-b"), Gpu("GPU-c")))
    assert [sample.uuid for sample in gpus.sample(1)] == ["GPU-a", "GPU-c"]


@pytest.mark.parametrize(("count", "there"), [(1, "GPU 0 only"), (2, "GPU 0 to 1")])
def test_a_chosen_gpu_that_is_not_there_is_a_usage_error(count: int, there: str) -> None:
    with pytest.raises(UsageError, match=f"there is no GPU 5; this machine has {there}"):
        Gpus({0, 5}, library=FakeNvml(*(Gpu(f"GPU-{n}") for n in range(count))))


@pytest.mark.parametrize(
    ("library", "why"),
    [
        (FakeNvml(no_library=True), "NVML: NVML Shared Library Not Found"),
        (FakeNvml(), "NVML: the driver knows no GPU"),
    ],
)
def test_no_library_and_no_gpu_say_so(library: FakeNvml, why: str) -> None:
    with pytest.raises(NoGpus) as none:
        Gpus(library=library)
    assert str(none.value) == why


def test_a_gpu_that_cannot_be_opened_is_left_out_and_named() -> None:
    one, two = Gpu("GPU-a"), Gpu("GPU-b")
    one.errors = {"Handle": LOST}
    gpus = Gpus(library=FakeNvml(one, two))
    assert [gpu.uuid for gpu in gpus.facts] == ["GPU-b"]
    assert gpus.problems == ["GPU 0 could not be looked at: GPU is lost"]
    two.errors = {"Handle": LOST}
    with pytest.raises(NoGpus, match=r"GPU 0 could not .*; GPU 1 could not"):
        Gpus(library=FakeNvml(one, two))


def test_the_library_is_let_go() -> None:
    library = FakeNvml(Gpu("GPU-a"))
    gpus = Gpus(library=library)
    assert library.open == 1
    gpus.close()
    assert library.open == 0


def test_the_words_are_those_of_nvidias_own_bits() -> None:
    import pynvml

    names = {
        getattr(pynvml, name): name.removeprefix("nvmlClocksThrottleReason")
        for name in dir(pynvml)
        if name.startswith("nvmlClocksThrottleReason") and not name.endswith(("All", "None", "UserDefinedClocks"))
    }
    words = {bit: "".join(part.capitalize() for part in word.split("_")) for bit, word in CLOCK_REASONS.items()}
    known = names.keys() & words.keys()  # the newest bits are not in every version of nvidia-ml-py
    assert len(known) >= 9
    assert {bit: words[bit] for bit in known} == {bit: names[bit] for bit in known}
    assert clock_reasons(1 << 40) == "bit_40"
