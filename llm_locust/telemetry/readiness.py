"""Readiness before load: wait until the server is up, then let one real request show that the load would get through."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import gevent

from llm_locust.records import Outcome, UsageError
from llm_locust.streaming import Proxy, Reply, StreamClient, StreamRequest, names_a_secret
from llm_locust.telemetry.diagnosis import diagnose, is_listed, models_named
from llm_locust.telemetry.probe import NoPage, Probe
from llm_locust.telemetry.target import PAGE_S, TargetFacts, read_facts

FIRST_POLL_S, LONGEST_POLL_S = 0.25, 2.0
"""Pause between two looks: short at first, since a small engine boots in a second, then longer."""
REPORT_EVERY_S = 5.0
"""The same wait is reported no more often than this, and nothing more often than once a second."""
NAME_GRACE_S = 5.0
"""A container that is just starting gets its name a moment late; a misspelt name never gets one."""

_BOOTING = frozenset({502, 503, 504})
"""Statuses of a server, or of a proxy before it, that will answer later."""
_LISTS_ALL_IT_TAKES = frozenset({"vLLM", "SGLang", "llama.cpp", "Ollama"})
"""Engines whose list is final once it is there (or, with llama.cpp, does not matter): waiting would not change it."""


def await_ready(
    base_url: str,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    model: str | None = None,
    report: Callable[[str], None] = lambda line: None,
    ca_file: str | None = None,
    insecure: bool = False,
    proxy: Proxy | None = None,
    sleep: Callable[[float], object] = gevent.sleep,
    now: Callable[[], float] = time.monotonic,
) -> TargetFacts:
    """Wait until the server answers, says that it is healthy and lists the model; then return what it says of itself.

    What is asked are a few small pages, never a generation: ``/health`` (a server without one is taken as up when it
    answers at all), ``/v1/models`` (one that has no such page, or keeps it closed, is ready too), then the pages of
    :func:`~llm_locust.telemetry.target.read_facts`.

    A model that stays unlisted is no error here: gateways take names that they do not list. The wait for it ends with the
    time, or at once where the engine's list is known to be final; the first request will tell.

    Args:
        base_url: as given for the load.
        headers: sent with every page, as the key is.
        timeout_s: how long to wait; 0 looks once.
        model: what will be asked for; ``None`` when the server's first one will do.
        report: gets a line with what is waited for and the seconds left, at once and then every few seconds.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.
        proxy: what the load goes through.
        sleep: waits that many seconds.
        now: monotonic seconds.

    Raises:
        UsageError: not ready in time, with what was seen last; or sooner, for what waiting does not mend: an unknown host
            name, a certificate that is not trusted, TLS on one side only, a port that does not speak HTTP.
    """
    probe = Probe(base_url, headers, ca_file=ca_file, insecure=insecure, proxy=proxy)
    begin = now()
    notices = _Notices(report, now)
    pause = FIRST_POLL_S
    while True:
        facts, none = None, None
        try:
            facts = _look(probe, page_s=min(PAGE_S, max(begin + timeout_s - now(), 1.0)))
            seen = _unlisted(model, facts)
            if seen is None:
                return facts
        except _Booting as booting:
            seen = probe.safe(str(booting))
        except NoPage as no_page:
            none, seen = no_page, no_page.failure.error
            if _hopeless(none, waited_s=now() - begin):
                raise UsageError(_diagnose_no_page(probe, none)) from None
        left = begin + timeout_s - now()
        if left <= 0 and facts is not None:
            return facts
        if left <= 0:
            raise UsageError(f"{base_url} was not ready within {timeout_s:g} s: {_last_seen(probe, seen, none)}")
        notices.give(f"waiting for {base_url}: {seen}", f"({left:.0f} s left)")
        sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_POLL_S)


def check_one_request(
    client: StreamClient,
    request: StreamRequest,
    *,
    base_url: str,
    model: str | None,
    facts: TargetFacts,
    deadline_s: float,
) -> Reply:
    """Send one request as the load will, and return its reply, which is ok.

    Args:
        client: made as the load's.
        request: built as the load's.
        base_url: as given with ``--host``, for the diagnosis.
        model: what the request asks for; ``None`` when it names none.
        facts: what the server said of itself.
        deadline_s: the whole-request deadline of the load.

    Raises:
        FirstRequestFailed: it was not ok; the message says why, as far as that can be told, and names a remedy.
    """
    reply = client.stream(request, deadline_s=deadline_s)
    if reply.outcome is Outcome.OK:
        return reply
    why = diagnose(
        reply,
        base_url=base_url,
        path=request.path,
        model=model,
        models=facts.models,
        key_given=any(names_a_secret(name) for name, _ in request.headers),
    )
    raise FirstRequestFailed(f"the one request sent before load failed: {why}", reply)


class FirstRequestFailed(UsageError):
    """The one request before load did not come out ok."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class _Booting(Exception):
    """An answer that says: not yet."""


class _Notices:
    """Hands on the first line, then a new one after a second and the same one after a while."""

    def __init__(self, report: Callable[[str], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._last: str | None = None
        self._at = 0.0

    def give(self, line: str, left: str) -> None:
        """Report the line with what is left, if it is due."""
        since = self._now() - self._at
        if self._last is None or since >= REPORT_EVERY_S or (line != self._last and since >= 1.0):
            self._last, self._at = line, self._now()
            self._report(f"{line} {left}")


def _look(probe: Probe, *, page_s: float) -> TargetFacts:
    """What a server that is up says of itself.

    Raises:
        NoPage: no answer.
        _Booting: it asks for patience.
    """
    for path in ("/health", "/v1/models"):
        page = probe.get(path, timeout_s=page_s)
        if page.status in _BOOTING:
            said = page.message()
            raise _Booting(f"HTTP {page.status}: {said}" if said else f"HTTP {page.status}")
    return read_facts(probe, page, page_s)


def _unlisted(model: str | None, facts: TargetFacts) -> str | None:
    """What there still is to wait for on a server that is up; ``None`` for nothing."""
    if model is None or not facts.models or is_listed(model, facts.models):
        return None
    if facts.synthetic or facts.engine in _LISTS_ALL_IT_TAKES:
        return None
    return f"it does not list the model {model!r}, but {models_named(facts.models)}"


def _hopeless(none: NoPage, *, waited_s: float) -> bool:
    """Patience does not mend it: an unknown name, a certificate, TLS on one side only, a port that speaks something else."""
    text = none.failure.error
    return (
        (none.unknown_name and waited_s >= NAME_GRACE_S)
        or none.failure.outcome is Outcome.PROTOCOL_ERROR
        or "certificate was not accepted" in text
        or "does not speak TLS" in text
    )


def _last_seen(probe: Probe, seen: str, none: NoPage | None) -> str:
    if none is None or none.failure.outcome is Outcome.TIMEOUT:
        return f"{seen}. Wait longer with --ready-timeout, or look into the log of the server."
    return _diagnose_no_page(probe, none)


def _diagnose_no_page(probe: Probe, none: NoPage) -> str:
    reply = Reply(outcome=none.failure.outcome, error=none.failure.error)
    return diagnose(reply, base_url=probe.base_url, path="/health", model=None, models=None, key_given=False)
