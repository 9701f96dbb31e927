"""Fixed buckets: counts up to each bound, as Prometheus counts them, one value at a time and many at once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from llm_locust.live.buckets import BOUNDS_MS, FixedBuckets, added
from llm_locust.live.snapshot import LATENCIES

BOUNDS = (1.0, 5.0, 10.0)
VLLM_PAGE = Path(__file__).parents[1] / "telemetry" / "metrics" / "pages" / "vllm.txt"


def counted(*values: float) -> FixedBuckets:
    found = FixedBuckets(BOUNDS)
    for value in values:
        found.add(value)
    return found


def test_a_value_that_equals_a_bound_belongs_to_it_and_what_is_above_the_last_is_only_in_the_count() -> None:
    view = counted(0.0, 1.0, 1.1, 5.0, 10.0, 10.5, 400.0).view()
    assert (view.cumulative, view.count, view.sum_ms) == ((2, 4, 5), 7, 427.6)


def test_many_values_at_once_are_counted_like_one_by_one() -> None:
    values = [0.0, 1.0, 1.1, 5.0, 10.0, 10.5, 400.0]
    at_once = FixedBuckets(BOUNDS)
    at_once.add_many(np.array(values))
    at_once.add_many(np.array([]))
    assert at_once.view() == counted(*values).view()
    assert at_once.count == 7


def test_histograms_of_the_same_bounds_add_up() -> None:
    assert added([counted(0.5, 7.0).view(), counted(3.0, 20.0).view()]) == counted(0.5, 7.0, 3.0, 20.0).view()
    assert added([]) is None


@pytest.mark.parametrize("latency", LATENCIES)
def test_every_latency_has_rising_bounds_that_are_whole_when_written_in_seconds(latency: str) -> None:
    bounds = BOUNDS_MS[latency]
    assert list(bounds) == sorted(set(bounds))
    assert all(len(str(bound / 1000)) <= 7 for bound in bounds)  # no 0.30000000000000004 in a label


def test_client_and_vllm_are_drawn_over_the_same_bounds() -> None:
    found = re.findall(r'vllm:time_to_first_token_seconds_bucket\{.*?le="([\d.]+)"', VLLM_PAGE.read_text())
    of_vllm = {float(bound) for bound in found}
    assert of_vllm - {bound / 1000 for bound in BOUNDS_MS["ttft"]} == {640.0, 2560.0}  # above any deadline of ours
