"""The capacity plan: every bound worked out by hand, the least of them recommended."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_locust.records.users_claim import claimed_users, names_users
from llm_locust.sizing.capacity import (
    CapacityPlan,
    Demand,
    Headroom,
    Memory,
    Speed,
    capacity,
)
from llm_locust.sizing.kv_cache import KvLoad, KvShape, kv_estimate
from llm_locust.sizing.kv_dtypes import kv_dtype
from llm_locust.sizing.measured_run import MeasuredBound, MeasuredRun

SHAPE = KvShape(layers=32, kv_heads=8, head_dim=128, dtype=kv_dtype("float16"))
MEASURED = Speed(measured_output_tokens_s=600.0, per_request_tokens_s=30.0)
ASKED = Demand(arrival_rps=2.0, mean_output_tokens=200.0)


def plan(
    reserve: float = 0.0,
    *,
    gpu: float = 24.0,
    params: float = 7.0,
    bits: float = 16.0,
    tp: int = 1,
    speed: Speed = MEASURED,
    demand: Demand = ASKED,
    run: MeasuredRun | None = None,
) -> CapacityPlan:
    kv = kv_estimate(SHAPE, KvLoad(tokens=8192, tensor_parallel=tp))
    memory = Memory(params_b=params, weight_bits=bits, gpu_memory_gib=gpu, reserve_gib=reserve)
    return capacity(memory, kv, speed, demand, run, tensor_parallel=tp)


def bounds(of: CapacityPlan) -> dict[str, int | None]:
    return {bound.name: bound.concurrency for bound in of.bounds}


def measured(latency: int | None, errors: int | None) -> MeasuredRun:
    def bound(concurrency: int | None) -> MeasuredBound:
        reason = None if concurrency is not None else "it cannot be told"
        held = f"{concurrency} in flight" if concurrency else None
        return MeasuredBound(concurrency=concurrency, held=held, broken="16 in flight", reason=reason)

    return MeasuredRun(
        run_id="r", output_tokens_s=None, output_tokens_at=None, tail_latency=bound(latency), error_rate=bound(errors)
    )


def test_7_b_parameters_of_16_bits_are_13_04_gib() -> None:
    found = plan().memory
    assert found.weights_gib == 7e9 * 2 / 2**30
    assert f"{found.weights_gib:.2f}" == "13.04"
    assert found.kv_gib_per_request == 1.0


@pytest.mark.parametrize(
    # 24 - 13.0385 = 10.9615 GiB are left, a request takes 1
    ("reserve", "fits"), [(0.0, 10), (0.96, 10), (0.97, 9), (1.0, 9), (2.0, 8), (9.96, 1), (9.97, 0), (10.5, 0)],
)  # fmt: skip
def test_memory_is_what_weights_and_reserve_leave_over_the_cache_of_a_request(reserve: float, fits: int) -> None:
    assert bounds(plan(reserve))["memory"] == fits


def test_weights_and_cache_are_shared_by_the_gpus() -> None:
    found = plan(reserve=2.0, tp=2)
    # 24 - 6.5193 - 2 = 15.4807 on each; half a GiB a request
    assert bounds(found)["memory"] == 30
    assert found.memory.weights_gib == pytest.approx(6.5193, abs=1e-4)


def test_compute_is_measured_output_over_the_need_of_each() -> None:
    assert bounds(plan())["compute"] == 20
    # 0.3 / 0.1 is 2.9999999999999996 in binary
    assert bounds(plan(speed=Speed(measured_output_tokens_s=0.3, per_request_tokens_s=0.1)))["compute"] == 3


def test_demand_is_held_against_supply_with_its_headroom() -> None:
    found = plan().demand
    assert found is not None
    assert found.output_tokens_s == 400.0
    assert found.headroom_factor == pytest.approx(1.25 * 1.05 * 1.1)
    assert found.with_headroom_tokens_s == 577.5
    assert (found.supply_tokens_s, found.covered) == (600.0, True)
    assert found.in_flight == 19.25  # 577.5 / 30
    assert found.supply_at_recommended_tokens_s == 300.0  # 10 requests at 30 each
    assert plan().warnings == [
        "the demand with headroom, 577.5 output tokens a second, is more than 10 requests at once give: "
        "300 at the speed of each"
    ]


def test_headroom_is_an_option_and_said() -> None:
    none = Demand(arrival_rps=3.0, mean_output_tokens=200.0, headroom=Headroom(peaks=0, retries=0, length_tail=0))
    found = plan(gpu=80.0, demand=none)
    assert found.demand is not None
    assert (found.demand.with_headroom_tokens_s, found.demand.covered) == (600.0, True)
    assert found.warnings == []
    assert "headroom: 25 % for peaks, 5 % for retries, 10 % for the length tail" in plan().assumptions


def test_a_demand_above_the_supply_is_warned_of_the_more_so_when_its_mean_is() -> None:
    found = plan(demand=Demand(arrival_rps=2.5, mean_output_tokens=200.0))  # 500, 721.875 with headroom
    assert found.demand is not None
    assert found.demand.covered is False
    assert found.warnings == ["the demand with headroom, 721.9 output tokens a second, is more than the supply of 600"]
    (warning,) = plan(demand=Demand(arrival_rps=4.0, mean_output_tokens=200.0)).warnings
    assert warning.endswith("; so is its mean: a queue would grow without end")


@pytest.mark.parametrize(
    ("gpu", "run", "recommended", "binding"),
    [
        (24.0, None, 10, ["memory"]),
        (80.0, None, 20, ["compute"]),
        (80.0, measured(8, 16), 8, ["tail_latency"]),
        (80.0, measured(16, 4), 4, ["error_rate"]),
        (24.0, measured(10, 12), 10, ["memory", "tail_latency"]),
        (24.0, measured(0, 12), 0, ["tail_latency"]),
        (24.0, measured(None, 4), 4, ["error_rate"]),
    ],
)
def test_the_least_bound_is_recommended_and_named(
    gpu: float, run: MeasuredRun | None, recommended: int, binding: list[str]
) -> None:
    found = plan(gpu=gpu, run=run)
    assert (found.recommended_concurrency, found.binding) == (recommended, binding)


def test_0_is_an_answer_with_a_warning() -> None:
    found = plan(reserve=10.5, demand=Demand())
    assert (found.recommended_concurrency, found.binding) == (0, ["memory"])
    assert found.warnings == [
        "memory allows not even one request: (24 - 13.04 weights - 10.5 reserve) / 1.0 GiB a request, rounded down"
    ]
    small = plan(gpu=12.0, demand=Demand())
    assert small.recommended_concurrency == 0
    assert small.memory.free_for_kv_gib < 0
    assert small.warnings == ["weights and reserve alone take 13.04 of 12 GiB: the model does not fit on this GPU"]


def test_what_was_not_checked_names_the_option_that_would() -> None:
    found = plan(speed=Speed(), demand=Demand(arrival_rps=2.0))
    assert found.recommended_concurrency == 10
    assert found.demand is None
    assert found.missing == [
        "compute: give --measured-output-tokens-s (or a --run with a stage that passed) and --per-request-tokens-s",
        "tail latency: give --run with a judged run folder",
        "error rate: give --run with a judged run folder",
        "demand: give --mean-output-tokens",
    ]


def test_a_model_without_a_formula_leaves_the_other_bounds() -> None:
    memory = Memory(params_b=7.0, weight_bits=16.0, gpu_memory_gib=24.0, reserve_gib=1.0)
    found = capacity(memory, "MLA (kv_lora_rank = 512): ...", MEASURED, ASKED)
    assert bounds(found)["memory"] is None
    assert (found.recommended_concurrency, found.binding) == (20, ["compute"])
    assert found.missing[0] == "memory: no estimate of the KV cache: MLA (kv_lora_rank = 512): ..."
    assert capacity(memory, "MLA", Speed(), Demand()).recommended_concurrency is None


def test_arrivals_above_the_rate_that_held_are_warned_of() -> None:
    held = MeasuredBound(concurrency=30, rate_rps=2.5, held="2.5 req/s", broken="3 req/s")
    run = MeasuredRun(run_id="r", output_tokens_s=None, output_tokens_at=None, tail_latency=held, error_rate=held)
    found = plan(gpu=80.0, run=run).warnings  # 2 x 1.25 x 1.05 = 2.625
    assert found == [
        "arrivals with peaks and retries, 2.625 a second, are more than the 2.5 up to which tail latency held",
        "arrivals with peaks and retries, 2.625 a second, are more than the 2.5 up to which error rate held",
    ]


def test_no_figure_is_turned_into_users() -> None:
    def strings(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [s for name, of in value.items() for s in (name, *strings(of))]
        return [s for of in value for s in strings(of)] if isinstance(value, list) else [str(value)]

    import msgspec

    told = strings(msgspec.to_builtins(plan(run=measured(8, 4))))
    assert not [text for text in told if claimed_users(text) or names_users(text)]


AMOUNTS = st.floats(0.01, 1000, allow_nan=False)


@given(AMOUNTS, AMOUNTS, st.floats(0, 100), AMOUNTS, AMOUNTS)
def test_more_memory_or_speed_never_recommends_less(
    gpu: float, params: float, reserve: float, output: float, more: float
) -> None:
    def recommended(gpu: float, reserve: float, output: float) -> int:
        speed = Speed(measured_output_tokens_s=output, per_request_tokens_s=30.0)
        found = plan(reserve, gpu=gpu, params=params, speed=speed).recommended_concurrency
        assert found is not None
        return found

    base = recommended(gpu, reserve, output)
    assert base >= 0
    assert recommended(gpu + more, reserve, output) >= base
    assert recommended(gpu, reserve, output + more) >= base
    assert recommended(gpu, reserve + more, output) <= base
