"""The data contracts: what a row, a limit, a clock and a manifest promise."""

import csv
import io
from pathlib import Path

import pytest

from llm_locust.records import (
    COLUMNS,
    Manifest,
    Outcome,
    RequestRecord,
    UsageError,
    WorkloadFacts,
    encode_rows,
    parse_slo,
)
from llm_locust.records.clock import Clock
from llm_locust.records.slo import format_slo


def record(**values: object) -> RequestRecord:
    identity = {
        "run_id": "r",
        "stage": 0,
        "phase": "measure",
        "index": 7,
        "request_id": "r.7",
        "worker": 0,
        "user": "U",
    }
    return RequestRecord(**{**identity, "outcome": Outcome.OK, **values})  # type: ignore[arg-type]


def row(**values: object) -> dict[str, str]:
    (cells,) = csv.reader(io.StringIO(encode_rows([record(**values)])))
    return dict(zip(COLUMNS, cells, strict=True))


def test_what_was_not_measured_is_an_empty_cell_and_a_measured_zero_is_a_zero() -> None:
    cells = row(output_tokens=0, prompt_tokens=None, reused=False, first_coalesced=True)
    assert (cells["output_tokens"], cells["prompt_tokens"]) == ("0", "")
    assert (cells["reused"], cells["first_coalesced"], cells["cold"]) == ("0", "1", "")


def test_nanoseconds_are_written_in_full() -> None:
    assert row(sent_ns=1_795_989_938_473_837_659)["sent_ns"] == "1795989938473837659"


def test_gaps_are_one_cell_and_an_error_text_stays_one_field() -> None:
    cells = row(gaps_us=[20530, 19490], error='it said "no", twice')
    assert cells["gaps_us"] == "20530 19490"
    assert cells["error"] == 'it said "no", twice'


def test_the_outcome_is_written_by_name() -> None:
    assert row(outcome=Outcome.CONNECTION_LOST)["outcome"] == "connection_lost"


def test_limits_are_read_by_name_in_milliseconds() -> None:
    assert parse_slo("ttft=500, tpot=100,e2e=3000") == {"ttft": 500.0, "tpot": 100.0, "e2e": 3000.0}
    assert parse_slo(None) == parse_slo("") == {}
    assert parse_slo(format_slo({"ttft": 0.5, "max_gap": 250.0})) == {"ttft": 0.5, "max_gap": 250.0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ttfb=500", "max_gap"),
        ("ttft", "NAME=MILLISECONDS"),
        ("ttft=500s", "without a unit"),
        ("ttft=", "without a unit"),
        ("ttft=0", "positive"),
        ("ttft=-1", "positive"),
        ("ttft=inf", "finite"),
        ("ttft=nan", "finite"),
        ("ttft=1,ttft=2", "twice"),
    ],
)
def test_a_wrong_limit_is_refused_with_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_slo(text)


def test_a_step_of_the_wall_clock_does_not_move_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    wall, monotonic = 1_000_000_000_000_000_000, 5_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: wall)
    monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic)
    clock = Clock()
    assert clock.now_ns() == wall
    wall += 3_600_000_000_000
    monotonic += 2_000_000_000
    assert clock.now_ns() == 1_000_000_002_000_000_000
    assert clock.wall_step_ns() == 3_598_000_000_000


def manifest() -> Manifest:
    return Manifest(
        run_id="r",
        state="running",
        started_at="2026-01-01T00:00:00+00:00",
        host="http://127.0.0.1:1",
        seed=1,
        deadline_s=30.0,
        workload=WorkloadFacts(name="w", kind="synthetic", source="s", sha256="0"),
    )


def test_a_manifest_survives_the_disk_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    manifest().save(path)
    assert Manifest.load(path) == manifest()
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    ("content", "says"), [("{", "not a manifest"), ('{"schema_version": "9"}', "schema '9'"), ("{}", "schema None")]
)
def test_a_manifest_that_cannot_be_read_says_why(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=says):
        Manifest.load(path)
    with pytest.raises(UsageError, match="not a run folder"):
        Manifest.load(tmp_path / "none" / "manifest.json")
