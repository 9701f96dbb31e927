"""``llm-locust size`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from llm_locust.cli import llm_locust
from llm_locust.records import UsageError
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder

MEMORY = (
    "--params-b", "7", "--weight-bits", "16", "--layers", "32", "--kv-heads", "8", "--head-dim", "128",
    "--context", "8192", "--gpu-memory-gib", "24",
)  # fmt: skip
REST = (
    "--measured-output-tokens-s", "600", "--per-request-tokens-s", "30", "--arrival-rps", "2",
    "--mean-output-tokens", "200",
)  # fmt: skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(llm_locust, ["size", *map(str, arguments)], env={"COLUMNS": "200"})


def told(*arguments: object, status: int = 0) -> str:
    found = run(*arguments)
    assert found.exit_code == status, (found.output, found.exception)
    return " ".join(found.output.split())


def data(*arguments: object, status: int = 0) -> dict[str, Any]:
    found = run(*arguments, "--json")
    assert found.exit_code == status, (found.output, found.exception)
    decoded: dict[str, Any] = json.loads(found.stdout)
    return decoded


def refused(*arguments: object) -> str:
    found = run(*arguments)
    assert isinstance(found.exception, UsageError), found.output
    return str(found.exception)


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """1 req/s passed; at 2 half of the requests were too late."""
    builder = RunBuilder(tmp_path, slo={"ttft": 500})
    builder.stage(rate=1.0).requests(60, ttft=300)
    slow = builder.stage(rate=2.0)
    slow.requests(60, ttft=300)
    slow.requests(60, ttft=700, first=0.01)
    folder: Path = builder.write()
    merge_run(folder)
    return folder


def test_the_worked_example() -> None:
    text = told(*MEMORY, "--reserve-gib", 2, *REST)
    assert text.startswith("Recommended 8 requests at once; what binds: memory")
    assert "Memory weights 13.04 GiB, KV cache 1.0 GiB a request, 8.961 GiB free for it" in text
    assert "By memory 8: (24 - 13.04 weights - 2 reserve) / 1.0 GiB a request, rounded down" in text
    assert "By compute 20: 600 output tokens a second / 30 each, rounded down" in text
    assert "Demand 400 output tokens a second, 577.5 with headroom (x 1.444); supply 600" in text
    assert "Not checked tail latency: give --run" in text
    assert "25 % for peaks, 5 % for retries, 10 % for the length tail" in text
    assert text.endswith("This sifts what cannot work; a measurement decides.")


def test_json() -> None:
    found = data(*MEMORY, "--reserve-gib", 2, *REST)
    assert (found["recommended_concurrency"], found["binding"]) == (8, ["memory"])
    assert found["memory"]["weights_gib"] == 7e9 * 2 / 2**30
    assert found["demand"]["output_tokens_s"] == 400
    assert {bound["name"]: bound["concurrency"] for bound in found["bounds"]} == {
        "memory": 8, "compute": 20, "tail_latency": None, "error_rate": None,
    }  # fmt: skip


def test_a_cache_of_8_bits_holds_twice_as_many() -> None:
    # (24 - 13.0385 - 2) / 0.5 = 17.9
    assert data(*MEMORY, "--reserve-gib", 2, *REST, "--kv-dtype", "fp8")["recommended_concurrency"] == 17


def test_every_missing_number_is_named_by_its_option() -> None:
    assert refused().startswith(
        "numbers are missing: give --params-b, --weight-bits, --context, --gpu-memory-gib, --reserve-gib, --layers, "
        "--kv-heads, --head-dim"
    )
    assert refused(*MEMORY) == "a number is missing: give --reserve-gib"


def test_what_is_not_needed_for_memory_is_named_as_not_checked() -> None:
    text = told(*MEMORY, "--reserve-gib", 2)
    assert "compute: give --measured-output-tokens-s (or a --run with a stage that passed) and --per-request" in text
    assert "demand: give --arrival-rps and --mean-output-tokens" in text


def test_0_is_an_answer_with_a_warning_and_status_0() -> None:
    text = told(*MEMORY, "--reserve-gib", 12, *REST)
    assert text.startswith(
        "Recommended 0 requests at once; what binds: memory Warning weights and reserve alone take 25.04 of 24 GiB: "
        "the model does not fit on this GPU"
    )


def test_headroom_is_chosen() -> None:
    none = ("--headroom-peaks", 0, "--headroom-retries", 0, "--headroom-length-tail", 0.5)
    found = data(*MEMORY, "--reserve-gib", 2, *REST, *none)["demand"]
    assert (found["with_headroom_tokens_s"], found["covered"]) == (600.0, True)


def test_a_measured_run_bounds_latency_and_errors_and_gives_the_supply(judged: Path) -> None:
    found = data(*MEMORY, "--reserve-gib", 2, "--per-request-tokens-s", 1, "--arrival-rps", 1, "--run", judged)
    by_name = {bound["name"]: bound for bound in found["bounds"]}
    assert by_name["tail_latency"]["text"].startswith("1 req/s held it: ")
    assert by_name["tail_latency"]["text"].endswith("; 2 req/s did not")
    assert by_name["error_rate"]["text"].endswith("; nothing above was tested")
    assert by_name["tail_latency"]["concurrency"] is not None
    assert by_name["compute"]["concurrency"] is not None
    assert "the measured output is that of --run, 1 req/s" in found["assumptions"]
    assert any("arrivals with peaks and retries, 1.312 a second, are more than the 1" in w for w in found["warnings"])


def test_a_folder_that_is_not_merged_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").touch()
    assert "run llm-locust merge" in refused(*MEMORY, "--reserve-gib", 2, "--run", tmp_path)


def test_what_is_no_run_folder_is_said_before_missing_options(tmp_path: Path) -> None:
    assert "is not a run folder" in refused("--run", tmp_path)


def test_a_model_without_a_formula_is_sized_by_the_rest_or_not_at_all(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "deepseek_v3", "kv_lora_rank": 512}))
    given = ("--params-b", 671, "--weight-bits", 8, "--config", config, "--context", 8192, "--gpu-memory-gib", 141,
             "--reserve-gib", 10, "--tp", 8)  # fmt: skip
    found = data(*given, *REST)
    assert (found["recommended_concurrency"], found["binding"]) == (20, ["compute"])
    text = told(*given, status=4)
    assert text.startswith("Recommended nothing: no bound is known")
    assert "memory: no estimate of the KV cache: MLA (kv_lora_rank = 512)" in text


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "abc"])
def test_numbers_out_of_range_are_wrong_usage(value: str) -> None:
    found = run(*MEMORY, "--reserve-gib", value)
    assert found.exit_code == 2
    assert "--reserve-gib" in found.output
