"""What server and devices showed in a run: the figures of every stage, and how the server's counts stand to the client's.

None of it depends on limits or gates, so whoever judges a run once more takes it over as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.derived import mask
from llm_locust.analysis.device_figures import DeviceHistory, device_figures
from llm_locust.analysis.server_against_client import ClientCounts, count_differences
from llm_locust.analysis.server_facts import residency
from llm_locust.analysis.server_figures import server_figures
from llm_locust.records import Manifest, Outcome, StageManifest
from llm_locust.records.device_figures import DeviceFigures
from llm_locust.records.server_figures import CountDifference, ServerFigures
from llm_locust.records.server_sample import ServerSample
from llm_locust.records.summary import Agreement, RunSummary


class StageSeen(NamedTuple):
    """What was seen of the machine under test in one stage."""

    server: ServerFigures | None = None
    device: DeviceFigures | None = None


class RunSeen(NamedTuple):
    """... and in a run."""

    stages: Mapping[tuple[int, int], StageSeen] = MappingProxyType({})
    """By stage and round."""
    agreement: Agreement | None = None
    residency: Sequence[str] = ()
    notes: Sequence[str] = ()
    """What to know of the files of samples."""


NOTHING_SEEN = RunSeen()


def see_run(
    manifest: Manifest,
    rows_of_stages: Sequence[pd.DataFrame],
    samples: Sequence[ServerSample],
    devices: DeviceHistory | None = None,
    notes: Sequence[str] = (),
) -> RunSeen:
    """The figures of every stage from all samples of the run.

    Args:
        manifest: The run's manifest.
        rows_of_stages: The merged rows of each of its stages, in its order.
        samples: What the server's pages said.
        devices: What its machine used, on the master's clock; ``None`` when nobody sampled it.
        notes: What to know of the files that the samples come from.
    """
    load_begins_ns = min((stage.start_ns for stage in manifest.stages), default=0)
    stages = {}
    for stage, rows in zip(manifest.stages, rows_of_stages, strict=True):
        window = windows.measured_window(stage, rows)
        if window is None:
            continue
        span = (window.start_ns, window.end_ns)
        arrivals = int(windows.batch(rows, stage, window).sum())
        server = server_figures(samples, span, arrivals=arrivals, interval_s=manifest.metrics_interval_s)
        stages[stage.spec.stage, stage.spec.round] = StageSeen(
            server if samples else None,
            device_figures(devices, *span, load_begins_ns) if devices is not None else None,
        )
    agreed = agreement(manifest.stages, rows_of_stages, samples) if any(map(_counts, samples)) else None
    return RunSeen(stages, agreed, residency(manifest, samples), notes)


def seen_before(summary: RunSummary) -> RunSeen:
    """What a summary says was seen."""
    stages = {(stage.stage, stage.round): StageSeen(stage.server, stage.device) for stage in summary.stages}
    return RunSeen(stages, summary.agreement, summary.residency, summary.telemetry_notes)


def agreement(
    stages: Sequence[StageManifest], rows_of_stages: Sequence[pd.DataFrame], samples: Sequence[ServerSample]
) -> Agreement:
    """Client and server over the whole run, from before its first request to after its last: idle at both ends."""
    ends = [stage.end_ns for stage in stages if stage.end_ns is not None]
    if not stages or len(ends) < len(stages):
        return Agreement(text="client and server counts were not compared: a stage has no end")
    server = server_figures(samples, (min(stage.start_ns for stage in stages), max(ends)))
    client = [client_counts(rows) for rows in rows_of_stages]
    answered = sum(of.requests or 0 for of in client)
    unanswered = sum(map(unanswered_requests, rows_of_stages))
    counts = ClientCounts(
        requests=answered,
        prompt_tokens=_sum([of.prompt_tokens for of in client]),
        output_tokens=_sum([of.output_tokens for of in client]),
    )
    differences = [
        found
        for found in count_differences(server, counts)
        # What got no answer may have been finished by the server for all that.
        if not (found.name == "requests" and answered < found.server <= answered + unanswered)
    ]
    unverified = "" if server.verified or not server.engines else " (unverified mapping)"
    return Agreement(text=_in_words(counts, server, differences, unanswered) + unverified, differences=differences)


def says_anything(server: ServerFigures) -> bool:
    """Whether the pages held any figure; Ollama's hold where its model lies, and no more."""
    told = ("running_peak", "waiting_peak", "kv_cache_peak_pct", "requests", "prompt_tokens", "generation_tokens")
    return bool(server.percentiles) or any(getattr(server, name) is not None for name in told)


def client_counts(rows: pd.DataFrame) -> ClientCounts:
    """What the client counted of some rows: replies that began (status 200), and tokens where it knows those of all.

    Tokens are only known when no reply was cut off and none left open, for of these the server did an unknown part.
    """
    answered, ok = mask(rows["status"] == 200), mask(rows["outcome"] == Outcome.OK)
    told = mask(rows["output_tokens_source"] == "usage")
    whole = bool((ok == answered).all()) and unanswered_requests(rows) == 0
    prompts, outputs = rows["prompt_tokens"][answered], rows["output_tokens"][answered]
    return ClientCounts(
        requests=int(answered.sum()),
        prompt_tokens=int(prompts.sum()) if whole and bool(prompts.notna().all()) else None,
        output_tokens=int(outputs.sum()) if whole and bool(told[answered].all()) else None,
    )


def unanswered_requests(rows: pd.DataFrame) -> int:
    """Requests that were sent, or may have been, and of whose reply not even the status came."""
    sent = mask(rows["sent_ns"].notna() & rows["status"].isna()) & ~mask(rows["outcome"] == Outcome.CONNECT_ERROR)
    return int((sent | mask(rows["outcome"] == Outcome.LOST)).sum())


def _counts(sample: ServerSample) -> bool:
    """Whether it is of a server that counts, or that could not be asked; Ollama does not."""
    return sample.engine != "ollama"


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _in_words(
    client: ClientCounts, server: ServerFigures, differences: Sequence[CountDifference], unanswered: int
) -> str:
    more = f" ({unanswered} more got no answer)" if unanswered else ""
    if differences:
        return f"client and server disagree: {'; '.join(found.text for found in differences)}{more}"
    pairs = (
        ("requests", client.requests, server.requests),
        ("prompt tokens", client.prompt_tokens, server.prompt_tokens),
        ("output tokens", client.output_tokens, server.generation_tokens),
    )
    both = [
        f"{ours} {name}" + (f" (the server counts {theirs})" if ours != theirs else "")
        for name, ours, theirs in pairs
        if ours is not None and theirs is not None
    ]
    if not both:
        why = server.reasons.get("requests") or server.reasons.get("generation_tokens") or "no count is known to both"
        return f"client and server counts were not compared: {why}"
    text = f"client and server agree on {both[0] if len(both) == 1 else ', '.join(both[:-1]) + ' and ' + both[-1]}"
    left = [name for name, ours, theirs in pairs if ours is None and theirs is not None]
    if left:
        text += f"; {' and '.join(left)} were not compared, since the client does not know those of every request"
    return text + more
