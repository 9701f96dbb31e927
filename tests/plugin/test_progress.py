"""The run on the terminal: figures with units at every width, plain lines elsewhere, ``-`` for what was not measured."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from llm_locust.dispatch.messages import Progress
from llm_locust.live.snapshot import GeneratorView, ServerView, Snapshot
from llm_locust.plugin import progress as progress_module
from llm_locust.plugin.progress import RunProgress, can_be_drawn_on
from llm_locust.plugin.terminal_display import MOST_ROWS, TerminalDisplay, frame
from llm_locust.plugin.terminal_figures import generator_line, server_items
from llm_locust.records import Clock, StageManifest, StageSpec
from tests.live.made_up import group, snapshot, stage

TITLE = "stage 2/3 open 2/s poisson"


def drawn(now: Snapshot | None, width: int, height: int = 24, title: str = TITLE) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(frame(title, "window, 12 s left", 0.5, now, 1, width, height))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_120_columns_show_the_whole_table() -> None:
    assert drawn(snapshot(), 120) == [
        "stage 2/3 open 2/s poisson  window, 12 s left  ━━━━━━━━━━━━",
        "offered  measured   done   good  attained  errors  TTFT p95  TPOT p95  E2E p95  in flight",
        "req/s    requests  req/s  req/s         %       %        ms        ms       ms",
        "─────────────────────────────────────────────────────────────────────────────────────────",
        "1             100   1.92    1.8        90       4       240        42     4800          9",
        "2             100   1.92    1.8        90       4       240        42     4800          9",
        "planned 140  sent 139  in flight 9  server running 8  server waiting 2  KV cache 41 %",
        "load generator keeps up (dispatch lag p99 1.2 ms, CPU 41 %)",
        "synthetic engine: no figure is performance",
    ]


def test_80_columns_leave_out_what_can_be_spared() -> None:
    lines = drawn(snapshot(), 80)
    assert lines[1] == "offered   done   good  attained  errors  TTFT p95  E2E p95  in flight"
    assert lines[5] == "2         1.92    1.8        90       4       240     4800          9"


def test_60_columns_are_a_list_and_no_item_is_broken() -> None:
    assert drawn(snapshot(synthetic=False), 60) == [
        "stage 2/3 open 2/s poisson  window, 12 s left  ━━━━━━╸",
        "100 measured  done 1.92/s  good 1.8/s  attained 90 %",
        "errors 4 %  TTFT p95 240 ms  TPOT p95 42 ms  E2E p95 4800 ms",
        "planned 140  sent 139  in flight 9  server running 8",
        "server waiting 2  KV cache 41 %",
        "load generator keeps up (dispatch lag p99 1.2 ms, CPU 41 %)",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 72, 80, 92, 120, 250])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in drawn(snapshot(), width))


def test_a_low_terminal_keeps_the_newest_stages() -> None:
    stages = [stage(number, rate=float(number)) for number in range(12)]
    rows = [line for line in drawn(snapshot(stages=stages), 120, height=12)[4:] if line[:1].isdigit()]
    assert [row.split()[0] for row in rows] == ["8", "9", "10", "11"]
    assert len([line for line in drawn(snapshot(stages=stages), 120, height=60)[4:] if line[:1].isdigit()]) == MOST_ROWS


def test_what_was_not_measured_is_a_dash_in_the_table_and_left_out_of_lists() -> None:
    unknown = group(good=None, goodput_rps=None, attainment=None, latencies={})
    now = snapshot(stages=[stage(1, groups=[unknown])], servers=[], synthetic=False)
    assert (
        drawn(now, 120)[4]
        == "2             100   1.92      -         -       4         -         -        -          9"
    )
    assert drawn(now, 60)[1:3] == ["100 measured  done 1.92/s  errors 4 %", "planned 140  sent 139  in flight 9"]


def test_before_the_first_figure_there_is_the_stage_alone() -> None:
    assert drawn(None, 60) == ["stage 2/3 open 2/s poisson  window, 12 s left  ━━━━━━╸"]
    assert drawn(snapshot(stages=[]), 60) == ["stage 2/3 open 2/s poisson  window, 12 s left  ━━━━━━╸"]


def test_text_from_elsewhere_is_one_line_and_no_markup() -> None:
    assert drawn(None, 80, title="[red]x[/red]\x1b[2J\ny")[0].startswith("[red]x[/red] [2J y  window")


def test_what_is_wrong_with_the_load_generator_is_said() -> None:
    wrong = GeneratorView(keeps_up=False, warnings=["worker 1 was lost", "dispatch lag P99 is 80 ms"],
                          dispatch_lag_p99_ms=80.0, lag_bound_ms=5.0, first_coalesced_share=None, lost_workers=[1],
                          cpu_percent_max=99.0,
                          loop_lag_ms_max=70.0)  # fmt: skip
    found = generator_line(stage(generator=wrong))
    assert found == ("load generator: worker 1 was lost; dispatch lag P99 is 80 ms", True)


def test_a_generator_that_keeps_up_tells_how_many_arrivals_were_late_and_how_many_may_be() -> None:
    known = GeneratorView(keeps_up=True, warnings=[], dispatch_lag_p99_ms=24.8, lag_bound_ms=10.0,
                          first_coalesced_share=None, lost_workers=[], cpu_percent_max=41.0, loop_lag_ms_max=2.0,
                          dispatched=73, late=1)  # fmt: skip
    assert generator_line(stage(generator=known)) == (
        "load generator keeps up (1 of 73 late by more than 10 ms (allowed: 1 %, and one at least), CPU 41 %)", False
    )  # fmt: skip


def test_replicas_add_up_and_a_page_that_cannot_be_read_is_said() -> None:
    def page(waiting: float | None, error: str | None = None) -> ServerView:
        return ServerView(target="u", engine="vllm", error=error, age_s=1.0, running=1.0, waiting=waiting, kv_usage_max=None,
                          queue_p95_ms=None, residency=None)  # fmt: skip

    assert server_items(snapshot(servers=[page(2.0), page(3.0)])) == ["server running 2", "server waiting 5"]
    assert server_items(snapshot(servers=[page(None, "gone")])) == ["server metrics cannot be read"]
    assert server_items(snapshot(servers=[])) == []


# --- over time ---------------------------------------------------------------------------------------------------------


class Screen(io.StringIO):
    """A terminal that remembers what is sent to it."""

    def isatty(self) -> bool:
        return True


def sent_by(widths: list[int]) -> list[str]:
    """What the display sends for each frame while the terminal has these widths."""
    screen = Screen()
    console = Console(
        file=screen, force_terminal=True, width=widths[0], height=24, color_system=None, legacy_windows=False
    )
    display = TerminalDisplay(console)
    display.start()
    sent = []
    for width in widths:
        console.width = width
        screen.seek(0)
        screen.truncate()
        display.show(TITLE, "window", 0.5, snapshot(synthetic=False), 1)
        sent.append(screen.getvalue())
    display.stop()
    return sent


def rows_up(text: str) -> int:
    return text.count("\x1b[1A")


def test_a_frame_is_drawn_over_the_one_before() -> None:
    _, second = sent_by([120, 120])
    assert rows_up(second) == 8 - 1  # of 8 lines, from the last to the first


def test_lines_that_a_narrower_terminal_broke_are_drawn_over_too() -> None:
    # Of 8 lines the table's five and that of the server are longer than 60: they have become two rows each.
    _, second = sent_by([120, 60])
    assert rows_up(second) == 14 - 1


def test_a_wider_terminal_broke_nothing() -> None:
    _, second = sent_by([60, 120])
    assert rows_up(second) == 6 - 1


@pytest.mark.parametrize(("term", "drawable"), [("xterm-256color", True), ("dumb", False), ("", False)])
def test_only_a_terminal_that_can_move_up_is_drawn_on(
    monkeypatch: pytest.MonkeyPatch, term: str, drawable: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    assert can_be_drawn_on(Screen()) is drawable
    assert can_be_drawn_on(io.StringIO()) is False


class Stage:
    """What of a stage's control is looked at."""

    def __init__(self, clock: Clock) -> None:
        self.spec = StageSpec(stage=1, rate_rps=2.0, arrivals="poisson", warmup_s=0.0, window_s=60.0, cooldown_s=5.0, seed=1,
                              first_index=0)  # fmt: skip
        start = clock.now_ns()
        self.record = StageManifest(
            spec=self.spec, start_ns=start, window_start_ns=start, window_end_ns=start + 60 * 10**9
        )
        self.progress: dict[str, Progress] = {}
        self.preparing: dict[str, object] = {}


