"""A reader sees the old file or the new one, never half of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records.whole_file import whole_file, write_whole, write_whole_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_old_content_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_whole(path, "old")
    with whole_file(path) as file:
        file.write(b"ne")
        file.flush()
        assert path.read_text() == "old"
        file.write(b"w")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["summary.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "summary.json"
    write_whole(path, "old")
    with pytest.raises(type(error)), whole_file(path) as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["summary.json"]


def test_the_mode_of_the_replaced_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    write_whole(path, "old")
    path.chmod(0o640)
    write_whole(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_that_any_new_file_has(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "whole", "")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_of_a_link_the_file_it_leads_to_is_replaced(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_whole(elsewhere / "real.json", "old")
    link = tmp_path / "link.json"
    link.symlink_to(elsewhere / "real.json")
    write_whole(link, "new")
    assert link.is_symlink()
    assert (elsewhere / "real.json").read_text() == "new"
    assert names(elsewhere) == ["real.json"]


def test_what_cannot_be_written_is_named_as_a_person_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "summary.json"
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(path, "")
    assert raised.value.filename == str(path)


def test_text_is_utf_8_with_its_line_ends_as_they_are_and_json_is_indented(tmp_path: Path) -> None:
    write_whole(tmp_path / "text", "ü\r\n")
    write_whole_json(tmp_path / "json", {"a": [1]})
    assert (tmp_path / "text").read_bytes() == b"\xc3\xbc\r\n"
    assert (tmp_path / "json").read_bytes() == b'{\n  "a": [\n    1\n  ]\n}\n'
