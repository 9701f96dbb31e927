"""Runs against Ollama's own API: both endpoints, options, and cold requests told from warm ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_locust.simulator.process import Running
from tests.e2e.conftest import LADDER, ROOT, Locust, truth

pytestmark = pytest.mark.process

CHAT = f"{ROOT / 'locustfiles' / 'ollama_chat.py'}"
GENERATE = f"{ROOT / 'locustfiles' / 'ollama_generate.py'}"
STAGE = ["--warmup-time", "0", "--cooldown", "0", "--max-tokens", "8", "--deadline", "10", "--arrivals", "constant"]
Simulator = Callable[..., Running]


def test_chat_and_generate_share_a_ladder_and_the_request_before_load_pays_for_the_load(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=5, load_seconds=1)
    run = locust.run(
        "--host", server.base_url, "--rates", "6,12", "--stage-time", "2", *STAGE, files=f"{CHAT},{GENERATE},{LADDER}"
    )
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    rows, log = run.rows().set_index("request_id"), truth(server).set_index("request_id")
    assert len(rows) == 12 + 24
    assert set(rows["user"]) == {"ChatUser", "GenerateUser"}
    assert set(rows["outcome"]) == {"ok"}
    assert set(rows["finish_reason"]) == {"length"}
    assert set(rows["output_tokens_source"]) == {"usage"}
    both = rows.join(log, suffixes=("", "_true"))
    assert (both["output_tokens"] == both["output_tokens_true"]).all()
    assert (both["prompt_tokens"] == both["prompt_tokens_true"]).all()
    assert (rows["eval_duration_ns"] > 0).all()
    assert set(rows["load_duration_ns"]) == {0}
    assert set(rows["cold"]) == {0}


def test_options_of_the_command_line_leave_the_output_limit_in_a_reply_without_a_stream(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=8, decode_ms=5, output_tokens=40)
    run = locust.run(
        "--host", server.base_url, "--rates", "6", "--stage-time", "2", *STAGE, "--no-stream",
        "--extra-body", '{"options": {"num_ctx": 4096}, "keep_alive": "30m"}', files=f"{GENERATE},{LADDER}",
    )  # fmt: skip
    run.assert_ran()
    rows = run.rows()
    assert set(rows["outcome"]) == {"ok"}
    assert set(rows["output_tokens"]) == {8}
    assert rows["first_output_ns"].isna().all()


def test_an_arrival_after_one_that_evicts_is_cold_and_the_others_are_warm(locust: Locust, simulator: Simulator) -> None:
    """Every third prompt has the model unloaded after it, and so does the one before load (its index is -1)."""
    server = simulator(slots=8, decode_ms=2, load_seconds=0.3)
    own = locust.home / "own.py"
    own.write_text(
        """
from llm_locust import OllamaChatUser

class EveryThirdEvicts(OllamaChatUser):
    def build_request(self, prompt, request_id, evict_after=False):
        return super().build_request(prompt, request_id, evict_after=prompt.index % 3 == 2)
"""
    )
    run = locust.run("--host", server.base_url, "--rates", "2", "--stage-time", "4", *STAGE, files=f"{own},{LADDER}")
    run.assert_ran()
    rows = run.rows().sort_values("index")
    assert set(rows["outcome"]) == {"ok"}
    assert rows["cold"].tolist() == [1, 0, 0, 1, 0, 0, 1, 0]
    assert set(rows[rows["cold"] == 1]["load_duration_ns"]) == {300_000_000}
    ttft_ns = rows["first_output_ns"] - rows["sent_ns"]
    assert ttft_ns[rows["cold"] == 1].min() >= 300_000_000