def test_without_a_terminal_a_line_says_all_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    clock, looks = Clock(), []

    def picture(since: float | None) -> Snapshot:
        looks.append(since)
        return snapshot()

    shown = RunProgress(clock, picture)
    control = Stage(clock)
    shown.stage_starts(control, 2, 3)  # type: ignore[arg-type]
    for at in (100.0, 101.0, 104.9, 105.0):
        now[0] = at
        shown.update(control)  # type: ignore[arg-type]
    control.record.planned = 120
    shown.stage_ends(control.record)
    shown.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0] == (
        "stage 2/3 open 2/s poisson: window, 60 s left; planned 140, sent 139, in flight 9; 100 measured, done 1.92/s, "
        "good 1.8/s, attained 90 %, errors 4 %, TTFT p95 240 ms, TPOT p95 42 ms, E2E p95 4800 ms; server running 8, "
        "server waiting 2, KV cache 41 %; load generator keeps up (dispatch lag p99 1.2 ms, CPU 41 %)"
    )
    assert lines[2] == "stage 2/3 open 2/s poisson: done, 120 arrivals"
    assert len(looks) == 2  # nothing is added up for lines that are not written


@pytest.mark.parametrize(
    ("passed_s", "said"),
    [
        (-2, "preparing"),
        (1, "warm-up, 9 s left"),
        (13, "window, 57 s left"),
        (72, "cool-down, at most 3 s left"),
    ],
)
def test_what_is_left_is_left_of_the_phase_that_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], passed_s: int, said: str
) -> None:
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: 100.0)
    control, now = Stage(Clock()), 100 * 10**9

    class Stopped(Clock):
        def now_ns(self) -> int:
            return now

    start = now - passed_s * 10**9
    control.record.start_ns, control.record.window_start_ns = start, start + 10 * 10**9
    control.record.window_end_ns = start + 70 * 10**9
    shown = RunProgress(Stopped())
    shown.stage_starts(control, 2, 3)  # type: ignore[arg-type]
    shown.update(control)  # type: ignore[arg-type]
    assert capsys.readouterr().err == f"stage 2/3 open 2/s poisson: {said}; planned 0, sent 0, in flight 0\n"


def test_a_wait_is_told_to_whoever_wants_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    RunProgress(Clock(), on_wait=told.append).waits("nothing is sent for 5 s")
    assert told == ["nothing is sent for 5 s"]
    assert capsys.readouterr().err == "nothing is sent for 5 s\n"
