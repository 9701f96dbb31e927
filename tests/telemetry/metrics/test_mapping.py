"""Mapping files: those that ship, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.telemetry.metrics import known_engines, known_mapping, load_mapping, read_page

GOOD = """
engine = "mine"
title = "My engine"
prefix = ["my_"]

[gauges]
waiting = ["my_waiting", 'my_requests{state="waiting"}']

[counters]
prompt_tokens = { sum = ["my_fresh_total", "my_cached_total"] }

[histograms]
ttft = { metric = "my_ttft_ms", scale = 0.001 }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_only_mappings_held_against_a_real_page_are_verified() -> None:
    assert {engine for engine in known_engines() if known_mapping(engine).verified} == {"vllm", "llamacpp", "simulator"}
    assert {"sglang", "tgi", "triton", "lmdeploy"} <= set(known_engines())


def test_every_mapping_that_ships_names_its_engine_as_its_file_does() -> None:
    for engine in known_engines():
        assert known_mapping(engine).engine == engine


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    mapping = load_mapping(written(tmp_path, GOOD))
    assert not mapping.verified
    found = read_page(
        b'my_requests{state="waiting"} 3\nmy_requests{state="done"} 90\nmy_fresh_total 7\nmy_cached_total 2\n', mapping
    )
    assert (found.engine, found.verified, found.values) == ("mine", False, {"waiting": 3, "prompt_tokens": 9})


def test_a_sum_without_all_of_its_parts_is_not_measured(tmp_path: Path) -> None:
    mapping = load_mapping(written(tmp_path, GOOD))
    assert read_page(b"my_fresh_total 7\nmy_waiting 0\n", mapping).values == {"waiting": 0}


def test_a_file_that_is_like_another_changes_only_what_it_says(tmp_path: Path) -> None:
    text = 'engine = "fork"\ntitle = "Fork"\nprefix = ["fork_"]\nlike = "vllm"\n[gauges]\nwaiting = "fork_waiting"\n'
    mapping = load_mapping(written(tmp_path, text))
    assert not mapping.verified
    page = b"fork_waiting 2\nvllm:num_requests_waiting 9\nvllm:num_requests_running 1\n"
    assert read_page(page, mapping).values == {"waiting": 2, "running": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine = ", "not TOML"),
        (GOOD.replace('title = "My engine"', ""), "object missing required field title"),
        (GOOD.replace("prefix =", "prefixes ="), "object contains unknown field prefixes"),
        (GOOD.replace('["my_"]', "[]"), "prefix: name at least one"),
        (GOOD.replace('["my_"]', '"my_"'), "prefix: expected array, got str"),
        (GOOD.replace("waiting =", "wating ="), "gauges.wating: no figure is called 'wating'; did you mean waiting?"),
        (GOOD.replace("[gauges]\nwaiting =", "[gauges]\nttft ="), "gauges.ttft: ttft is a histogram: write it under"),
        (GOOD.replace("0.001", "0"), "histograms.ttft: scale must be a positive number, not 0"),
        (GOOD.replace("0.001", "nan"), "histograms.ttft: scale must be a positive number, not nan"),
        (GOOD.replace('metric = "my_ttft_ms"', 'sum = ["a", "b"]'), "histograms.ttft: histograms of different metrics"),
        (GOOD.replace('metric = "my_ttft_ms", ', ""), "histograms.ttft: write either metric"),
        (GOOD.replace('"my_waiting"', '"my waiting!"'), "gauges.waiting: 'my waiting!' is no metric"),
        (GOOD.replace('["my_waiting", \'my_requests{state="waiting"}\']', "[]"), "gauges.waiting: names no metric"),
        ('engine = "a"\ntitle = "a"\nprefix = ["a"]\nlike = "vlm"', "like = 'vlm': there are llamacpp,"),
        ('engine = "a"\ntitle = "a"\nprefix = ["a"]', "maps nothing"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        load_mapping(path)
    assert str(refused.value).startswith(f"mapping file {path}")
    assert message in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: No such file"):
        load_mapping(tmp_path / "nowhere.toml")


def test_an_engine_without_a_mapping() -> None:
    with pytest.raises(
        UsageError, match=r"no mapping for engine 'tensorrt': there are llamacpp, .*name a file of your own"
    ):
        known_mapping("tensorrt")
