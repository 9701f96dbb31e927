"""The server's ``/metrics``: read, recognised, and its counters moved by what was sent."""

from __future__ import annotations

import time

import gevent

from llm_locust.smoke.result import Found, failed, not_applicable, passed, undecided
from llm_locust.smoke.server import SmokedServer
from llm_locust.telemetry.metrics import Mapping, NormalisedPage, detect, read_page

PATH = "/metrics"
TOKENS = 8
REQUESTS = 2
MARKS = 2
"""Tokens a request by which counts may differ: some engines count a begin or end mark that the usage leaves out."""
PATIENCE_S = 5.0
"""Some engines count once a second."""
POLL_S = 0.2
_CLOSED = frozenset({401, 403, 404, 405, 501})


def check_metrics_page(server: SmokedServer) -> Found:
    """Reads the page, sends two requests, and waits a little for the counters to show them."""
    page = server.page(PATH)
    if page.status in _CLOSED:
        return not_applicable(
            f"the server has no open {PATH} (llama.cpp: start it with --metrics; Ollama has none)",
            f"HTTP {page.status}",
        )
    if page.status != 200:
        return failed(f"{PATH} answers with HTTP {page.status}", page.message())
    mapping = detect(page.body)
    if mapping is None:
        said = read_page(page.body).error or ""
        return undecided("the page is of no engine that there is a mapping for", said)
    before = read_page(page.body, mapping)
    if before.error is not None:
        return failed("the page is recognised and cannot be read", before.error)
    if "generation_tokens" not in before.values:
        return undecided(
            f"{mapping.title}: no counter of generated tokens on the page", ", ".join(sorted(before.values))
        )
    asked = [server.ask(f"Name a word that begins like {n}.", max_tokens=TOKENS).or_fail() for n in ("sea", "sun")]
    ours = sum(each.reply.output_tokens or 0 for each in asked)
    moved = _moved(server, mapping, before, ours)
    verified = "verified" if mapping.verified else "unverified"
    seen = (
        f"{mapping.title} ({verified} mapping, {len(before.values)} figures and {len(before.histograms)} histograms): "
    )
    seen += f"{ours} output tokens were received, the counter moved by {moved:g}"
    if moved < ours - MARKS * REQUESTS:
        return failed(
            "the counters do not show what was sent: is the page another replica's, or a proxy's?",
            seen,
        )
    if moved > ours + MARKS * REQUESTS:
        seen += ": somebody else is using the server as well"
    return passed(seen)


def _moved(server: SmokedServer, mapping: Mapping, before: NormalisedPage, ours: int) -> float:
    """By how much the count of generated tokens grew, at the latest when patience has run out."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        now = read_page(server.page(PATH).body, mapping).values.get("generation_tokens", 0.0)
        moved = now - before.values["generation_tokens"]
        if moved >= ours or time.monotonic() >= give_up:
            return moved
        gevent.sleep(POLL_S)
