"""A live picture by hand: snapshots as they are given, histograms of the values that are given."""

from __future__ import annotations

from collections.abc import Sequence

from llm_locust.live.buckets import BOUNDS_MS, Buckets, FixedBuckets, GroupBuckets
from llm_locust.live.snapshot import Snapshot
from tests.live.made_up import snapshot


class Picture:
    """What the exporter reads, in the test's hands."""

    def __init__(self, now: Snapshot | None = None, found: Sequence[GroupBuckets] = ()) -> None:
        self.now = now if now is not None else snapshot()
        self.found = list(found)
        self.cost_s: float | None = None

    def snapshot(self, since: float | None = None) -> Snapshot:
        return self.now

    def buckets(self) -> list[GroupBuckets]:
        return self.found


def histogram(latency: str, *values_ms: float) -> Buckets:
    counted = FixedBuckets(BOUNDS_MS[latency])
    for value in values_ms:
        counted.add(value)
    return counted.view()
