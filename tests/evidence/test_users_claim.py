"""What counts as stating a number of users, and what does not."""

import pytest

from llm_locust.records.users_claim import claimed_users, names_users


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("it serves 500 users", "500 users"),
        ("up to 1,200 concurrent users", "1,200 concurrent users"),
        ("a 500-user load", "500-user"),
        ("1k users", "1k users"),
        ("users: 40", "users: 40"),
        ("users supported: 12", "users supported: 12"),
        ("hundreds of people", "hundreds of people"),
        ("two thousand daily customers", "two thousand daily customers"),
    ],
)
def test_a_number_of_users_is_found(text: str, claim: str) -> None:
    assert claimed_users(text) == claim


@pytest.mark.parametrize(
    "text",
    [
        "Goodput is not a number of users.",
        "8 requests per user",
        "2 A100, shared with users of the other model",
        "A100 users",
        "8 slots for users",
        "12 measured requests carry user-space receive times, not (or not only) the kernel's.",
        "40 answers were read by people",
        "32 in flight, 500 req/s",
    ],
)
def test_what_states_none_is_left_alone(text: str) -> None:
    assert claimed_users(text) is None


def test_a_field_is_told_by_its_words() -> None:
    assert names_users("concurrent_users")
    assert names_users("users")
    assert names_users("user_count")
    assert not names_users("user_space_share")
    assert not names_users("reused_connections")
