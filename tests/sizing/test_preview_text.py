"""The dry run as a person reads it: every figure with its unit, whole in 80 columns, without colour."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from llm_locust.records import Prices, Requirements
from llm_locust.report import preview as rendering
from llm_locust.report.preview import preview_text, print_preview
from llm_locust.report.preview_sentences import stage_list
from llm_locust.report.quantities import count, duration
from llm_locust.sizing import Preview
from llm_locust.workload import SyntheticPrompts
from tests.sizing.runs import CountingPrompts, closed_stage, look_ahead, open_stage, prompts_file

PRICES = Prices(per_hour=36.0, input_per_million=5.0, output_per_million=1000.0)


def rows(text: str, title: str) -> list[list[str]]:
    """The cells of the table under this title, without its header; a cell's words are joined by single spaces."""
    lines = text.split(title, 1)[1].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("───"))
    found: list[list[str]] = []
    for line in lines[start + 1 :]:
        if not line.strip() or line.startswith("The run"):
            break
        found.append(line.split())
    return found


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_every_stage_has_its_times() -> None:
    text = preview_text(look_ahead(open_stage(0.5), open_stage(2)))
    assert rows(text, "Stages, in seconds") == [
        ["1", "open", "0.5/s", "constant", "10", "60", "30", "120", "70", "220"],
        ["2", "open", "2/s", "constant", "10", "60", "30", "120", "70", "220"],
    ]
    assert "The run takes at least 2 min 20 s, at most 7 min 20 s" in unwrapped(text)


def test_every_stage_has_its_arrivals_and_tokens_and_the_run_their_sum() -> None:
    text = preview_text(look_ahead(open_stage(0.5), open_stage(2)))
    assert rows(text, "Arrivals (mean: rate x time; planned: exactly, with seed 1)") == [
        ["1", "0.5", "30", "30", "50", "50", "350", "50"],
        ["2", "2", "120", "120", "200", "200", "1,400", "200"],
        ["run", "250", "250", "1,750", "250"],
    ]


def test_every_stage_says_what_it_can_show_and_what_more_would_need() -> None:
    text = preview_text(look_ahead(open_stage(0.2), open_stage(2), open_stage(7)))
    assert rows(text, "What the requests of the window can show, if all are ok") == [
        ["1", "12", "the", "maximum", "the", "maximum", "pass", "(candidate)"],
        ["2", "120", "signed", "unsigned", "pass", "(candidate)"],
        ["3", "420", "signed", "signed", "pass", "(signed)"],
    ]
    # At 0.2/s the 59th request is due 290 s after the first, the 299th 1,490 s, the 381st 1,900 s.
    assert rows(text, "Window that would be needed at this rate, in seconds") == [
        ["1", "60", "291", "1491", "1901"],
        ["2", "60", "enough", "150", "191"],
        ["3", "60", "enough", "enough", "enough"],
    ]


def test_limits_gates_tokens_and_costs_are_told() -> None:
    text = unwrapped(preview_text(look_ahead(open_stage(2), prices=PRICES)))
    assert (
        "Limits in ms: e2e=5000 Gates (defaults): attainment >= 0.95 (signed from 73 requests); error_rate <= 0.01"
        in text
    )
    assert "P95 below 20 requests, P99 below 100 requests" in text
    assert (
        "output at most 1,400 (max_tokens of every planned prompt); input about 200, an estimate: characters / 4"
        in text
    )
    assert (
        "Cost estimate, in the currency of the prices: machine 0.7 to 2.2 (36 an hour); input about 0.001 (5 a million "
        "tokens); output at most 1.4 (1000 a million tokens)."
    ) in text


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        (Requirements(), "Required: nothing, so the exit code is 0 even when a stage fails."),
        (
            Requirements(rate_rps=2.5),
            "Exit code 3 unless a rate of at least 2.5 req/s is sustained (--require-rate); 4 when that cannot be told.",
        ),
        (
            Requirements(every_stage=True),
            "Exit code 3 unless every stage passes (--require-pass); 4 when that cannot be told.",
        ),
        (
            Requirements(rate_rps=2, every_stage=True),
            "Exit code 3 unless a rate of at least 2 req/s is sustained (--require-rate) and every stage passes "
            "(--require-pass); 4 when that cannot be told.",
        ),
    ],
)
def test_what_the_run_has_to_show_is_told_after_the_gates(requirements: Requirements, words: str) -> None:
    text = unwrapped(preview_text(look_ahead(open_stage(7), requirements=requirements)))
    assert f"P99 below 100 requests. {words} Workload:" in text


def test_whole_replies_are_said_to_have_no_times_within() -> None:
    words = "Replies are asked for whole (--no-stream): there is no TTFT, TPOT or ITL."
    assert f"Limits in ms: e2e=5000 {words}" in unwrapped(preview_text(look_ahead(open_stage(7), streaming=False)))
    assert "whole (--no-stream)" not in preview_text(look_ahead(open_stage(7)))


def test_without_prices_nothing_is_said_of_cost() -> None:
    assert "Cost" not in preview_text(look_ahead(open_stage(2)))


