"""The plan of a stage: phases, users and digest are a function of its specification alone."""

import numpy as np
import pytest

from llm_locust.arrivals import PHASES, plan_stage
from llm_locust.records import StageSpec
from llm_locust.records.run import UserChoice

ONE = [UserChoice(name="ChatUser", weight=1)]
TWO = [UserChoice(name="A", weight=3), UserChoice(name="B", weight=1)]


def spec(**changes: object) -> StageSpec:
    values: dict[str, object] = {
        "stage": 0,
        "rate_rps": 1.0,
        "arrivals": "constant",
        "warmup_s": 2.0,
        "window_s": 3.0,
        "cooldown_s": 2.0,
        "seed": 1,
        "first_index": 0,
    }
    return StageSpec(**{**values, **changes})  # type: ignore[arg-type]


def test_an_arrival_on_a_boundary_belongs_to_the_later_phase() -> None:
    plan = plan_stage(spec(), ONE)
    assert plan.offset_ns.tolist() == [n * 1_000_000_000 for n in range(7)]
    assert [PHASES[p] for p in plan.phase] == ["warmup"] * 2 + ["measure"] * 3 + ["cooldown"] * 2


def test_the_plan_of_a_seed_is_always_the_same() -> None:
    one, other = plan_stage(spec(arrivals="poisson"), TWO), plan_stage(spec(arrivals="poisson"), TWO)
    assert one.sha256 == other.sha256
    assert one.offset_ns.tolist() == other.offset_ns.tolist()


@pytest.mark.parametrize("change", [{"seed": 2}, {"stage": 1}, {"round": 1}, {"rate_rps": 1.1}, {"first_index": 9}])
def test_every_part_of_the_specification_changes_the_digest(change: dict[str, object]) -> None:
    base = spec(arrivals="poisson")
    assert plan_stage(base, ONE).sha256 != plan_stage(spec(arrivals="poisson", **change), ONE).sha256


def test_stages_and_rounds_of_one_seed_have_arrivals_of_their_own() -> None:
    plans = [
        plan_stage(spec(arrivals="poisson", stage=stage, round=number), ONE).offset_ns.tolist()
        for stage in range(2)
        for number in range(2)
    ]
    assert len({tuple(plan) for plan in plans}) == 4


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_the_workers_shares_add_up_to_the_plan_for_any_number_of_them(workers: int) -> None:
    plan = plan_stage(spec(arrivals="poisson", rate_rps=40.0), ONE)
    shares = [plan.offset_ns[rank::workers] for rank in range(workers)]
    assert np.array_equal(np.sort(np.concatenate(shares)), plan.offset_ns)


def test_user_classes_take_their_weights_share_of_the_arrivals() -> None:
    plan = plan_stage(spec(arrivals="poisson", rate_rps=1000.0, window_s=40.0), TWO)
    n = len(plan)
    share_of_b = np.count_nonzero(plan.user == 1) / n
    assert share_of_b == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / n))


def test_the_choice_of_user_does_not_move_the_arrivals() -> None:
    assert np.array_equal(
        plan_stage(spec(arrivals="poisson"), ONE).offset_ns, plan_stage(spec(arrivals="poisson"), TWO).offset_ns
    )


def test_a_closed_stage_has_no_plan() -> None:
    with pytest.raises(ValueError, match="not an open stage"):
        plan_stage(spec(mode="closed", rate_rps=None, concurrency=4), ONE)
