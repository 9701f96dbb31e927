"""What is sent, end to end: lengths as asked by the server's own usage, shared prefixes in its cache, the same again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from llm_locust.simulator.process import Running
from llm_locust.workload.digest import workload_digest
from tests.e2e.conftest import CHAT, LADDER, ROOT, Locust, Run, processes, truth

pytestmark = pytest.mark.process

COMPLETIONS = f"{ROOT / 'locustfiles' / 'completions.py'}"
CONCURRENCY = f"{ROOT / 'shapes' / 'concurrency_ladder.py'}"
QUICK = ["--warmup-time", "1", "--cooldown", "0.5", "--deadline", "20"]
SERVER = {"slots": 64, "decode_ms": 1, "prefill_tps": 1_000_000, "batch_slowdown": 0}


def digest(run: Run) -> str:
    rows = run.rows()
    measured = rows[rows["phase"] == "measure"]
    return workload_digest(zip(measured["index"].astype(int), measured["prompt_sha256"], strict=True))


@pytest.mark.parametrize("files", [f"{CHAT},{LADDER}", f"{COMPLETIONS},{LADDER}"], ids=["chat", "completions"])
def test_lengths_asked_for_are_those_of_the_servers_usage(
    locust: Locust, simulator: Callable[..., Running], files: str
) -> None:
    server = simulator(**SERVER)
    run = locust.run(
        "--host", server.base_url, "--rates", "20", "--stage-time", "3", *QUICK,
        "--input-tokens", "uniform:low=100,high=900", "--output-tokens", "uniform:low=2,high=9", "--ignore-eos",
        files=files,
    )  # fmt: skip
    run.assert_ran()
    rows = run.rows()
    assert (rows["prompt_tokens"] == rows["input_tokens_asked"]).all()
    assert (rows["output_tokens"] == rows["max_tokens"]).all()
    assert rows["input_tokens_asked"].nunique() > 30
    assert set(truth(server)["prompt_tokens"]) == set(rows["prompt_tokens"])
    facts = run.manifest.workload
    assert facts.kind == "synthetic"
    assert facts.tokens_counted_by == "the server's /tokenize"
    assert facts.longest_off_share == 0.0
    assert facts.sampling == {"temperature": 0.0, "ignore_eos": True}


def test_hits_rise_with_the_shared_prefix_to_the_block(locust: Locust, simulator: Callable[..., Running]) -> None:
    shares = {}
    for share in ("0", "0.5", "0.9"):
        server = simulator(**SERVER, prefix_caching=True, block_size=16)
        run = locust.run(
            "--host", server.base_url, "--rates", "20", "--stage-time", "3", *QUICK, "--max-tokens", "2",
            "--input-tokens", "512", "--shared-prefix", f"share={share},groups=2", "--reset-prefix-cache",
        )  # fmt: skip
        run.assert_ran()
        assert run.manifest.workload.shared_prefix_share == float(share)
        assert "emptied before every stage" in (run.manifest.workload.cache_state or "")
        rows = run.rows()
        assert rows["prefix_group"].nunique() == 2
        # Warm-up has brought each group's prefix in: every measured request finds its full blocks, and no more.
        server_figures = run.summary.stages[0].server
        assert server_figures is not None
        shares[share] = server_figures.prefix_cache_hit_rate
    assert shares == {"0": 0.0, "0.5": pytest.approx(256 / 512), "0.9": pytest.approx(448 / 512)}


def test_no_stage_or_round_sends_what_another_one_sent(locust: Locust, simulator: Callable[..., Running]) -> None:
    server = simulator(**SERVER)
    run = locust.run(
        "--host", server.base_url, "--concurrency", "2,4", "--repeats", "6", "--rounds", "2", "--warmup-time", "0.5",
        "--max-tokens", "2", "--input-tokens", "20",
        files=f"{CHAT},{CONCURRENCY}",
    )  # fmt: skip
    rows = run.rows()
    assert rows["stage"].nunique() == 4
    assert rows["prompt_sha256"].is_unique


def test_reused_prompts_are_the_same_in_every_stage_and_the_warm_up_has_others(
    locust: Locust, simulator: Callable[..., Running]
) -> None:
    server = simulator(**SERVER)
    run = locust.run(
        "--host", server.base_url, "--rates", "10", "--requests", "20", "--rounds", "2", *QUICK, "--max-tokens", "2",
        "--reuse-prompts",
    )  # fmt: skip
    run.assert_ran()
    rows = run.rows()
    measured = rows[rows["phase"] == "measure"]
    first, second = (set(measured[measured["round"] == number]["prompt_sha256"]) for number in (0, 1))
    assert first == second
    assert len(first) == 20
    assert not first & set(rows[rows["phase"] != "measure"]["prompt_sha256"])
    assert "--reuse-prompts" in (run.manifest.workload.cache_state or "")


def test_the_digest_is_the_same_for_any_number_of_workers_and_for_an_export_sent_again(
    locust: Locust, simulator: Callable[..., Running]
) -> None:
    server = simulator(**SERVER)
    stage = ["--host", server.base_url, "--rates", "15", "--requests", "30", *QUICK]
    made_up = ["--input-tokens", "60", "--output-tokens", "uniform:low=1,high=5", "--shared-prefix", "share=0.5"]
    one = locust.run(*stage, *made_up)
    three = locust.run(*processes(3), *stage, *made_up)
    assert one.manifest.workload.sha256 == three.manifest.workload.sha256
    assert digest(one) == digest(three)
    exported = locust.home / "export.jsonl"
    command(locust, "workload", "export", str(exported), "--count", "200", *made_up, "--host", server.base_url)
    again = locust.run(*stage, "--prompts", str(exported))
    assert digest(again) == digest(one)
    assert again.manifest.workload.kind == "synthetic"


def command(locust: Locust, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "llm_locust", *arguments], cwd=locust.home, check=True, timeout=60)


def test_a_mix_is_sent_and_judged_by_slice(locust: Locust, simulator: Callable[..., Running]) -> None:
    server = simulator(**SERVER)
    (locust.home / "docs.jsonl").write_text('{"prompt": "a document to be read"}\n')
    mix = locust.home / "mix.toml"
    mix.write_text(
        "[slice.faq]\nweight = 3\ninput_tokens = 40\nmax_tokens = 3\n"
        "[slice.docs]\nweight = 1\nprompts = 'docs.jsonl'\nmax_tokens = 5\ntemperature = 0.7\n"
    )
    run = locust.run("--host", server.base_url, "--rates", "20", "--stage-time", "3", *QUICK, "--mix", str(mix))
    run.assert_ran()
    rows = run.rows()
    assert set(rows[rows["slice"] == "faq"]["output_tokens"]) == {3}
    assert set(rows[rows["slice"] == "faq"]["prompt_tokens"]) == {40}
    assert set(rows[rows["slice"] == "docs"]["output_tokens"]) == {5}
    assert {part.name for part in run.summary.stages[0].slices} == {"faq", "docs"}
    assert run.manifest.workload.slices == ["faq", "docs"]
    assert run.manifest.workload.sampling == {"temperature": {"any of": [0.0, 0.7]}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--input-tokens", "600"], "600 tokens of input do not fit into the server's context of 512 tokens"),
        (["--prompts", "long.jsonl"], "long.jsonl:2: 603 tokens of input do not fit"),
        (["--prompts", "empty.jsonl"], "empty.jsonl:1: the prompt is empty"),
        (["--mix", "none.toml"], "none.toml: the weights sum to 0"),
        (["--tokenizer", "nothing.json"], "and no such file"),
    ],
)
def test_what_cannot_be_sent_is_named_before_load(
    locust: Locust, simulator: Callable[..., Running], arguments: list[str], says: str
) -> None:
    server = simulator(max_model_len=512)
    (locust.home / "long.jsonl").write_text(f'{{"prompt": "short"}}\n{{"prompt": "{"word " * 600}"}}\n')
    (locust.home / "empty.jsonl").write_text('{"prompt": ""}\n')
    (locust.home / "none.toml").write_text("[slice.a]\nweight = 0\n")
    run = locust.run("--host", server.base_url, "--rates", "5", "--stage-time", "1", "--max-tokens", "4", *arguments)
    assert run.code == 2
    assert says in run.stderr
    assert not run.folder.manifest.exists()
    assert len(truth(server)) == 0
