"""The worked cases do what their pages say: the short form of each, taken from the page, is run for real and judged."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from llm_locust.arrivals import parse_process
from llm_locust.records import parse_slo
from llm_locust.records.gates import parse_gate
from llm_locust.records.summary import StageSummary
from llm_locust.report.worksheet import HEADER
from llm_locust.simulator.process import Value, running
from tests.docs.pages import DOCS, ROOT, blocks
from tests.e2e.conftest import Locust, Run

CASES = DOCS / "cases"
FAQ, BURST = "short-faq", "long-document-burst"
LONG, SHORT = 0, 1
"""The first and the second block of commands on each page."""

FACTORS = {
    "--decode-ms": 0.1, "--prefill-tps": 10, "--rates": 10, "--burst": 0.1, "--warmup-time": 0.1, "--cooldown": 0.1,
    "--metrics-interval": 0.1, "--slo": 0.3, "ttft_p95": 0.3, "tpot_p95": 0.3,
}  # fmt: skip
"""What the short form makes of the long one. Limits get three tenths, not one: a busy machine's hiccups stay as long."""
CUT = {"--stage-time", "--requests"}
"""The short form measures less, too."""
UNSAID = {"--cooldown": ["30"], "--metrics-interval": ["1"]}
"""What the long form leaves at its default."""


def commands(name: str, place: int) -> tuple[list[str], list[str]]:
    """The words of the simulator's command and of Locust's in the long or the short form on a page."""
    shell = [block for block in blocks(CASES / f"{name}.md") if block.language == "shell"]
    simulate, locust = map(shlex.split, shell[place].commands)
    assert simulate[:2] == ["llm-locust", "simulate"]
    assert locust[:2] == ["locust", "-f"]
    return simulate, locust


def by_option(words: list[str]) -> dict[str, list[str]]:
    """Options with what follows each of them; what stands before the first is dropped."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("-"):
            name = word
            found[name] = []
        elif name:
            found[name].append(word)
    return found


def numbers(option: str, values: list[str]) -> list[float]:
    """The numbers of an option's value that the short form may change, in order."""
    if option == "--burst":
        return [value for _, value in parse_process(values[0]).parameters]
    if option == "--slo":
        return list(parse_slo(values[0]).values())
    return [float(part) for part in values[0].split(",")]


# --- The commands of a page and their short form are one and the same case.


@pytest.mark.parametrize("name", [FAQ, BURST])
def test_the_short_form_is_the_long_one_ten_times_as_fast(name: str) -> None:
    for long, short in zip(commands(name, LONG), commands(name, SHORT), strict=True):
        asked, scaled = by_option(long), by_option(short)
        for option in CUT & asked.keys():
            assert float(scaled.pop(option)[0]) < float(asked.pop(option)[0])
        asked = (UNSAID if long[0] == "locust" else {}) | asked
        long_gates, short_gates = (map(parse_gate, found.pop("--gate", [])) for found in (asked, scaled))
        for gate, other in zip(long_gates, short_gates, strict=True):
            assert (other.name, other.relation) == (gate.name, gate.relation)
            if isinstance(gate.limit, float):
                assert other.limit == pytest.approx(gate.limit * FACTORS.get(gate.name, 1))
            else:
                assert other.limit == gate.limit
        for option in sorted(FACTORS.keys() & asked.keys()):
            factor, values = FACTORS[option], numbers(option, asked.pop(option))
            assert numbers(option, scaled.pop(option)) == pytest.approx([factor * value for value in values]), option
        assert scaled == asked


# --- Both are played at once: most of the time is waiting.


@dataclass
class Played:
    """A case's short form as it went."""

    run: Run

    @property
    def stages(self) -> list[StageSummary]:
        return self.run.summary.stages

    @property
    def worksheet(self) -> pd.DataFrame:
        return pd.read_csv(self.run.folder.path / "worksheet.csv")


def engine_options(words: list[str]) -> dict[str, Value]:
    """The simulator's options by name, on any free port."""
    found: dict[str, Value] = {}
    for option, values in by_option(words).items():
        found[option.removeprefix("--").replace("-", "_")] = values[0]
    return found | {"port": 0}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Played]]:
    """The short forms as the pages have them, but for ports and run folders."""
    with ExitStack() as stack:
        started = []
        for name in (FAQ, BURST):
            simulate, words = commands(name, SHORT)
            server = stack.enter_context(running(**engine_options(simulate)))
            words[words.index("--host") + 1] = server.base_url
            files = ",".join(f"{ROOT / file}" for file in words[2].split(","))
            locust = Locust(tmp_path_factory.mktemp(name))
            stack.callback(locust.kill_leftovers)
            started.append((name, locust, locust.start(*words[3:], files=files)))
        yield {name: Played(locust.finish(process)) for name, locust, process in started}


def gates(stage: StageSummary, held: bool) -> set[str]:
    """The gates that hold, or those that do not. They are judged whatever the generator's health is."""
    return {gate.name for gate in stage.verdict.gates if gate.passed is held}


def assert_all_hold(stage: StageSummary) -> None:
    """Every gate that the stage can be asked: a bursty one has no trend in flight."""
    assert gates(stage, held=True) == {gate.name for gate in stage.verdict.gates if gate.applicable}


