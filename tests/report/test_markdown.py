"""``report.md``: the verdict first, everything measured in it, nothing from elsewhere alive in it."""

from __future__ import annotations

from pathlib import Path

from llm_locust.report import merge_run
from llm_locust.report.markdown import escape
from tests.analysis.run_builder import RunBuilder


def report_of(run: RunBuilder) -> str:
    return merge_run(run.write()).report.read_text()


def ladder_run(tmp_path: Path, **options: object) -> RunBuilder:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, **options)  # type: ignore[arg-type]
    run.stage(rate=2).requests(120, ttft=300)
    run.stage(rate=6).requests(90, ttft=700)
    return run


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    title, blank, verdict, *_ = report_of(ladder_run(tmp_path)).splitlines()
    assert (title, blank) == ("# Run run-1", "")
    assert verdict.startswith("**Sustained 2 req/s (candidate): attainment 100 %; first failing rate 6 req/s")


def test_the_ladder_has_a_row_per_stage_with_units_in_its_header(tmp_path: Path) -> None:
    lines = report_of(ladder_run(tmp_path)).splitlines()
    start = lines.index("## Ladder") + 2
    assert lines[start] == (
        "| offered req/s | measured requests | done req/s | good req/s | attained % | errors % | TTFT p95 ms | TPOT p95 ms "
        "| E2E p95 ms | in flight trend | result |"
    )
    # 118 of the first 120 are complete before the window ends.
    assert lines[start + 2] == "| 2 | 120 | 1.97 | 2 | 100 | 0 | 300 | 70 | 1000 | flat | pass |"
    assert lines[start + 3] == "| 6 | 90 | 1.48 | 0 | 0 | 0 | 700 | 30 | 1000 | flat | fail |"


def test_what_was_not_measured_is_a_dash_and_never_0(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2).requests(60, outcome="connect_error")
    lines = report_of(run).splitlines()
    row = lines[lines.index("## Ladder") + 4]
    assert row == "| 2 | 60 | 0 | - | - | 100 | - | - | - | flat | fail |"


def test_text_of_a_server_is_inert(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(60, outcome="http_error", status=500, error="a|b <script>x</script>\n| c | [d](javascript:e) `f`")
    text = report_of(run)
    assert "| http\\_error | 500 | a\\|b \\<script>x\\</script> \\| c \\| \\[d\\](javascript:e) \\`f\\` | 60 |" in text


def test_escape_leaves_one_line() -> None:
    assert escape("a\r\nb\x1b[31m\u2028c") == "a b \\[31m c"


def test_limits_reconciliation_and_command_are_there(tmp_path: Path) -> None:
    text = report_of(ladder_run(tmp_path, command=["locust", "-f", "my chat.py", "--slo", "ttft=500"]))
    assert "- Limits: ttft=500 (ms), set before load" in text
    assert "- planned 210 = attempted 210 + not\\_sent 0 + lost 0" in text
    assert "```shell\nlocust -f 'my chat.py' --slo ttft=500\n```" in text


def test_a_synthetic_engine_is_named_at_the_top_and_in_every_stage(tmp_path: Path) -> None:
    text = report_of(ladder_run(tmp_path, synthetic_engine=True))
    # verdict, banner, two stages, limitations
    assert text.count("The engine is synthetic: nothing here is performance.") == 5


def test_few_requests_are_marked_and_explained(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=0.2).requests(12)
    text = report_of(run)
    assert "| 100\\* |" in text
    assert "\\* too few requests to tell this percentile from the maximum" in text


def test_a_run_without_stages_has_a_report(tmp_path: Path) -> None:
    assert "No stage was run." in report_of(RunBuilder(tmp_path))
