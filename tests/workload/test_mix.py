"""A mix of named slices: exact shares, each slice as if it were alone, and a bad file is named with its key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.records.run import SourceSpec, WorkloadSpec
from llm_locust.workload import Mix, load_workload
from llm_locust.workload.mix import counts_of
from llm_locust.workload.mix_file import read_mix


def mix(folder: Path, text: str, **options: object) -> Mix:
    path = folder / "mix.toml"
    path.write_text(text)
    spec = WorkloadSpec(seed=1, **{"max_tokens": 9, **options})  # type: ignore[arg-type]
    spec = WorkloadSpec(seed=1, max_tokens=9, mix_file=str(path), mix=read_mix(str(path), spec))
    found = load_workload(spec)
    assert isinstance(found, Mix)
    return found


def test_every_thousand_arrivals_hold_each_slice_by_its_weight(tmp_path: Path) -> None:
    workload = mix(tmp_path, "[slice.faq]\nweight = 3\n[slice.docs]\nweight = 1\n")
    for start in (0, 1000, 7000):
        taken = Counter(workload.prompt(index).slice for index in range(start, start + 1000))
        assert taken == {"faq": 750, "docs": 250}
    orders = [tuple(workload.prompt(index).slice for index in range(start, start + 50)) for start in (0, 1000)]
    assert orders[0] != orders[1]
    assert workload.facts.slices == ["faq", "docs"]


@pytest.mark.parametrize(
    ("weights", "counts"),
    [([1.0], [1000]), ([1, 1, 1], [334, 333, 333]), ([1, 0], [1000, 0]), ([9999, 1], [999, 1]), ([2, 1], [667, 333])],
)
def test_shares_are_exact_to_a_thousandth_and_never_none_for_a_weight_above_0(
    weights: list[float], counts: list[int]
) -> None:
    assert counts_of(weights, "mix.toml") == counts


def test_each_slice_has_its_own_options_and_takes_the_others_from_the_run(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text(
        '{"prompt": "d0", "extra": {"top_p": 0.2}}\n{"prompt": "d1", "max_tokens": 3}\n'
    )
    workload = mix(
        tmp_path,
        "[slice.faq]\nweight = 1\ninput_tokens = 20\noutput_tokens = 5\nshared_prefix = 'share=0.5'\n"
        "[slice.docs]\nweight = 1\nprompts = 'docs.jsonl'\ntemperature = 0.7\nextra = {cache_salt = 'x'}\n",
        max_tokens=64,
        extra={"temperature": 0.0},
    )
    by_slice: dict[str, list[object]] = {"faq": [], "docs": []}
    for index in range(40):
        prompt = workload.prompt(index)
        assert prompt.index == index
        by_slice[prompt.slice or ""].append((len(prompt.text.split()), prompt.max_tokens, prompt.extra))
    assert by_slice["faq"][0] == (20, 5, {"temperature": 0.0})
    salted = {"temperature": 0.7, "cache_salt": "x"}
    # A file in a mix is read line by line, from its beginning.
    assert by_slice["docs"][:3] == [
        (1, 64, {**salted, "top_p": 0.2}),
        (1, 3, salted),
        (1, 64, {**salted, "top_p": 0.2}),
    ]


def test_slices_of_made_up_text_are_not_each_others(tmp_path: Path) -> None:
    workload = mix(tmp_path, "[slice.a]\nweight=1\ninput_tokens=30\n[slice.b]\nweight=1\ninput_tokens=30\n")
    assert len({workload.prompt(index).text for index in range(200)}) == 200


def test_one_slice_of_made_up_text_makes_the_whole_synthetic(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n' * 3)
    own = "[slice.a]\nweight = 1\nprompts = 'p.jsonl'\n"
    assert mix(tmp_path, own).facts.kind == "representative"
    assert mix(tmp_path, own).facts.prompts == 3
    mixed = mix(tmp_path, own + "[slice.b]\nweight = 1\n")
    assert mixed.facts.kind == "synthetic"
    assert mixed.facts.prompts == 6  # half of the arrivals take the three


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no slices in it"),
        ("slice = 3", "no slices in it"),
        ("[slice.a]\nweight = 0\n[slice.b]\nweight = 0", "the weights sum to 0"),
        ("[slice.a]\nweight = -1", "slice.a.weight: a number of at least 0, not -1"),
        ("[slice.a]\nweight = nan", "slice.a.weight"),
        ("[slice.a]\nweight = true", "slice.a.weight"),
        ("[slice.a]\ninput_tokens = 5", "slice.a.weight: a number of at least 0, not None"),
        ("[slice.a]\nweight = 1\nwieght = 2", "slice.a.wieght: unknown key"),
        ("[slices.a]\nweight = 1", "unknown key 'slices'"),
        ("[slice.a]\nweight = 1\ninput_tokens = 1.5", "slice.a.input_tokens"),
        ("[slice.a]\nweight = 1\nmax_tokens = 0", "slice.a.max_tokens: a whole number of at least 1, not 0"),
        ("[slice.a]\nweight = 1\nmax_tokens = 5\noutput_tokens = 5", "give one of them"),
        ("[slice.a]\nweight = 1\ntemperature = -1", "slice.a.temperature"),
        ("[slice.a]\nweight = 1\ntop_p = 0", "slice.a.top_p: a number above 0"),
        ("[slice.a]\nweight = 1\nstop = []", "slice.a.stop"),
        ("[slice.a]\nweight = 1\nextra = {n = 2}", "slice.a.extra.n"),
        ("[slice.'']\nweight = 1", "its name"),
        ("[slice.a", "not TOML"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mix.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_mix(str(path), SourceSpec(max_tokens=9))
    assert str(path) in str(error.value)
    assert says in str(error.value)


def test_a_value_that_is_only_found_out_when_loading_names_the_slice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mix\.toml: slice\.a: --input-tokens 'many'"):
        mix(tmp_path, "[slice.a]\nweight = 1\ninput_tokens = 'many'\n")
    with pytest.raises(UsageError, match=r"mix\.toml: slice\.a: .*none\.jsonl: No such file"):
        mix(tmp_path, "[slice.a]\nweight = 1\nprompts = 'none.jsonl'\n")


def test_bytes_that_are_no_utf8_and_a_missing_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mix.toml"
    path.write_bytes(b"[slice.\xff]")
    with pytest.raises(UsageError, match="not TOML"):
        read_mix(str(path), SourceSpec(max_tokens=9))
    with pytest.raises(UsageError, match="No such file"):
        read_mix(str(tmp_path / "none.toml"), SourceSpec(max_tokens=9))
