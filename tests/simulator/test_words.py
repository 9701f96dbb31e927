"""The token rule, the faults' grammar and the options: what a user writes, and what is made of it."""

from __future__ import annotations

import re

import pytest

from llm_locust.records import UsageError
from llm_locust.simulator.faults import Fault, parse_fault, parse_fault_mix
from llm_locust.simulator.options import Options
from llm_locust.simulator.process import arguments
from llm_locust.simulator.tokens import WORDS, reply_words, tokenize, tokenize_chat


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("  \n", 0), ("hello", 1), ("Hello, world!", 4), ("it's 5.5", 6), ("naïve été", 2), ("\ud800", 1)],
)
def test_a_token_is_a_run_of_word_characters_or_one_other_character(text: str, count: int) -> None:
    assert len(tokenize(text)) == count


def test_equal_words_have_equal_ids_in_every_process() -> None:
    assert tokenize("a b a") == [0xE8B7BE43, 0x71BEEFF9, 0xE8B7BE43]  # CRC-32 of "a" and "b"


def test_a_chat_adds_two_tokens_per_message_and_one_for_the_reply() -> None:
    messages = [("system", "Be brief."), ("user", "hi")]
    assert len(tokenize_chat(messages)) == 3 + 1 + 2 * 2 + 1
    assert len(tokenize_chat(messages, reply_marker=False)) == 3 + 1 + 2 * 2


def test_a_reply_sent_back_continues_the_token_prefix_of_its_turn() -> None:
    first = tokenize_chat([("user", "hi")])
    reply = " ".join(reply_words(0, first, 5))
    second = tokenize_chat([("user", "hi"), ("assistant", reply), ("user", "more")])
    assert second[: len(first) + 5] == first + tokenize(reply)


def test_every_word_is_one_token_of_its_own() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert all(re.fullmatch("[a-z]+", word) for word in WORDS)


def test_a_reply_depends_on_seed_and_prompt_alone() -> None:
    assert reply_words(1, [5, 6], 8) == reply_words(1, [5, 6], 8)
    assert reply_words(1, [5, 6], 8) != reply_words(2, [5, 6], 8)
    assert reply_words(1, [5, 6], 8) != reply_words(1, [5, 7], 8)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("status=429", Fault("status", 429)),
        ("status=500-oom", Fault("status", 500, out_of_memory=True)),
        ("stream-error", Fault("stream-error", 0)),
        ("stream-error:2", Fault("stream-error", 2)),
        ("cut:3", Fault("cut", 3)),
        ("slow-usage:250", Fault("slow-usage", 250)),
        (" html ", Fault("html")),
    ],
)
def test_faults_are_read(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault
    assert parse_fault(str(fault)) == fault


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bang",
        "status=200",
        "status=600",
        "status=x",
        "status=500-disk",
        "status=500-",
        "cut:-1",
        "cut:x",
        "html:2",
        "cut:",
    ],
)
def test_what_is_no_fault_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="stream-error:N"):
        parse_fault(text)


def test_shares_are_met_and_the_same_for_the_same_seed() -> None:
    mix = parse_fault_mix(["status=500:0.25", "cut:2:0.5"], seed=3)
    dealt = [mix.for_request(number) for number in range(4000)]
    assert dealt == [parse_fault_mix(["status=500:0.25", "cut:2:0.5"], seed=3).for_request(n) for n in range(4000)]
    # Four standard deviations of a binomial count.
    assert abs(dealt.count(Fault("status", 500)) - 1000) < 4 * (4000 * 0.25 * 0.75) ** 0.5
    assert abs(dealt.count(Fault("cut", 2)) - 2000) < 4 * (4000 * 0.5 * 0.5) ** 0.5


def test_a_share_of_one_meets_everybody_and_no_share_nobody() -> None:
    assert {parse_fault_mix(["html:1"], 0).for_request(n) for n in range(50)} == {Fault("html")}
    assert {parse_fault_mix([], 0).for_request(n) for n in range(50)} == {None}


@pytest.mark.parametrize("texts", [["html"], ["html:0"], ["html:1.5"], ["html:x"], ["cut:2"], ["html:nan"]])
def test_a_fault_without_a_share_is_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="share"):
        parse_fault_mix(texts, 0)


def test_shares_above_all_requests_are_refused() -> None:
    with pytest.raises(UsageError, match=r"add up to 1\.1"):
        parse_fault_mix(["html:0.6", "cut:0.5"], 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"slots": 0}, "--slots 0 is out of range"),
        ({"decode_ms": float("nan")}, "--decode-ms nan"),
        ({"prefill_tps": float("inf")}, "--prefill-tps inf"),
        ({"port": 70_000}, "--port 70000"),
        ({"queue_limit": -1}, "--queue-limit -1"),
        ({"kv_blocks": 511}, "at least 512 blocks"),
        ({"model": ""}, "--model is empty"),
        ({"fault": ("bang:0.5",)}, "no fault is written 'bang'"),
        ({"api_key_env": "LLM_LOCUST_TEST_UNSET"}, "LLM_LOCUST_TEST_UNSET: that environment variable is not set"),
    ],
)
def test_settings_out_of_range_are_refused_by_the_name_of_their_option(settings: dict, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        Options(**settings)


def test_the_default_kv_cache_lets_every_slot_hold_a_full_context() -> None:
    config = Options(slots=3, max_model_len=100, block_size=16).engine_config()
    assert config.kv_blocks == 3 * 7


def test_options_become_arguments() -> None:
    options = {"slots": 2, "fault": ["a:1", "b:1"], "prefix_caching": True, "log": None, "queue_limit": 0}
    assert arguments(options) == [
        "--slots",
        "2",
        "--fault",
        "a:1",
        "--fault",
        "b:1",
        "--prefix-caching",
        "--queue-limit",
        "0",
    ]
    assert arguments({"prefix_caching": False}) == ["--no-prefix-caching"]