def assert_result(stage: StageSummary, result: str) -> None:
    """A test machine that is busy with other things may void a stage, and nothing else may."""
    assert stage.verdict.result == (result if stage.generator.valid else "invalid"), stage.verdict.sentence


def p95(stage: StageSummary, figure: str) -> float:
    value = stage.percentiles[f"{figure}_p95_ms"].value
    assert isinstance(value, float)
    return value


@pytest.mark.process
def test_short_questions_are_answered_at_half_and_one_and_queue_up_at_two_with_kv_cache_to_spare(
    played: dict[str, Played],
) -> None:
    case = played[FAQ]
    case.run.assert_ran()
    case.run.assert_one_row_for_each_planned_arrival()
    half, one, two = case.stages
    assert [stage.rate_rps for stage in case.stages] == [
        5,
        10,
        20,
    ]  # of the page's 0.5, 1 and 2, at ten times the speed
    for stage in (half, one):
        assert_all_hold(stage)
        assert_result(stage, "pass")
    assert gates(two, held=False) >= {"ttft_p95", "waiting_trend", "queue_p95"}
    assert gates(two, held=True) >= {"tpot_p95", "client_wait_p95", "http_503", "oom"}
    assert_result(two, "fail")
    assert p95(two, "ttft") > 2 * 300
    for stage in case.stages:
        assert stage.outcomes == {"ok": stage.measured}
        assert stage.server is not None
        assert stage.server.kv_cache_peak_pct is not None
        assert stage.server.kv_cache_peak_pct < 25
        assert stage.server.preemptions == 0
    assert two.server is not None
    assert two.server.running_peak == 10  # all slots: it is they that ran out
    assert two.waiting_trend is not None
    assert two.waiting_trend.state == "rising"
    rows = case.run.rows()
    assert rows["prompt_tokens"].between(500, 1000).all()
    assert rows["output_tokens"].between(40, 120).all()


@pytest.mark.process
def test_the_same_documents_at_the_same_mean_rate_wait_longer_when_they_come_in_bursts(
    played: dict[str, Played],
) -> None:
    case = played[BURST]
    case.run.assert_ran()
    case.run.assert_one_row_for_each_planned_arrival()
    even, bursts = case.stages
    rows = case.run.rows()
    of_even, of_bursts = (part for _, part in rows[rows["phase"] == "measure"].sort_values("index").groupby("stage"))
    for column in ("prompt_sha256", "prompt_index", "prompt_tokens", "max_tokens", "output_tokens"):
        assert of_even[column].tolist() == of_bursts[column].tolist()
    assert of_even["prompt_sha256"].is_unique
    assert case.worksheet["traffic shape: workload SHA-256"].nunique() == 1
    assert of_even["prompt_tokens"].between(7500, 8500).all()
    assert of_even["output_tokens"].between(200, 600).all()
    for stage in (even, bursts):
        assert stage.rate_rps == 10  # of the page's 1, at ten times the speed
        assert stage.measured == 60
        assert stage.seconds == pytest.approx(5.9, rel=0.03)
        assert stage.outcomes == {"ok": 60}
    assert_all_hold(even)
    assert_result(even, "pass")
    assert "ttft_p95" in gates(bursts, held=False)
    assert gates(bursts, held=True) >= {"tpot_p95", "client_wait_p95", "http_503", "oom"}
    assert_result(bursts, "fail")
    assert p95(bursts, "ttft") > 2 * p95(even, "ttft")
    assert even.server is not None
    assert bursts.server is not None
    assert even.server.kv_cache_peak_pct is not None
    assert bursts.server.kv_cache_peak_pct is not None
    assert even.server.kv_cache_peak_pct < 95 < bursts.server.kv_cache_peak_pct


@pytest.mark.process
def test_nothing_of_either_is_called_performance(played: dict[str, Played]) -> None:
    for case in played.values():
        assert case.run.summary.synthetic_engine
        assert case.run.summary.verdict.startswith("The engine is synthetic: nothing here is performance.")
        ran = case.worksheet[case.worksheet["decision: result"] != "not_run"]
        assert set(ran["decision: evidence grade"]) == {"protocol-only"}


# --- What lies beside the pages.


@pytest.mark.parametrize("name", [FAQ, BURST])
def test_the_worksheet_beside_a_page_has_the_columns_of_today_and_a_row_for_each_stage_of_the_page(name: str) -> None:
    sheet = pd.read_csv(CASES / f"{name}.worksheet.csv")
    assert tuple(sheet.columns) == HEADER
    _, locust = commands(name, LONG)
    ran = sheet[sheet["decision: result"] != "not_run"]
    rates = [float(rate) for rate in by_option(locust)["--rates"][0].split(",")]
    stages_each = 2 if name == BURST else 1
    assert ran["traffic shape: offered rate [req/s]"].tolist() == [rate for rate in rates for _ in range(stages_each)]
    expected = {FAQ: ["pass", "pass", "fail"], BURST: ["pass", "fail"]}
    assert ran["decision: result"].tolist() == expected[name]


@pytest.mark.parametrize("path", sorted(CASES.glob("*.md")), ids=lambda path: path.name)
def test_a_page_speaks_of_no_machine_but_the_readers_own(path: Path) -> None:
    assert re.findall(r"/tmp|/root|/home", path.read_text("utf-8")) == []
