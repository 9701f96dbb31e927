"""Something between server and client holds the stream back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llm_locust.analysis.derived import buffered, floats
from llm_locust.analysis.diagnosis.case import Case, StageCase, Symptom, found, named
from llm_locust.analysis.words import percent
from llm_locust.records.diagnosis import Finding

BUFFERED_SHARE = 0.05
"""Replies of several tokens that come at one instant: a few short ones may share a packet, more do not."""


def buffered_stream(case: Case) -> Iterator[Finding]:
    """Replies of several tokens came whole, so that their TTFT is their E2E and they have no TPOT."""
    yield from found(
        "buffered_stream",
        "Replies came at one instant instead of token by token",
        "network",
        (
            "Ask the server directly, past every proxy and gateway, with the same workload",
            "Then switch buffering off in the proxy alone (nginx: proxy_buffering off, or X-Accel-Buffering: no)",
        ),
        (symptom for stage in case.stages if (symptom := _buffered(stage)) is not None),
    )


def _buffered(stage: StageCase) -> Symptom | None:
    several = stage.batch & stage.ok & (floats(stage.rows["output_tokens"]) >= 2)
    whole = buffered(stage.rows) & stage.batch
    n, of = int(whole.sum()), int(several.sum())
    if n == 0 or n < BUFFERED_SHARE * of:
        return None
    tokens = int(np.median(floats(stage.rows["output_tokens"])[whole]))
    said = (
        f"{n} of {of} replies of two tokens and more ({percent(n / of)}) had one receive time, {tokens} tokens at P50"
    )
    return Symptom(stage, said, "shown", named(stage.rows, whole))
