"""The fuzz target holds for its own seeds, and for whatever it has found."""

import zlib

import pytest

from tests.fuzz.target import check, seeds

FINDINGS: list[bytes] = []


@pytest.mark.parametrize("data", [*seeds(), *FINDINGS], ids=lambda data: f"{len(data)} bytes {zlib.crc32(data):08x}")
def test_target(data: bytes) -> None:
    for cuts in range(0, 256, 51):
        check(data[:1] + bytes([cuts]) + data[2:])
