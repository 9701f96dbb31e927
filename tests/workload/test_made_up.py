"""Made-up prompts: so many tokens, such prefixes, the same in every process."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile

import pytest

from llm_locust.records import UsageError
from llm_locust.records.run import TokenRule, WorkloadSpec
from llm_locust.workload import MadeUpPrompts, fixed, load_workload, workload_of
from llm_locust.workload.shared_prefix import parse_shared_prefix
from llm_locust.workload.text import TextMaker
from llm_locust.workload.words import WORDS

TEMPLATE = TokenRule(source="server", counted_by="test", words=[3, 5, 8, 13, 21], openers=[5], overhead=30)


def made_up(**options: object) -> MadeUpPrompts:
    tokens = options.pop("tokens", TokenRule())
    workload = load_workload(WorkloadSpec(seed=1, tokens=tokens, **{"max_tokens": 9, **options}))  # type: ignore[arg-type]
    assert isinstance(workload, MadeUpPrompts)
    return workload


def alike(one: str, other: str) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one.split(), other.split(), strict=False))))


def test_the_pool_holds_256_different_words() -> None:
    assert len(set(WORDS)) == len(WORDS) == 256
    assert all(word.isascii() and word.islower() for word in WORDS)


@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 75, 76, 77, 140, 141, 8000])
def test_text_has_exactly_as_many_words_as_asked(count: int) -> None:
    assert len(TextMaker(1, TokenRule()).text("a", count).split()) == count


def test_a_longer_text_of_one_seed_begins_with_the_shorter_one() -> None:
    maker = TextMaker(1, TokenRule())
    whole = maker.text("a", 1000)
    assert all(whole.startswith(maker.text("a", count)) for count in (1, 5, 12, 13, 76, 77, 500, 999))
    assert alike(whole, maker.text("b", 1000)) < 3


def test_without_a_tokenizer_a_word_is_a_token() -> None:
    prompt = made_up(input_tokens="512").prompt(7)
    assert len(prompt.text.split()) == prompt.input_tokens == 512
    assert prompt.max_tokens == 9


def test_with_one_the_template_is_part_of_the_length_and_only_one_token_words_are_taken() -> None:
    prompt = made_up(input_tokens="512", tokens=TEMPLATE).prompt(7)
    words = prompt.text.split()
    assert len(words) == 482
    assert prompt.input_tokens == 512
    assert words[0] == WORDS[5]
    assert set(words) == {WORDS[place] for place in TEMPLATE.words}


def test_a_prompt_shorter_than_its_template_still_says_something() -> None:
    assert len(made_up(input_tokens="10", tokens=TEMPLATE).prompt(0).text.split()) == 1


def test_lengths_are_drawn_by_index_and_output_lengths_apart_from_them() -> None:
    workload = made_up(input_tokens="uniform:low=1,high=100", output_tokens="uniform:low=1,high=100")
    lengths = [(prompt.input_tokens, prompt.max_tokens) for prompt in map(workload.prompt, range(400))]
    assert len({asked for asked, _ in lengths}) > 90
    assert len({limit for _, limit in lengths}) > 90
    assert sum(asked == limit for asked, limit in lengths) < 20
    assert lengths[::-1] == [(p.input_tokens, p.max_tokens) for p in map(workload.prompt, reversed(range(400)))]


def test_prompts_share_the_part_that_was_asked_for_within_their_group_and_nothing_across() -> None:
    workload = made_up(input_tokens="200", shared_prefix="share=0.9,groups=2")
    prompts = [workload.prompt(index) for index in range(40)]
    assert {prompt.prefix_group for prompt in prompts} == {"g0", "g1"}
    for one in prompts[:10]:
        for other in prompts[10:]:
            shared = alike(one.text, other.text)
            if one.prefix_group == other.prefix_group:
                assert 180 <= shared < 184  # a word or two may be alike by chance
            else:
                assert shared < 4


def test_the_template_ahead_of_a_text_counts_into_the_shared_part() -> None:
    workload = made_up(
        input_tokens="200",
        shared_prefix="share=0.9",
        tokens=TokenRule(source="server", words=list(range(256)), openers=[0], overhead=30, ahead=24),
    )
    assert len(workload.prompt(0).text.split()) == 170
    assert 156 <= alike(workload.prompt(0).text, workload.prompt(1).text) < 160


@pytest.mark.parametrize(("share", "least", "most"), [("0", 0, 3), ("1", 200, 200)])
def test_nothing_or_all_of_a_prompt_may_be_shared(share: str, least: int, most: int) -> None:
    workload = made_up(input_tokens="200", shared_prefix=f"share={share}")
    assert least <= alike(workload.prompt(0).text, workload.prompt(1).text) <= most
    assert len(workload.prompt(0).text.split()) == 200


def test_prompts_of_different_lengths_share_what_the_shorter_one_shares() -> None:
    workload = made_up(input_tokens="uniform:low=50,high=400", shared_prefix="share=0.5")
    one, other = workload.prompt(0), workload.prompt(1)
    shorter = min(one.input_tokens or 0, other.input_tokens or 0)
    assert round(shorter / 2) <= alike(one.text, other.text) < round(shorter / 2) + 4


def test_groups_are_taken_by_zipf() -> None:
    prefix = parse_shared_prefix("share=0.5,groups=3,zipf=1")
    # 1 : 1/2 : 1/3 is 6 : 3 : 2 of 11.
    taken = Counter(prefix.group((place + 0.5) / 1100) for place in range(1100))
    assert taken == {0: 600, 1: 300, 2: 200}
    alike_ = parse_shared_prefix("share=0.5,groups=4")
    assert Counter(alike_.group((place + 0.5) / 400) for place in range(400)) == {0: 100, 1: 100, 2: 100, 3: 100}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("groups=4", "share is missing"),
        ("share=1.1", "from 0 to 1"),
        ("share=0.5,groups=0", "groups=0"),
        ("share=0.5,groups=1.5", "groups=1.5"),
        ("share=0.5,zipf=-1", "zipf=-1"),
        ("share=0.5,size=3", "'size=3' is none of share, groups, zipf"),
    ],
)
def test_a_shared_prefix_that_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match="--shared-prefix") as error:
        parse_shared_prefix(text)
    assert says in str(error.value)


def test_every_prompt_is_another_whatever_the_stage_or_round() -> None:
    workload = made_up(input_tokens="64")
    numbers = [*range(1000), *range(1_000_000, 1_001_000), -1]
    assert len({workload.prompt(number).sha256 for number in numbers}) == 2001


def test_workers_agree_or_say_that_they_do_not() -> None:
    spec = WorkloadSpec(
        seed=1, max_tokens=9, input_tokens="normal:mean=60,sd=9", shared_prefix="share=0.5", tokens=TEMPLATE
    )
    agreed = fixed(spec, load_workload(spec))
    assert workload_of(agreed).prompt(3) == load_workload(spec).prompt(3)
    with pytest.raises(UsageError, match="not the same here as on the master"):
        workload_of(fixed(agreed, load_workload(WorkloadSpec(seed=2, max_tokens=9, input_tokens="60"))))


def test_made_up_text_is_synthetic_and_says_how_it_was_counted() -> None:
    facts = made_up(input_tokens="64", shared_prefix="share=0.25").facts
    assert (facts.kind, facts.prompts, facts.shared_prefix_share) == ("synthetic", None, 0.25)
    assert facts.tokens_counted_by is not None
    assert facts.tokens_counted_by.startswith("estimated")
    assert "input=64" in facts.source


def test_body_fields_and_least_output_are_each_prompts_own() -> None:
    workload = made_up(
        input_tokens="20", output_tokens="uniform:low=3,high=9", min_tokens=-1, extra={"temperature": 0.5}
    )
    for prompt in map(workload.prompt, range(20)):
        assert prompt.extra == {"temperature": 0.5, "min_tokens": prompt.max_tokens}
    assert made_up(input_tokens="20", min_tokens=50).prompt(0).extra == {"min_tokens": 9}  # never more than the limit


def test_what_is_asked_of_the_reply_is_part_of_the_digest() -> None:
    digests = {
        made_up(input_tokens="20").prompt(0).sha256,
        made_up(input_tokens="20", max_tokens=8).prompt(0).sha256,
        made_up(input_tokens="20", extra={"temperature": 1.0}).prompt(0).sha256,
    }
    assert len(digests) == 3