def test_a_closed_loop_is_shown_as_one() -> None:
    text = preview_text(look_ahead(closed_stage(), prices=PRICES))
    assert rows(text, "Stages, in seconds") == [["1", "closed", "C=8", "0", "-", "0", "120", "0", "-"]]
    said = unwrapped(text)
    assert "The run lasts until it is stopped. A stage drains" in said
    assert "Note: stage 1 is a closed loop: nothing is planned, and it lasts until it is stopped." in said
    assert "machine 36 an hour until it is stopped; input not known (5 a million tokens); output not known" in said
    assert "Arrivals" not in said


def test_idle_workers_are_fine_and_told() -> None:
    text = unwrapped(preview_text(look_ahead(open_stage(0.05), workers=8)))
    assert "Note: in stage 1, 3 of 8 workers get no arrival. That is fine." in text


def test_workers_of_a_stage_without_any_arrival_are_not_called_fine() -> None:
    nothing = open_stage(0.05, arrivals="poisson", warmup_s=0.0, window_s=0.1, cooldown_s=0.0)
    text = unwrapped(preview_text(look_ahead(nothing, workers=8)))
    assert "workers get no arrival" not in text
    assert "Warning: stage 1: not run: no arrival was due" in text


def test_the_least_time_is_rounded_down_and_the_most_up() -> None:
    text = unwrapped(
        preview_text(look_ahead(open_stage(7, window_s=60.6, warmup_s=0.0, cooldown_s=0.0), deadline_s=60.0))
    )
    assert "at least 1 min, at most 2 min 1 s" in text


def test_prompts_that_come_again_are_told(tmp_path: Path) -> None:
    text = unwrapped(preview_text(look_ahead(open_stage(2), workload=prompts_file(tmp_path, ("a", 1), ("b", 1)))))
    assert "Workload: prompts (representative, 2 prompts)" in text
    assert "Note: 200 arrivals share 2 prompts" in text


def test_warnings_come_last_and_name_their_stages() -> None:
    lines = preview_text(look_ahead(open_stage(1), open_stage(2), open_stage(3), open_stage(7)), 120).splitlines()
    assert lines[-1] == (
        "Warning: stages 1 to 3: too few requests in the window for a signed pass, which needs 381: at best it is a "
        "candidate"
    )
    assert preview_text(look_ahead(open_stage(7))).splitlines()[-1] == "No warnings."


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([2], "stage 2"),
        ([1, 2], "stages 1 and 2"),
        ([1, 2, 3, 5], "stages 1 to 3, 5"),
    ],
)
def test_stages_in_a_row_are_named_as_one(numbers: list[int], words: str) -> None:
    assert stage_list(numbers) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59, "59 s"), (3600, "1 h"), (3725, "1 h 2 min 5 s"), (90_060, "25 h 1 min")]
)
def test_durations_keep_their_seconds(seconds: int, words: str) -> None:
    assert duration(seconds) == words


def test_large_counts_are_in_millions_and_a_bound_is_never_rounded_down() -> None:
    assert count(9_999_999) == "9,999,999"
    assert count(1_234_540_000) == "1,234.5 M"
    assert count(1_234_540_000, up=True) == "1,234.6 M"


def unusual() -> dict[str, Preview]:
    return {
        "ladder": look_ahead(*(open_stage(rate, arrivals="poisson") for rate in (0.5, 1, 2.25, 1234.5)), prices=PRICES),
        "large": look_ahead(open_stage(100_000), open_stage(300_000.5, round=2), slo={}, deadline_s=60.5),
        "small": look_ahead(open_stage(0.01, window_s=0.5), workers=64, workload=SyntheticPrompts(1, 8)),
        "closed": look_ahead(closed_stage(), closed_stage(window_s=60.0)),
        "required": look_ahead(
            open_stage(7), requirements=Requirements(rate_rps=12.5, every_stage=True), streaming=False
        ),
        "mixed": look_ahead(closed_stage(window_s=60.0), open_stage(1)),
        "nothing": look_ahead(),
    }


@pytest.mark.parametrize("width", [80, 120])
def test_everything_fits_and_nothing_is_cut_off(width: int) -> None:
    for name, found in unusual().items():
        text = preview_text(found, width)
        assert max(map(len, text.splitlines())) <= width, name
        assert "…" not in text, name


def test_colour_adds_nothing_to_the_words() -> None:
    found = look_ahead(open_stage(1), prices=PRICES)
    coloured = io.StringIO()
    print_preview(found, Console(file=coloured, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[33m" in coloured.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue()) == preview_text(found)


def test_a_name_from_elsewhere_is_no_markup() -> None:
    workload = CountingPrompts()
    workload.facts.name = "[bold]chat[/bold] :smile:"
    assert "Workload: [bold]chat[/bold] :smile: (representative)" in preview_text(
        look_ahead(open_stage(7), workload=workload)
    )


def test_the_rendering_itself_needs_neither_locust_nor_gevent_nor_pandas() -> None:
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "print([m for m in ('locust', 'gevent', 'pandas') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(rendering.__file__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
