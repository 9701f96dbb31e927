"""What was really sent: one content under one number, the digest over a stage, lengths as asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from llm_locust.analysis.prompts_sent import length_figures, refuse_mixed_prompts, requests_sha256
from llm_locust.records import UsageError
from llm_locust.workload.digest import workload_digest

ALL = np.ones(3, np.bool_)


def rows(**columns: list[object]) -> pd.DataFrame:
    values: dict[str, object] = {
        "index": pd.array([0, 1, 2], dtype="Int64"),
        "prompt_index": pd.array([0, 1, 0], dtype="Int64"),
        "turn": pd.array([None, None, None], dtype="Int64"),
        "prompt_sha256": ["a", "b", "a"],
        "outcome": ["ok", "ok", "ok"],
        "output_tokens_source": ["usage", "usage", "usage"],
        "input_tokens_asked": pd.array([100, 200, None], dtype="Int64"),
        "prompt_tokens": pd.array([101, 220, 50], dtype="Int64"),
        **columns,
    }
    return pd.DataFrame(values)


def test_a_prompt_that_is_sent_twice_is_the_same_prompt() -> None:
    refuse_mixed_prompts(rows())


def test_two_contents_under_one_number_stop_the_merge() -> None:
    with pytest.raises(UsageError, match="prompt 0 was sent with two different contents"):
        refuse_mixed_prompts(rows(prompt_sha256=["a", "b", "c"]))


def test_turns_of_one_conversation_share_its_number() -> None:
    refuse_mixed_prompts(rows(turn=[1, 1, 2], prompt_sha256=["a", "b", "c"]))


def test_the_digest_is_that_of_the_workload_whatever_the_order_of_the_rows() -> None:
    due = workload_digest([(0, "a"), (1, "b"), (2, "a")])
    assert requests_sha256(rows(), ALL) == due
    assert requests_sha256(rows().iloc[::-1].reset_index(drop=True), ALL) == due
    assert requests_sha256(rows(), np.array([True, True, False])) == workload_digest([(0, "a"), (1, "b")])


def test_two_stages_that_sent_the_same_requests_have_the_same_digest() -> None:
    later = rows(index=pd.array([40, 42, 45], dtype="Int64"))
    assert requests_sha256(later, ALL) == requests_sha256(rows(), ALL)
    assert requests_sha256(rows(prompt_sha256=["b", "a", "a"]), ALL) != requests_sha256(rows(), ALL)


def test_a_request_of_unknown_content_leaves_no_digest() -> None:
    assert requests_sha256(rows(prompt_sha256=["a", None, "a"]), ALL) is None
    assert requests_sha256(rows(), np.zeros(3, np.bool_)) is None


def test_lengths_are_held_against_the_servers_count_where_both_are_known() -> None:
    found = length_figures(rows(), ALL, "input_tokens_asked", "prompt_tokens")
    assert found is not None
    assert (found.requests, found.asked_mean, found.got_mean) == (2, 150.0, 160.5)
    assert (found.worst_off_share, found.close_share) == (0.1, 0.5)


def test_events_are_no_count_of_the_servers() -> None:
    table = rows(output_tokens_source=["events", "events", "events"])
    assert length_figures(table, ALL, "input_tokens_asked", "prompt_tokens") is None


def test_close_is_within_a_hundredth_of_what_was_asked_for() -> None:
    pairs = [(512, 512), (512, 517), (512, 518), (100, 98), (None, 5), (7, None)]
    table = pd.DataFrame(
        {
            "outcome": ["ok"] * 6,
            "output_tokens_source": ["usage"] * 6,
            "input_tokens_asked": pd.array([asked for asked, _ in pairs], dtype="Int64"),
            "prompt_tokens": pd.array([got for _, got in pairs], dtype="Int64"),
        }
    )
    found = length_figures(table, np.ones(6, np.bool_), "input_tokens_asked", "prompt_tokens")
    assert found is not None
    assert (found.requests, found.asked_mean, found.got_mean) == (4, 409.0, 411.25)  # 1636 / 4, 1645 / 4
    assert (found.worst_off_share, found.close_share) == (0.02, 0.5)  # 2 of 100; 5 of 512 is close, 6 is not
