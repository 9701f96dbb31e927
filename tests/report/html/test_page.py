"""``report.html`` as a whole: self-contained, well-formed, readable by anybody, with the numbers of ``summary.json``."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from llm_locust.cli.merge import command as merge
from llm_locust.cli.report import command as report
from llm_locust.plugin import judging
from llm_locust.records import RunFolder
from llm_locust.records.summary import RunSummary
from llm_locust.records.users_claim import claimed_users
from llm_locust.report import Reported, merge_run, report_run
from llm_locust.report.html.render import palette
from llm_locust.report.ladder import COLUMNS
from tests.analysis.run_builder import RunBuilder, StageBuilder
from tests.report.html.page_reader import Element, read_page

CSS = palette() + (Path(judging.__file__).parents[1] / "report" / "html" / "report.css").read_text()


class Run(NamedTuple):
    folder: RunFolder
    reported: Reported
    html: str
    page: Element

    @property
    def summary(self) -> RunSummary:
        return self.reported.summary

    def data(self, name: str) -> list[dict[str, str]]:
        with (self.folder.charts_dir / f"{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))


def written(builder: RunBuilder) -> Run:
    reported = merge_run(builder.write(), html=True)
    assert reported.html == builder.folder.report_html
    html = builder.folder.report_html.read_text()
    return Run(builder.folder, reported, html, read_page(html))


def busy(stage: StageBuilder) -> None:
    """A server that runs three, with a full queue and half of its cache in use."""
    stage.scraped(
        lambda at: {"running": 3, "waiting": 1, "kv_usage": {"": 0.5}, "kv_usage_max": 0.5, "kv_usage_mean": 0.5}
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A ladder with a boundary, slices and failures, a burst of the rate that passed, and a closed loop."""
    made = RunBuilder(tmp_path_factory.mktemp("run"), slo={"ttft": 500, "tpot": 200}, model="m")
    first = made.stage(rate=2)
    first.requests(117, ttft=300, e2e=1000, slice="faq", gaps_us=[60_000] * 9 + [160_000], max_gap_ns=160_000_000)
    first.requests(3, ttft=700, first=0.01, tokens=7, slice="long", input_tokens_asked=20, max_tokens=8)
    busy(first)
    second = made.stage(rate=6)
    second.requests(80, ttft=700)
    second.requests(10, outcome="rejected", status=429, error="queue is full", first=0.2, e2e=5)
    busy(second)
    made.stage(rate=2, arrivals="gamma(cv=3)").requests(120, ttft=600)
    made.stage(concurrency=8).requests(50, ttft=100)
    made.stage(concurrency=16).requests(80, ttft=150)
    return written(made)


def test_nothing_is_loaded_from_elsewhere(run: Run) -> None:
    assert not [tag for tag in ("script", "link", "img", "iframe", "object", "base", "form") if run.page.all(tag)]
    attributes = [attribute for e in _every(run.page) for attribute in e.attributes.items()]
    assert not [
        name for name, _ in attributes if name in ("src", "srcset", "action", "xlink:href", "xmlns") or name[:2] == "on"
    ]
    targets = {value or "" for name, value in attributes if name == "href"}
    assert {target.split("/")[0] for target in targets if not target.startswith("#")} == {"charts"}
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    assert not re.search(r"url\((?!#)|@import|https?:", run.page.one("style").text)
    policy = [e for e in run.page.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0].attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def _every(of: Element) -> list[Element]:
    return [of, *(e for child in of.children for e in _every(child))]


