"""Basic credentials, there and back."""

from __future__ import annotations

import pytest

from llm_locust.streaming.basic import decode_basic, encode_basic


def test_the_example_of_the_standard() -> None:
    assert encode_basic("Aladdin:open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert decode_basic("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ== ") == "Aladdin:open sesame"


def test_credentials_are_utf_8() -> None:
    assert encode_basic("test:123£") == "Basic dGVzdDoxMjPCow=="
    assert decode_basic("Basic dGVzdDoxMjPCow==") == "test:123£"


@pytest.mark.parametrize("value", ["Bearer QQ==", "Basic Q", "Basic é", "", "Basic Q*=="])
def test_what_says_no_credentials(value: str) -> None:
    assert decode_basic(value) is None
