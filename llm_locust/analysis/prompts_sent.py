"""What was really sent: one content under one prompt's number, the digest of a stage's requests, and lengths as asked."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from llm_locust.analysis.derived import Bools, mask
from llm_locust.records import Outcome
from llm_locust.records.figures import LengthFigures
from llm_locust.workload.digest import check_same_prompts

CLOSE = 0.01
"""A length within this share of what was asked for is as asked for."""


def refuse_mixed_prompts(rows: pd.DataFrame) -> None:
    """Stop a merge of workers that did not have the same prompts.

    Raises:
        UsageError: two contents were sent under one prompt's number.
    """
    found = rows[["prompt_index", "turn", "prompt_sha256"]].dropna(subset=["prompt_index", "prompt_sha256"])
    found = found.drop_duplicates()
    twice = found[found.duplicated(["prompt_index", "turn"], keep=False)]
    check_same_prompts(
        (int(number), None if pd.isna(turn) else int(turn), str(sha256))
        for number, turn, sha256 in twice.itertuples(index=False, name=None)
    )


def requests_sha256(rows: pd.DataFrame, in_batch: Bools) -> str | None:
    """SHA-256 over ``place digest`` of the measured requests, a line each, by rising index; ``None`` when one has none.

    As :func:`llm_locust.workload.digest.workload_digest`, for a million rows at once. The place is that among the measured
    requests, from 0: two stages that sent the same requests in the same order have the same digest.
    """
    part = rows[["index", "prompt_sha256"]][in_batch]
    if not len(part) or part["prompt_sha256"].isna().any():
        return None
    part = part.sort_values("index", ignore_index=True)
    lines = part.index.astype(str) + " " + part["prompt_sha256"].astype(str) + "\n"
    return hashlib.sha256("".join(lines.tolist()).encode()).hexdigest()


def length_figures(rows: pd.DataFrame, in_batch: Bools, asked: str, got: str) -> LengthFigures | None:
    """Asked against got over the measured ok requests that have both; ``None`` when none has.

    Args:
        rows: All rows of the stage.
        in_batch: Which of them are measured.
        asked: The column of what was asked for, in tokens.
        got: The column of what the server counted.
    """
    chosen = in_batch & mask(rows["outcome"] == Outcome.OK) & mask(rows["output_tokens_source"] == "usage")
    pair = rows[[asked, got]][chosen].dropna()
    wanted, had = (pair[name].to_numpy(dtype=np.float64) for name in (asked, got))
    wanted, had = wanted[wanted > 0], had[wanted > 0]
    if not len(wanted):
        return None
    off = np.abs(had - wanted) / wanted
    return LengthFigures(
        requests=len(wanted),
        asked_mean=float(wanted.mean()),
        got_mean=float(had.mean()),
        worst_off_share=float(off.max()),
        close_share=float((off <= CLOSE).mean()),
    )
