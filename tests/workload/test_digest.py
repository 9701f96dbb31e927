"""Digests: of requests, and of a workload as its requests in the order of their index."""

from __future__ import annotations

import hashlib

import pytest

from llm_locust.records import UsageError
from llm_locust.workload import Prompt
from llm_locust.workload.digest import check_same_prompts, workload_digest


def test_a_requests_digest_is_of_its_content_limit_and_further_fields() -> None:
    plain = Prompt(index=0, prompt="hi", max_tokens=5)
    assert plain.sha256 == hashlib.sha256(b'["hi",5]').hexdigest()
    chat = Prompt(index=0, messages=[{"role": "user", "content": "hi"}], max_tokens=5, extra={"stop": ["x"], "seed": 1})
    whole = b'[[{"content":"hi","role":"user"}],5,{"seed":1,"stop":["x"]}]'  # keys in the order of the alphabet
    assert chat.sha256 == hashlib.sha256(whole).hexdigest()


def test_a_workloads_digest_has_a_line_for_each_request_in_the_order_of_the_index() -> None:
    expected = hashlib.sha256(b"1 aa\n2 bb\n10 cc\n").hexdigest()
    assert workload_digest([(1, "aa"), (2, "bb"), (10, "cc")]) == expected
    # Two workers' rows, one after the other, and one that was shipped twice.
    assert workload_digest([(2, "bb"), (10, "cc"), (1, "aa"), (10, "cc")]) == expected
    assert workload_digest([]) == hashlib.sha256(b"").hexdigest()


def test_one_index_with_two_digests_has_none() -> None:
    with pytest.raises(ValueError, match="request 1 has two digests"):
        workload_digest([(1, "aa"), (1, "bb")])


def test_workers_that_sent_different_things_under_one_number_stop_the_merge() -> None:
    check_same_prompts([(0, None, "aa"), (1, None, "bb"), (0, None, "aa"), (0, 2, "cc")])
    with pytest.raises(UsageError, match="prompt 0 was sent with two different contents"):
        check_same_prompts([(0, None, "aa"), (1, None, "bb"), (0, None, "dd")])
