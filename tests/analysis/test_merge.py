"""From raw files to one row per arrival: collapse, conflicts, torn ends, losses, clocks."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from llm_locust.analysis.merge import merge
from llm_locust.analysis.merged_file import MERGED_COLUMNS
from llm_locust.analysis.raw_files import PLAN, REQUESTS, Step, read_rows
from llm_locust.records import ClockSample, Manifest, RunFolder, UsageError
from llm_locust.report import merge_run
from tests.analysis.run_builder import NS_PER_MS, T0, RunBuilder


def merged_rows(folder: Path) -> list[dict[str, str]]:
    with RunFolder(folder).merged.open(newline="") as file:
        return list(csv.DictReader(file))


def two_workers(tmp_path: Path, **options: object) -> RunBuilder:
    run = RunBuilder(tmp_path, workers=2, **options)  # type: ignore[arg-type]
    stage = run.stage(rate=1, window=10)
    for k in range(10):
        stage.request(k + 0.5, worker=k % 2, e2e=800)
    return run


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_merged_table_is_sorted_by_index_and_nanoseconds_are_exact(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    merge_run(folder)
    rows = merged_rows(folder)
    assert tuple(rows[0]) == MERGED_COLUMNS
    assert [row["index"] for row in rows] == [str(k) for k in range(10)]
    assert rows[3]["planned_ns"] == str(T0 + 3_500_000_000)
    assert rows[3]["end_ns"] == str(T0 + 4_300_000_000)
    assert rows[3]["ttft_ms"] == "100.0"
    assert rows[3]["tpot_ms"] == "70.0"
    assert rows[3]["connect_ns"] == ""
    assert rows[3]["good"] == ""


def test_clocks_that_disagree_leave_durations_alone_and_times_on_the_masters_clock(tmp_path: Path) -> None:
    ahead = 5_000_000_000_001
    plain = two_workers(tmp_path / "plain").write()
    shifted = two_workers(tmp_path / "shifted", offsets_ns={0: (ahead, ahead), 1: (-ahead, -ahead)}).write()
    assert str(T0 + 500_000_000 + ahead) in RunFolder(shifted).worker_csv(0).read_text()
    one, other = merge_run(plain).summary, merge_run(shifted).summary
    assert merged_rows(plain) == merged_rows(shifted)
    assert one == other


def test_drift_between_the_samples_is_interpolated_and_held_outside(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1, window=10)
    worker = stage.manifest.workers[0]
    # The worker's clock gains 10 ms over the 10 s of its own time between the samples.
    worker.clock_start = ClockSample(at_ns=T0, offset_ns=0, uncertainty_ns=1000)
    worker.clock_end = ClockSample(at_ns=T0 + 9_990 * NS_PER_MS, offset_ns=10 * NS_PER_MS, uncertainty_ns=1000)
    for at in (0.0, 5.0, 9.0):
        stage.request(at, e2e=1000)
    stage.request(12.0, phase="cooldown")
    folder = run.write()
    merge_run(folder)
    rows = merged_rows(folder)
    assert [int(row["sent_ns"]) - T0 for row in rows] == [
        0,
        5_000 * NS_PER_MS - 5 * NS_PER_MS,
        9_000 * NS_PER_MS - 9 * NS_PER_MS,
        12_000 * NS_PER_MS - 10 * NS_PER_MS,
    ]
    # One offset for all times of a request: its durations are still those of its worker's clock.
    assert [int(row["end_ns"]) - int(row["sent_ns"]) for row in rows] == [1000 * NS_PER_MS] * 4
    # The planned time is the plan's own.
    assert int(rows[1]["planned_ns"]) == T0 + 5_000 * NS_PER_MS


def test_an_own_file_and_its_shipped_copy_collapse(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write(shipped=True)
    sums = merge_run(folder).summary.reconciliation
    assert (sums.planned, sums.attempted, sums.rows_read, sums.rows_collapsed) == (10, 10, 20, 10)


def test_rows_shipped_in_another_order_collapse_too(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write(shipped=True)
    shipped = RunFolder(folder).worker_csv(0, shipped=True)
    header, *lines = shipped.read_text().splitlines(keepends=True)
    shipped.write_text(header + "".join(reversed(lines)))
    sums = merge_run(folder).summary.reconciliation
    assert (sums.planned, sums.attempted, sums.rows_read, sums.rows_collapsed) == (10, 10, 20, 10)


def test_differing_rows_for_one_index_name_both_files_the_index_and_the_columns(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write(shipped=True)
    shipped = RunFolder(folder).worker_csv(1, shipped=True)
    header, first, second, *rest = shipped.read_text().splitlines(keepends=True)
    shipped.write_text(header + first + second.replace(",ok,200,", ",empty,201,") + "".join(rest))
    with pytest.raises(UsageError) as caught:
        merge_run(folder)
    message = str(caught.value)
    assert "index 3:" in message
    assert "worker-1.csv" in message
    assert "worker-1.shipped.csv" in message
    assert "differ in outcome, status;" in message


def test_an_unterminated_last_line_is_dropped_and_counted_and_its_arrival_lost(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    path = RunFolder(folder).worker_csv(0)
    path.write_text(path.read_text()[:-30])
    reported = merge_run(folder)
    sums = reported.summary.reconciliation
    assert sums.torn_lines == {"requests/worker-0.csv": 1}
    assert (sums.planned, sums.attempted, sums.lost) == (10, 9, 1)
    lost = merged_rows(folder)[8]
    assert (lost["index"], lost["outcome"], lost["worker"]) == ("8", "lost", "0")
    assert lost["planned_ns"] == str(T0 + 8_500_000_000)
    assert lost["sent_ns"] == ""


def test_a_file_cut_anywhere_loses_no_more_than_the_lines_it_lacks(tmp_path: Path) -> None:
    folder = RunFolder(two_workers(tmp_path).write())
    manifest = Manifest.load(folder.manifest)
    path = folder.worker_csv(0)
    content = path.read_bytes()
    for cut in range(0, len(content) + 1, 53):
        path.write_bytes(content[:cut])
        whole = max(0, content[:cut].count(b"\n") - 1)  # less the header
        due = read_rows([folder.plan], PLAN, "run-1")
        outcomes = merge(manifest, due, read_rows(folder.request_files(), REQUESTS, "run-1")).rows["outcome"]
        assert (outcomes == "ok").sum() == 5 + whole
        assert (outcomes == "lost").sum() == 5 - whole


def test_a_line_torn_in_the_workers_file_but_whole_in_the_masters_is_not_lost(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write(shipped=True)
    path = RunFolder(folder).worker_csv(0)
    path.write_text(path.read_text()[:-30])
    sums = merge_run(folder).summary.reconciliation
    assert (sums.attempted, sums.lost) == (10, 0)


def test_a_killed_workers_arrivals_are_lost_and_stay_in_the_denominator(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, workers=2, slo={"e2e": 2000})
    stage = run.stage(rate=1, window=10)
    for k in range(10):
        stage.request(k, worker=k % 2, recorded=k % 2 == 0 or k < 4)
    summary = merge_run(run.write()).summary
    (found,) = summary.stages
    assert (found.planned, found.attempted, found.lost, found.measured, found.failed) == (10, 7, 3, 10, 3)
    assert found.attainment == 0.7
    assert found.verdict.result == "invalid"
    assert "3 arrivals were lost with worker 1" in found.verdict.sentence
    assert summary.reconciliation.lost == 3


def test_files_of_another_machine_complete_the_run(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    away = tmp_path / "copied"
    away.mkdir()
    shutil.move(RunFolder(folder).worker_csv(1), away)
    assert merge_run(folder).summary.reconciliation.lost == 5
    assert merge_run(folder, [away]).summary.reconciliation.lost == 0
    as_run_folder = tmp_path / "other-machine" / "run-1"
    shutil.copytree(away, as_run_folder / "requests")
    assert merge_run(folder, [as_run_folder]).summary.reconciliation.lost == 0


def test_a_folder_without_worker_files_is_told(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    with pytest.raises(UsageError, match=r"no worker-\*\.csv"):
        merge_run(folder, [tmp_path / "nowhere"])


def test_rows_of_another_run_name_the_file_and_the_line(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    edit(RunFolder(folder).worker_csv(1), "\nrun-1,", "\nrun-2,")
    with pytest.raises(UsageError, match=r"worker-1\.csv, line 2: a row of run run-2, but this is run run-1"):
        merge_run(folder)


def test_a_row_without_plan_line_is_an_error(tmp_path: Path) -> None:
    run = two_workers(tmp_path)
    run.stages[0].due.pop(4)
    with pytest.raises(UsageError, match=r"index 4 .*in neither plan\.csv nor an issued file"):
        merge_run(run.write())


@pytest.mark.parametrize("gone", [False, True])
def test_a_plan_that_was_emptied_is_not_looked_for_among_issued_files(tmp_path: Path, gone: bool) -> None:
    folder = RunFolder(two_workers(tmp_path).write())
    folder.plan.unlink()
    if not gone:
        folder.plan.touch()
    with pytest.raises(UsageError, match=r"plan\.csv is empty or not there"):
        merge_run(folder.path)


def test_a_row_that_contradicts_the_plan_is_an_error(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    edit(RunFolder(folder).plan, "run-1-4,", "run-1-40,")
    with pytest.raises(UsageError, match="index 4 has request_id run-1-4, but the plan says run-1-40"):
        merge_run(folder)


def test_cooldown_rows_of_a_run_that_died_before_planning_them_count_as_due(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1, window=10, cooldown=5, end_ns=None)
    stage.requests(10)
    stage.request(11.0)
    stage.due.pop()
    summary = merge_run(run.write()).summary
    assert summary.reconciliation.planned == 11
    assert summary.reconciliation.planned_by_row == 1
    assert summary.stages[0].verdict.result == "undetermined"
    assert "the run died, or is still going" in summary.stages[0].verdict.sentence


def test_cooldown_rows_without_plan_are_an_error_in_a_stage_that_ended(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1, window=10, cooldown=5)
    stage.requests(10)
    stage.request(11.0)
    stage.due.pop()
    with pytest.raises(UsageError, match=r"index 10 \(stage 0, cooldown\)"):
        merge_run(run.write())


def test_a_closed_loop_has_issued_rows_for_a_plan(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(concurrency=1, window=10)
    stage.requests(9)
    stage.request(9.5, recorded=False)
    summary = merge_run(run.write()).summary
    assert (summary.reconciliation.planned, summary.reconciliation.lost) == (10, 1)
    assert summary.stages[0].measured == 10
    assert summary.stages[0].verdict.result == "invalid"


def test_a_plan_that_is_not_the_manifests_stops_the_merge_with_both_numbers(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    manifest = Manifest.load(RunFolder(folder).manifest)
    manifest.stages[0].planned = 12
    manifest.save(RunFolder(folder).manifest)
    with pytest.raises(UsageError, match=r"plan\.csv lists 10 arrivals of stage 0, round 0, but .* 12 were due"):
        merge_run(folder)


def test_a_stage_the_manifest_does_not_know_is_an_error(tmp_path: Path) -> None:
    run = two_workers(tmp_path)
    run.stages[0].records[0].stage = 7
    with pytest.raises(UsageError, match="rows of stage 7, round 0, which the manifest does not list"):
        merge_run(run.write())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("index,", "indices,", r"missing \['index'\], unknown \['indices'\]"),
        (",ok,200,", ",fine,200,", "line 2: unknown outcome 'fine'"),
        (",ok,200,", ",ok,2oo,", "line 2: status is '2oo', not an integer"),
        (",ok,200,", ",,200,", "line 2: outcome is empty"),
    ],
)
def test_a_broken_file_names_the_line_and_the_cell(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = two_workers(tmp_path).write()
    edit(RunFolder(folder).worker_csv(0), old, new)
    with pytest.raises(UsageError, match=rf"worker-0\.csv.*{message}"):
        merge_run(folder)


def test_text_that_looks_like_null_is_text(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(1, user="None", finish_reason="NA")
    folder = run.write()
    merge_run(folder)
    (row,) = merged_rows(folder)
    assert (row["user"], row["finish_reason"]) == ("None", "NA")


def test_merging_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write(shipped=True)

    def written() -> list[bytes]:
        merge_run(folder)
        return [(folder / name).read_bytes() for name in ("requests.csv", "summary.json", "report.md")]

    assert written() == written()
    assert not list(folder.glob("*.tmp"))


def test_a_worker_without_a_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    RunFolder(folder).worker_csv(1).unlink()
    reported = merge_run(folder)
    assert reported.summary.reconciliation.workers_without_file == [1]
    assert "worker 1: no file of its rows, so its arrivals count as lost; copy requests/worker-1.csv here" in (
        reported.report.read_text()
    )


def test_a_manifest_of_an_older_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    edit(RunFolder(folder).manifest, '"schema_version": "1.1"', '"schema_version": "1.0"')
    with pytest.raises(UsageError, match=r"manifest\.json: schema '1\.0', but this version reads 1\.1"):
        merge_run(folder)


def test_gaps_go_through_the_merge_whatever_order_the_rows_came_in(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, workers=2)
    stage = run.stage(rate=1, window=10)
    for k in range(4):
        gaps = [1000 * k + 1, 2] if k != 2 else None
        stage.request(k + 0.5, worker=k % 2, tokens=3, gaps_us=gaps, max_gap_ns=5)
    stage.records.reverse()
    folder = run.write(shipped=True)
    merge_run(folder)
    assert [row["gaps_us"] for row in merged_rows(folder)] == ["1 2", "1001 2", "", "3001 2"]


def test_rows_that_differ_in_a_gap_alone_are_told(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=1, window=10).request(0.5, tokens=3, gaps_us=[10, 20], max_gap_ns=20_000)
    folder = run.write(shipped=True)
    edit(RunFolder(folder).worker_csv(0, shipped=True), ",10 20,", ",10 21,")
    with pytest.raises(UsageError, match=r"index 0: .* differ in gaps_us;"):
        merge_run(folder)


def test_progress_tells_rows_and_shares(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    steps: list[Step] = []
    merge_run(folder, progress=steps.append)
    assert [step.what for step in steps] == [
        "reading plan.csv",
        "reading worker-0.csv",
        "reading worker-1.csv",
        "putting rows and plan together",
        "computing figures",
        "writing requests.csv",
    ]
    assert [step.rows for step in steps] == [10, 5, 10, 10, 10, 10]
    assert steps[-1].share == 1.0


def test_a_run_without_any_worker_file_is_all_lost(tmp_path: Path) -> None:
    folder = two_workers(tmp_path).write()
    shutil.rmtree(folder / "requests")
    summary = merge_run(folder).summary
    assert (summary.reconciliation.planned, summary.reconciliation.lost, summary.sent) == (10, 10, 0)
    assert summary.verdict == "Nothing was sent, so nothing was measured."
