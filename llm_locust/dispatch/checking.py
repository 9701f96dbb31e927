"""Replies under a quality check, apart from the requests: their times are final, their places taken by the next ones.

A check is a person's own code and may take its time. It runs in a greenlet of its own, one is begun in each turn of the
event loop, and it has as long as a request has. While it waits for something, everything else goes on; while it computes,
nothing does, and that shows as dispatch lag.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Protocol

import gevent

from llm_locust.records import RequestRecord
from llm_locust.records.quality import ERROR, FAIL, PASS
from llm_locust.streaming import Cancelled, Reply
from llm_locust.streaming.turns import Turnstile
from llm_locust.workload import Prompt

logger = logging.getLogger(__name__)


class Checker(Protocol):
    """Who knows whether a reply is good enough: a user class, seen from here."""

    def check(self, prompt: Prompt, reply: Reply) -> bool | None:
        """Whether it is; ``None``: not checked."""
        ...


class Checking:
    """The checks of one stage that are under way."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._turns = Turnstile(per_turn=1)
        self._running: set[gevent.Greenlet[..., None]] = set()
        self._complained = False

    def __len__(self) -> int:
        return len(self._running)

    def start(
        self, checker: Checker, prompt: Prompt, reply: Reply, record: RequestRecord, then: Callable[[], None]
    ) -> None:
        """Check the reply, write down in the record what came of it, then call ``then``; does not wait for any of it."""
        greenlet: gevent.Greenlet[..., None] = gevent.Greenlet(self._check, checker, prompt, reply, record, then)
        self._running.add(greenlet)
        greenlet.start()

    def cancel(self) -> None:
        """Wait for no check any longer; what was not decided is not checked."""
        for greenlet in list(self._running):
            greenlet.kill(Cancelled, block=False)

    def _check(
        self, checker: Checker, prompt: Prompt, reply: Reply, record: RequestRecord, then: Callable[[], None]
    ) -> None:
        me = gevent.getcurrent()
        limit = gevent.Timeout(self._limit_s)
        try:
            self._turns.wait()
            limit.start()
            passed = checker.check(prompt, reply)
            record.quality = None if passed is None else PASS if passed else FAIL
        except Cancelled:
            pass
        except gevent.Timeout as expired:
            self._failed(record, "it took longer than the deadline of a request" if expired is limit else repr(expired))
        except Exception:
            self._failed(record, traceback.format_exc())
        finally:
            limit.close()
            assert isinstance(me, gevent.Greenlet)
            self._running.discard(me)
            then()

    def _failed(self, record: RequestRecord, why: str) -> None:
        """The check is to blame, not the reply: counted apart, and explained once."""
        record.quality = ERROR
        if not self._complained:
            self._complained = True
            logger.error(
                "the quality check failed on %s (quality is then 'error'; more of these are only counted): %s",
                record.request_id,
                why,
            )
