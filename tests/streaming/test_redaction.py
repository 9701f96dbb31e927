"""Error texts: one line, bounded, without secrets."""

from __future__ import annotations

import pytest

from llm_locust.streaming.failed_reply import names_memory_exhaustion
from llm_locust.streaming.redaction import MAX_ERROR_CHARS, mask, safe_line, secrets_in


def test_the_secrets_of_the_headers_are_known() -> None:
    headers = [
        ("Authorization", "Bearer abcd-efgh"),
        ("X-Api-Key", "letmein"),
        ("api-key", "azure"),
        ("Cookie", "abc"),
        ("X-Request-Id", "visible"),
    ]
    assert secrets_in(headers) == ("Bearer abcd-efgh", "abcd-efgh", "letmein", "azure")


def test_basic_credentials_are_secret_as_they_are_sent_and_as_they_are_meant() -> None:
    secrets = secrets_in([("Authorization", "Basic bWU6bGV0IG1lIGlu")])
    assert secrets == ("Basic bWU6bGV0IG1lIGlu", "bWU6bGV0IG1lIGlu", "me:let me in", "let me in")
    echoed = "no entry for <bWU6bGV0IG1lIGlu>, that is me:let me in (me, let%20me%20in)"
    assert mask(echoed, secrets) == "no entry for <***>, that is *** (me, ***)"


@pytest.mark.parametrize("value", ["Basic not*base64", "Basic", "basic //79", "Bearer bWU6bGV0IG1lIGlu"])
def test_what_is_no_basic_credentials_is_a_secret_as_it_stands(value: str) -> None:
    assert value in secrets_in([("Authorization", value)])


def test_an_error_text_is_one_line_of_bounded_length() -> None:
    assert safe_line("a\nb" + "x" * 400) == "a b" + "x" * (MAX_ERROR_CHARS - 6) + "..."


def test_a_known_secret_is_masked_wherever_it_is_echoed() -> None:
    assert mask("key p@ss word, again p%40ss%20word", ["p@ss word"]) == "key ***, again ***"


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("Authorization: Bearer abc.def.123", "Authorization: Bearer ***"),
        ("Incorrect API key provided: sk-proj-abcdef123456.", "Incorrect API key provided: ***."),
        ('{"api_key": "hunter2"}', '{"api_key": "***"}'),
        ("token hf_abcdefghij", "token ***"),
        ("http://user:secret@host/v1", "http://***@host/v1"),
        ("missing bearer authentication in header", "missing bearer authentication in header"),
        ("the basic plan is used up", "the basic plan is used up"),
    ],
)
def test_what_has_the_shape_of_a_secret_is_masked(text: str, due: str) -> None:
    assert mask(text) == due


def test_a_cut_leaves_no_half_of_a_secret() -> None:
    assert "abcdefgh" not in safe_line("x" * 285 + " abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmnopqrstuvwxyz"])


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "torch.OutOfMemoryError",
        "vk::DeviceMemory: ErrorOutOfDeviceMemory",
        "HIP error: out of memory",
        "std::bad_alloc",
        "worker was OOM killed",
        "ggml: failed to allocate buffer of size 123",
        "model requires more system memory (5.6 GiB) than is available (3.1 GiB)",
        "not enough GPU memory",
    ],
)
def test_memory_exhaustion_has_many_names(text: str) -> None:
    assert names_memory_exhaustion(text)


@pytest.mark.parametrize(
    "text",
    [
        "request (8193 tokens) exceeds the available context size",
        "no room in the queue",
        "memory of the conversation",
        "zoom",
    ],
)
def test_other_errors_are_not_memory_exhaustion(text: str) -> None:
    assert not names_memory_exhaustion(text)
