"""Calibration: with any tokenizer that counts words apart, text has exactly the tokens that were asked for."""

from __future__ import annotations

import pytest

from llm_locust.records.run import WorkloadSpec
from llm_locust.workload import load_workload
from llm_locust.workload.calibration import NotAdditive, calibrate
from llm_locust.workload.words import WORDS

LONG = {"about", "climate", "library", "world"}
"""Two tokens each, wherever they stand."""
AT_FRONT = {"about", "industry", "read"}
"""Two tokens more at the beginning of a message."""


def tokens(text: str) -> list[str]:
    """A template of 24 tokens ahead of the text and 6 after it."""
    words = text.split()
    halves = [half for word in words for half in ([word, "..."] if word in LONG else [word])]
    return ["<a>"] * 24 + (["<"] * 2 if words[0] in AT_FRONT else []) + halves + ["<z>"] * 6


def test_words_of_several_tokens_are_found_and_left_out() -> None:
    rule = calibrate(tokens, source="server", counted_by="test")
    assert {WORDS[place] for place in range(256)} - {WORDS[place] for place in rule.words} == LONG
    assert (rule.overhead, rule.ahead) == (30, 24)
    assert rule.openers
    assert not AT_FRONT & {WORDS[place] for place in rule.openers}


@pytest.mark.parametrize("asked", [40, 512, 8000])
def test_a_prompt_is_then_as_long_as_was_asked_by_the_tokenizers_own_count(asked: int) -> None:
    rule = calibrate(tokens, source="server", counted_by="test")
    workload = load_workload(WorkloadSpec(seed=1, max_tokens=9, input_tokens=str(asked), tokens=rule))
    assert [len(tokens(workload.prompt(index).text)) for index in range(20)] == [asked] * 20


def test_it_asks_some_dozens_of_times_and_no_more() -> None:
    asked: list[str] = []

    def counting(text: str) -> list[str]:
        asked.append(text)
        return text.split()

    calibrate(counting, source="server", counted_by="test")
    assert len(asked) == 12 + 16 + 1 + 2  # openers, groups of sixteen, the proof, the template


def test_a_tokenizer_that_knows_none_of_the_words_gives_no_rule() -> None:
    with pytest.raises(NotAdditive, match="only 0 of 256"):
        calibrate(list, source="server", counted_by="characters")


def test_a_tokenizer_that_merges_words_in_long_texts_gives_no_rule() -> None:
    with pytest.raises(NotAdditive, match="600 words of one token each came to 590 tokens"):
        calibrate(lambda text: text.split()[:590], source="server", counted_by="merging")
