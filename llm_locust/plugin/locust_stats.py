"""Each finished request in Locust's own statistics: one ``request`` event, and rows of ours that leave totals alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from locust.env import Environment
from locust.event import EventHook
from locust.stats import StatsEntry, bucket_response_time

from llm_locust.live.request import between_ms, tpot_ms
from llm_locust.records import UNATTEMPTED, Outcome, RequestRecord
from llm_locust.streaming import Reply
from llm_locust.users.base import LLMUser

llm_request = EventHook()
"""Fired with ``record`` (:class:`~llm_locust.records.RequestRecord`), ``reply`` and ``user`` for every terminal record."""


class RequestFailed(Exception):
    """What Locust's failure table groups by: the outcome and status, without texts that differ from request to request."""


def report_request(environment: Environment, record: RequestRecord, reply: Reply | None, user: LLMUser) -> None:
    """Fire Locust's ``request`` event once, log our rows, and hand the record to ``llm_request`` listeners.

    What was never sent was no request: Locust's tables would count it as one that failed.
    """
    if record.outcome not in UNATTEMPTED:
        _report(environment, record, user)
    llm_request.fire(record=record, reply=reply, user=user)


def _report(environment: Environment, record: RequestRecord, user: LLMUser) -> None:
    name = user.path
    e2e_ms = between_ms(record.sent_ns, record.complete_ns)
    failure = None
    if record.outcome is not Outcome.OK:
        failure = RequestFailed(record.outcome + (f" (HTTP {record.status})" if record.status is not None else ""))
    environment.events.request.fire(
        request_type="POST",
        name=name,
        response_time=e2e_ms if failure is None else between_ms(record.sent_ns, record.end_ns),
        response_length=record.bytes_in or 0,
        exception=failure,
        context=user.context(),
        start_time=record.sent_ns / 1e9 if record.sent_ns is not None else None,
        url=f"{environment.host or ''}{name}",
        response=None,
    )
    entries = environment.stats.entries
    ttft_ms = between_ms(record.sent_ns, record.first_output_ns)
    if record.outcome is Outcome.OK:
        for row, value in (("TTFT", ttft_ms), ("TPOT", tpot_ms(record)), ("E2E", e2e_ms)):
            if value is not None:
                entries[(name, row)].log(value, 0)  # type: ignore[arg-type]
        if record.gaps_us:
            _log_many(entries[(name, "ITL")], record.gaps_us)
    if (wait_ms := between_ms(record.planned_ns, record.sent_ns)) is not None:
        entries[(name, "client wait")].log(wait_ms, 0)  # type: ignore[arg-type]


def _log_many(entry: StatsEntry, gaps_us: Sequence[int]) -> None:
    """What ``entry.log`` does, for a whole reply at once: a call per token would cost more than reading the token.

    Locust keeps times to the millisecond, and coarser; gaps are many, but few of them differ by then.
    """
    now = time.time()
    entry.num_requests += len(gaps_us)
    entry.num_reqs_per_sec[int(now)] += len(gaps_us)
    entry.last_request_timestamp = now
    # Locust declares milliseconds as int, and logs the floats of its own HTTP users all the same.
    entry.total_response_time += sum(gaps_us) / 1000  # type: ignore[assignment]
    least, most = min(gaps_us) / 1000, max(gaps_us) / 1000
    entry.min_response_time = least if entry.min_response_time is None else min(entry.min_response_time, least)  # type: ignore[assignment]
    entry.max_response_time = max(entry.max_response_time, most)  # type: ignore[assignment]
    counts = entry.response_times
    for ms, count in Counter([(gap + 500) // 1000 for gap in gaps_us]).items():
        counts[bucket_response_time(ms)] += count
