"""Which arrivals leave before their answer is there: a pure function of seed and index, the same on any worker."""

from __future__ import annotations

import hashlib

from llm_locust.records.leaving import Leaving

_SPAN = 1 << 64


def leaves(plan: Leaving, seed: int, index: int) -> bool:
    """Whether the client of this arrival leaves.

    Each is drawn by itself, so the share holds on average; the arrivals that leave for a share leave for a greater one too.
    """
    drawn = hashlib.blake2b(f"{seed}/leaving/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn) < plan.share * _SPAN
