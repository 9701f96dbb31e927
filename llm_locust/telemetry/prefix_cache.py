"""Have the server forget the prefixes that it has cached, so that a stage begins with an empty cache."""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent

from llm_locust.records import UsageError
from llm_locust.telemetry.probe import NoPage, Probe

RESET_PAGES = ("/reset_prefix_cache", "/flush_cache")
"""vLLM's, and SGLang's."""
RESET_S = 30.0
_ABSENT = (404, 405, 501)


def reset_prefix_cache(
    probe: Probe, *, sleep: Callable[[float], object] = gevent.sleep, now: Callable[[], float] = time.monotonic
) -> None:
    """Ask the server to empty its prefix cache, and wait until it says that it did.

    Args:
        probe: asks the server.
        sleep: waits that many seconds.
        now: monotonic seconds.

    Raises:
        UsageError: the server has no page for it, or does not do it.
    """
    end = now() + RESET_S
    for path in RESET_PAGES:
        while True:
            try:
                page = probe.post(path, {}, timeout_s=RESET_S)
            except NoPage as none:
                raise UsageError(
                    f"--reset-prefix-cache: {probe.base_url} was asked: {none.failure.error}. "
                    "Check that it runs, or leave the option out"
                ) from None
            if page.status == 200:
                return
            if page.status in _ABSENT:
                break
            # Blocks of requests that have just ended may still be held.
            if now() >= end:
                said = probe.safe(f"HTTP {page.status}: {page.message()}")
                raise UsageError(
                    f"--reset-prefix-cache: {probe.base_url} did not empty its prefix cache ({said}); "
                    "leave the option out, or restart the server between stages"
                )
            sleep(0.2)
    raise UsageError(
        f"--reset-prefix-cache: {probe.base_url} has no page to empty its prefix cache: SGLang has /flush_cache, and vLLM "
        "/reset_prefix_cache when it is started with VLLM_SERVER_DEV_MODE=1. Leave the option out, or restart the server "
        "between stages"
    )
