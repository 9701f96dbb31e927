"""The figures of a trace, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llm_locust.analysis.trace_figures import LengthFigures, PrefixFigures, SessionFigures, TraceFigures, trace_figures
from llm_locust.arrivals.traces import read_trace, replay

SAMPLES = Path(__file__).parents[1] / "arrivals" / "traces" / "samples"


def figures(file: Path, **slice_: float) -> TraceFigures:
    return trace_figures(replay(read_trace(file), random=np.random.default_rng(0), **slice_))  # type: ignore[arg-type]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Arrivals at 0, 0, 0, 1, 59, 61, 119 s: 120 s with the second in which the last one was."""
    file = tmp_path / "trace.csv"
    times = (0, 0, 0, 1, 59, 61, 119)
    file.write_text(
        "timestamp,input_tokens,output_tokens,session\n"
        + "".join(f"{time},{10 * (n + 1)},{n + 1},{'ab'[n % 2] if n < 5 else ''}\n" for n, time in enumerate(times))
    )
    return file


def test_rates_are_over_the_time_that_the_trace_covers(small: Path) -> None:
    found = figures(small)
    assert (found.read, found.used, found.arrivals, found.seconds) == (7, 7, 7, 120.0)
    assert found.mean_rps == 7 / 120
    assert found.mean_per_minute == 3.5
    assert (found.peak_per_second, found.peak_per_minute) == (3, 5)


def test_burstiness_is_of_the_slices_own_gaps_and_counts(small: Path) -> None:
    found = figures(small)
    # Gaps 0, 0, 1, 58, 2, 58: mean 119/6, sum of squares 6733, variance (6733 - 119 * 119 / 6) / 5.
    assert found.gap_cv == pytest.approx(((6733 - 119 * 119 / 6) / 5) ** 0.5 / (119 / 6))
    # Of 120 seconds one has 3 and four have 1: (9 + 4 - 49 / 120) / 119 over 7 / 120.
    assert found.dispersion_1s == pytest.approx((13 - 49 / 120) / 119 / (7 / 120))
    # Of 12 tens of seconds one has 4 and three have 1.
    assert found.dispersion_10s == pytest.approx((19 - 49 / 12) / 11 / (7 / 12))


def test_lengths_are_nearest_rank(small: Path) -> None:
    found = figures(small)
    assert found.input_tokens == LengthFigures(known=7, total=280, mean=40.0, p50=40, p95=70, p99=70, max=70)
    assert found.output_tokens == LengthFigures(known=7, total=28, mean=4.0, p50=4, p95=7, p99=7, max=7)
    assert (found.input_tps, found.output_tps, found.total_tps) == (280 / 120, 28 / 120, 280 / 120 + 28 / 120)


def test_conversations_are_counted_with_their_turns(small: Path) -> None:
    assert figures(small).sessions == SessionFigures(sessions=2, arrivals=5, mean_turns=2.5, p95_turns=3, max_turns=3)


def test_a_slice_has_figures_of_its_own(small: Path) -> None:
    found = figures(small, start_s=1, end_s=61)
    assert (found.from_s, found.to_s, found.seconds, found.arrivals, found.used) == (1.0, 61.0, 60.0, 2, 7)
    assert found.input_tokens is not None
    assert found.input_tokens.total == 40 + 50
    assert found.sessions == SessionFigures(sessions=2, arrivals=2, mean_turns=1.0, p95_turns=1, max_turns=1)
    assert found.gap_cv is None


def test_tokens_offered_are_unknown_when_one_length_is(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("timestamp,input_tokens,output_tokens\n0,5,1\n9,,2\n")
    found = figures(file)
    assert found.input_tokens == LengthFigures(known=1, total=5, mean=5.0, p50=5, p95=5, p99=5, max=5)
    assert (found.input_tps, found.output_tps, found.total_tps) == (None, 3 / 10, None)
    assert (found.sessions, found.prefix) == (None, None)


def test_a_block_has_been_seen_when_an_earlier_arrival_had_it() -> None:
    # 1 2 | 4 | 5 6 7 8 | 5 6 9 | 1 2 3 | 1 2 3 10 11: of 18 blocks 7 are not new.
    found = figures(SAMPLES / "bailian_made_up.jsonl")
    assert found.prefix == PrefixFigures(block_tokens=16, blocks=18, seen_before=7, share=7 / 18)


def test_what_was_seen_before_a_slice_is_not_seen_in_it() -> None:
    # From 2.0 s of the trace on: 5 6 9 | 1 2 3 | 1 2 3 10 11.
    found = figures(SAMPLES / "bailian_made_up.jsonl", start_s=2.0)
    assert found.prefix == PrefixFigures(block_tokens=16, blocks=11, seen_before=3, share=3 / 11)