def test_headings_form_an_outline_and_the_contents_name_every_section(run: Run) -> None:
    levels = [int(e.tag[1]) for e in _every(run.page) if re.fullmatch("h[1-6]", e.tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    sections = [e.text for e in run.page.all("h2")]
    assert [link.text for link in run.page.one("nav").all("a")] == sections
    assert sections[0] == "Ladder"
    assert set(sections) >= {
        "Boundary", "Latency against rate", "Distributions", "Over time", "Gaps between tokens, and stalls", "Failures",
        "Load generator", "Workload", "Slices", "Gates and limits", "Facts", "Stages", "What this result does not say",
        "How the files add up", "Run it again", "Sign-off",
    }  # fmt: skip


def test_tables_have_headers_and_scroll_in_their_own_box_and_charts_have_words(run: Run) -> None:
    boxes = [box for box in run.page.all("div", "scroll") if box.attributes.get("tabindex") == "0"]
    assert len(boxes) == len(run.page.all("table"))
    assert all(th.attributes.get("scope") in ("col", "row") for th in run.page.all("th"))
    charts = [e for e in run.page.all("svg") if e.attributes.get("aria-hidden") != "true"]
    assert len(charts) == len(run.page.all("figure"))
    for chart in charts:
        assert chart.attributes["role"] == "img"
        assert chart.one("title").text
        assert len(chart.one("desc").text) > 10
        named = (chart.attributes["aria-labelledby"] or "").split()
        assert [chart.one(tag).attributes["id"] for tag in ("title", "desc")] == named


def test_the_first_screen_says_what_the_summary_says(run: Run) -> None:
    summary = run.summary
    verdict = run.page.one("div", "verdict")
    assert f"{verdict.one('h1').text} {verdict.one('p').text}" == summary.verdict
    tiles = {tile.one("dt").text: [dd.text for dd in tile.all("dd")] for tile in run.page.all("div", "tile")}
    assert tiles["Sustained rate"] == [
        "2 req/s",
        "candidate: too few samples (120): to sign it, at least 381 are needed, a window of 191 s at this rate",
    ]
    assert tiles["First failing rate"] == ["6 req/s", "on ttft, error_rate"]
    assert tiles["Goodput there"][0] == "1.95 req/s"
    assert tiles["Limits of a request"] == ["ttft 500, tpot 200", "ms, set before load"]
    assert tiles["Load generator"][0] == "valid in 5 of 5"
    assert tiles["Evidence grade"][0] == "partial"
    ladder = run.page.all("table")[0].cells()
    names = [column.name for column in COLUMNS]
    for row, stage in zip(ladder, summary.stages, strict=True):
        expected = [column.cell(stage) for column in COLUMNS if column.name != "result"]
        assert [row[0], *row[2:]] == expected
        assert row[1] == f"{stage.verdict.result} {stage.verdict.strength}"
    assert names[-1] == "result"


def test_every_chart_has_its_data_beside_the_report_and_nothing_else_is_there(run: Run) -> None:
    linked = [link.attributes["href"] for link in run.page.all("a") if link.text.startswith("Data of this chart")]
    assert sorted(str(href) for href in linked) == sorted(
        f"charts/{path.name}" for path in run.folder.charts_dir.iterdir()
    )
    assert len(linked) == len(run.page.all("figure"))
    for path in run.folder.charts_dir.iterdir():
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 1, path
        assert {len(row) for row in rows} == {len(rows[0])}, path


def test_the_curve_is_drawn_from_the_figures_of_the_summary_and_names_its_arrival_mode(run: Run) -> None:
    rows = run.data("goodput-against-rate")
    stages = [of for of in run.summary.stages if of.mode == "open"]
    assert [row["offered_rps"] for row in rows] == ["2", "6", "2"]
    for row, stage in zip(rows, stages, strict=True):
        for name in ("completed_in_window_rps", "goodput_rps", "attainment", "error_rate"):
            assert float(row[name]) == getattr(stage, name)
        assert row["result"] == stage.verdict.result
    keys = [key.text for key in run.page.all("figure")[0].all("li")]
    assert keys == [
        "sustained: 2 req/s",
        "first fail: 6 req/s",
        "between them: not tested",
        "all that is offered",
        "gate: attainment 95 % of what is offered",
        "completed in the window (open, poisson)",
        "goodput (open, poisson)",
        "completed in the window (open, gamma(cv=3))",
        "goodput (open, gamma(cv=3))",
    ]


def test_open_and_closed_loops_never_share_a_chart(run: Run) -> None:
    for name in ("goodput-against-rate", "latency-ttft-against-rate"):
        assert {row["arrival_mode"] for row in run.data(name)} == {"open"}
    for name in ("requests-against-concurrency", "latency-ttft-against-concurrency"):
        rows = run.data(name)
        assert {row["arrival_mode"] for row in rows} == {"closed"}
        assert [row["offered_rps"] for row in rows] == ["", ""]
        assert [row["concurrency"] for row in rows] == ["8", "16"]


def test_latencies_against_rate_are_those_of_the_summary(run: Run) -> None:
    row = run.data("latency-ttft-against-rate")[0]
    found = run.summary.stages[0].percentiles
    assert [float(row[f"ttft_p{at}_ms"]) for at in (50, 95, 99)] == [
        found[f"ttft_p{at}_ms"].value for at in (50, 95, 99)
    ]
    assert (row["n"], row["limit_ms"]) == ("120", "500")


def test_slices_gates_and_failures_stand_in_tables(run: Run) -> None:
    tables = {table.one("caption").text: table.cells() for table in run.page.all("table") if table.all("caption")}
    slices = tables["Each slice of the workload alone, by stage"]
    assert [row[:2] for row in slices] == [["faq at open 2/s poisson", "117"], ["long at open 2/s poisson", "3"]]
    gates = tables["Gates, by stage: what was found, and whether the gate holds"]
    assert gates[0][:3] == ["attainment >= 0.95 (default)", "holds 0.975", "fails 0, signed"]
    errors = tables["The commonest failures of each stage"]
    assert errors == [["open 6/s poisson", "rejected", "429", "queue is full", "10"]]
    assert tables["Seeds and digests, for running it again"][0] == ["workload", "1", "-", "-", "ab" * 32]
    digests = tables["SHA-256 of the files of this run"]
    assert [row[0] for row in digests] == ["manifest.json", "plan.csv", "requests.csv", "summary.json"]


def test_no_figure_is_called_users(run: Run) -> None:
    assert claimed_users(" ".join(run.page.text.split())) is None


def test_the_drawing_follows_the_readers_theme(run: Run) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", run.html, re.DOTALL))
    assert not re.search(r"#[0-9a-fA-F]{6}\b", drawn)
    used = set(re.findall(r"var\(--([\w-]+)\)", run.html))
    light, dark = (_palette(CSS, scheme) for scheme in ("light", "dark"))
    assert used <= set(light)
    assert {name for name in light if not light[name].startswith("var(")} == set(dark)


def _palette(css: str, scheme: str) -> dict[str, str]:
    block = next(
        block for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL) if f"color-scheme: {scheme}" in block
    )
    return dict(re.findall(r"--([\w-]+): ([^;]+);", block))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(scheme: str) -> None:
    """By WCAG 2.2: 4.5 to 1 for text, 3 to 1 for lines."""
    palette = _palette(CSS, scheme)
    for name in ("ink", "soft", "link", "pass", "fail", "warn", "none"):
        assert _contrast(palette[name], palette["page"]) >= 4.5, name
        assert _contrast(palette[name], palette["card"]) >= 4.5, name
    for name in ("pass", "fail", "warn", "none"):
        assert _contrast(palette[name], palette[f"{name}-soft"]) >= 4.5, name
    lines = [name for name in palette if re.fullmatch(r"c-(s\d|r\d|limit|pass|fail|muted)", name)]
    assert len(lines) == 20
    for name in lines:
        assert _contrast(palette[name], palette["page"]) >= 3, name


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_same_run_gives_the_same_bytes(run: Run) -> None:
    before = {path: path.read_bytes() for path in [run.folder.report_html, *run.folder.charts_dir.iterdir()]}
    report_run(run.folder.path, html=True)
    assert {path: path.read_bytes() for path in before} == before


def test_a_blank_has_its_reason(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    made.stage(rate=1).requests(30, tokens=1)
    made.stage(rate=2).requests(30, outcome="timeout")
    page = written(made).page
    row = page.all("table")[0].cells()[0]
    notes = [note.text for note in page.all("ul", "notes")[0].all("li")]
    assert row[4:6] == ["-", "-"]
    assert "good is - everywhere: no limits were chosen (--slo)." in notes
    assert "attained is - everywhere: no limits were chosen (--slo)." in notes
    assert "TPOT p95 is - at open 1/s poisson: 30 replies of one token have none." in notes
    assert "TTFT p95 is - at open 2/s poisson: no request was ok." in notes
    assert "No limits were chosen (--slo), so there is no goodput." in page.text


def test_a_stage_that_is_not_valid_is_marked_and_no_curve_runs_through_it(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path, slo={"ttft": 500}, synthetic_engine=True)
    made.stage(rate=2).requests(120, lag=50)
    run = written(made)
    assert run.summary.stages[0].verdict.result == "invalid"
    keys = [key.text for key in run.page.all("figure")[0].all("li")]
    assert "stage that was not judged: no curve runs through it" in keys
    assert run.page.one("p", "banner").text == "The engine is synthetic: nothing here is performance."
    assert run.data("goodput-against-rate")[0]["result"] == "invalid"
    assert run.page.all("span", "invalid")


@pytest.mark.parametrize("cut_short", [False, True])
def test_a_run_in_which_nothing_was_sent_has_a_report_too(cut_short: bool, tmp_path: Path) -> None:
    made = RunBuilder(tmp_path, state="interrupted", state_reason="Ctrl-C")
    if cut_short:
        made.stage(rate=2, interrupted="Ctrl-C")
    run = written(made)
    assert run.page.one("h1").text == "Nothing was sent, so nothing was measured."
    assert run.page.one("p", "banner").text == "State of the run: interrupted (Ctrl-C)."
    sustained = [tile.text for tile in run.page.all("div", "tile") if "Sustained rate" in tile.text]
    assert ["none" in text for text in sustained] == [True] * cut_short
    assert not run.page.all("figure") or cut_short


def test_what_an_earlier_report_had_and_this_one_has_not_is_taken_away(run: Run) -> None:
    stale = run.folder.charts_dir / "timeline-stage-9-round-0.csv"
    stale.write_text("a\n1\n")
    report_run(run.folder.path, html=True)
    assert not stale.exists()


def test_other_limits_have_a_report_and_data_of_their_own(run: Run) -> None:
    before = {path: path.read_bytes() for path in [run.folder.report_html, *run.folder.charts_dir.iterdir()]}
    reported = report_run(run.folder.path, {"ttft": 800.0}, html=True)
    assert reported.html == run.folder.path / "report-slo-ttft800.html"
    page = read_page(reported.html.read_text())
    assert page.one("p", "banner").text == "The limits were set after the run: such a judgement never earns a release."
    assert {str(a.attributes["href"]).split("/")[0] for a in page.all("a") if "/" in str(a.attributes["href"])} == {
        "charts-slo-ttft800"
    }
    assert {path: path.read_bytes() for path in before} == before
    names = {path.name for path in run.folder.charts_dir.iterdir()}
    assert {path.name for path in (run.folder.path / "charts-slo-ttft800").iterdir()} == names


def test_merge_and_report_write_it_unless_told_not_to(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    made.stage(rate=1).requests(20)
    path = str(made.write())
    for command in (merge, report):
        assert CliRunner().invoke(command, [path, "--no-html"]).exit_code == 0
        assert not made.folder.report_html.exists()
        assert not made.folder.charts_dir.exists()
    for command in (merge, report):
        result = CliRunner().invoke(command, [path])
        assert f"For a browser: {made.folder.report_html}" in result.output
        made.folder.report_html.unlink()


def test_a_run_that_goes_on_does_not_wait_for_charts(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    made.stage(rate=1).requests(20)
    made.write()
    assert judging.newest_stage(made.folder) is not None
    assert made.folder.report_md.exists()
    assert not made.folder.report_html.exists()


def test_a_hundred_thousand_requests_stay_under_five_megabytes(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path, slo={"ttft": 500, "tpot": 100})
    for rate in (400, 600, 700):
        stage = made.stage(rate=rate)
        for k in range(rate * 60):
            stage.request(k / rate, ttft=50 + k % 997, e2e=1500 + k % 1009, tokens=10 + k % 89, lag=k % 7 / 10)
    run = written(made)
    assert sum(stage.measured for stage in run.summary.stages) == 102_000
    assert len(run.html) < 5_000_000
    assert sum(path.stat().st_size for path in run.folder.charts_dir.iterdir()) < 5_000_000
