"""What is taken for a run folder, and what is said of everything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.run_folder import require_run, why_no_run
from llm_locust.records.summary import RunSummary


def a_run(path: Path, written_s: int) -> Path:
    path.mkdir()
    manifest = RunFolder(path).manifest
    manifest.touch()
    os.utime(manifest, (written_s, written_s))
    return path


def test_a_folder_with_a_manifest_is_a_run_folder(tmp_path: Path) -> None:
    require_run(a_run(tmp_path / "run", 1))


def test_of_a_folder_of_runs_the_newest_is_named(tmp_path: Path) -> None:
    newest = a_run(tmp_path / "a", 2)
    a_run(tmp_path / "b", 1)
    assert why_no_run(tmp_path) == (
        f"{tmp_path} is not a run folder: it has no manifest.json; {newest} is the newest in it"
    )


def test_beside_a_folder_that_is_not_there_the_newest_is_named(tmp_path: Path) -> None:
    newest = a_run(tmp_path / "a", 1)
    assert why_no_run(tmp_path / "b") == (
        f"{tmp_path / 'b'} is not a run folder: there is no such folder; {newest} is the newest beside it"
    )


def test_a_file_is_no_run_folder_but_may_be_in_one(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", 1)
    (run / "report.md").touch()
    (tmp_path / "README.md").touch()
    assert why_no_run(run / "report.md") == (
        f"{run / 'report.md'} is not a run folder, but a file; {run} is the run folder that it is in"
    )
    assert why_no_run(tmp_path / "README.md") == (
        f"{tmp_path / 'README.md'} is not a run folder, but a file; name the folder of a run"
    )


def test_an_empty_folder_is_none_either(tmp_path: Path) -> None:
    assert "it has no manifest.json; name a folder that a run has left" in str(why_no_run(tmp_path))


@pytest.mark.parametrize("name", ["folder", "file"])
def test_neither_manifest_nor_summary_is_looked_for_in_what_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    folder = RunFolder(tmp_path / name)
    with pytest.raises(UsageError, match=f"{name} is not a run folder"):
        Manifest.load(folder.manifest)
    with pytest.raises(UsageError, match=f"{name} is not a run folder"):
        RunSummary.load(folder.summary)


def test_a_run_that_is_not_merged_is_to_be_merged(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run has no summary\.json: run llm-locust merge"):
        RunSummary.load(RunFolder(a_run(tmp_path / "run", 1)).summary)
