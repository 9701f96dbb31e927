"""The options that say what is sent: text in, a specification out, and contradictions refused before load."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from llm_locust.plugin.options import RunOptions, read_options
from llm_locust.plugin.stage_options import REUSED
from llm_locust.plugin.workload_setup import cache_state
from llm_locust.records import UsageError, WorkloadFacts
from llm_locust.records.run import WorkloadSpec


def options(**given: object) -> RunOptions:
    return read_options(Namespace(**given))


def test_nothing_given_is_the_built_in_workload() -> None:
    assert options().workload == WorkloadSpec(seed=1, max_tokens=128)
    assert options().tokenizer == "auto"


def test_every_option_finds_its_place_in_the_specification() -> None:
    spec = options(
        input_tokens="512", output_tokens="uniform:low=5,high=9", shared_prefix="share=0.9", sessions="turns=2",
        temperature="0.5", top_p="0.9", sampling_seed="7", stop=["END", "."], ignore_eos=True, min_tokens="3", seed="4",
    ).workload  # fmt: skip
    assert (spec.input_tokens, spec.output_tokens, spec.shared_prefix, spec.sessions) == (
        "512",
        "uniform:low=5,high=9",
        "share=0.9",
        "turns=2",
    )
    assert spec.extra == {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END", "."], "ignore_eos": True}
    assert (spec.min_tokens, spec.seed) == (3, 4)
    assert options(min_tokens="limit").workload.min_tokens == -1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"temperature": "hot"}, "--temperature hot: a number of at least 0"),
        ({"temperature": "-1"}, "--temperature -1"),
        ({"top_p": "1.5"}, "--top-p 1.5: a number above 0 and at most 1"),
        ({"sampling_seed": "x"}, "--sampling-seed 'x'"),
        ({"min_tokens": "most"}, "--min-tokens 'most'"),
        ({"workload_kind": "real"}, "--workload-kind 'real': one of synthetic, representative"),
        ({"workload_kind": "representative"}, "made-up prompts are not"),
        ({"output_tokens": "5", "max_tokens": "6"}, "give one of them"),
        ({"tokenizer": "none.json"}, "--tokenizer none.json: neither auto, server nor estimate, and no such file"),
        ({"mix": "none.toml"}, "none.toml: No such file"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        options(**given)
    assert says in str(error.value)


def test_a_mix_brings_its_own_sources_and_takes_the_rest_from_the_options(tmp_path: Path) -> None:
    path = tmp_path / "mix.toml"
    path.write_text(
        "[slice.a]\nweight = 2\ninput_tokens = 50\n[slice.b]\nweight = 1\ntemperature = 1\nmax_tokens = 7\n"
    )
    spec = options(mix=str(path), temperature="0", max_tokens="64", ignore_eos=True).workload
    a, b = spec.mix
    assert (a.name, a.weight, a.input_tokens, a.max_tokens) == ("a", 2, "50", 64)
    assert a.extra == {"temperature": 0.0, "ignore_eos": True}
    assert (b.input_tokens, b.max_tokens) == (None, 7)
    assert b.extra == {"temperature": 1.0, "ignore_eos": True}
    with pytest.raises(UsageError, match="--input-tokens is for one source"):
        options(mix=str(path), input_tokens="5")


def test_prompts_are_each_stages_own_unless_they_are_to_be_reused() -> None:
    assert options().open_stage(1.0).prompts_from is None
    reusing = options(reuse_prompts=True)
    assert reusing.open_stage(1.0).prompts_from == REUSED
    assert reusing.open_stage(1.0, prompts_from=5).prompts_from == 5
    assert reusing.closed_stage(2).prompts_from == REUSED


def test_the_state_of_the_cache_is_said() -> None:
    endless = WorkloadFacts(name="n", kind="synthetic", source="s", sha256="")
    finite = WorkloadFacts(name="n", kind="synthetic", source="s", sha256="", prompts=1200)
    assert cache_state(endless, reused=False, shared=False, reset=True).startswith(
        "every stage and round has prompts of its own; prefix cache emptied before every stage"
    )
    assert cache_state(finite, reused=False, shared=False, reset=False).startswith(
        "1,200 prompts, again from the first"
    )
    assert "the same prompts (--reuse-prompts)" in cache_state(finite, reused=True, shared=True, reset=False)
    assert cache_state(endless, reused=False, shared=True, reset=False).startswith(
        "stages that are compared measure with the same prompts"
    )
