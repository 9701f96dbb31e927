"""Which workers of a stage are lost: silent for too long, or not done long after they should be."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from llm_locust.records import NS_PER_S
from llm_locust.records.manifest import StageWorker

logger = logging.getLogger(__name__)

MISSING_S = 15
"""A worker that does not answer for this long is lost. A short stop (SIGSTOP, a pause of the machine) heals itself."""


class Missing:
    """Since when which worker is not connected."""

    def __init__(self) -> None:
        self._since_ns: dict[str, int] = {}

    def look(
        self,
        at_work: Mapping[str, StageWorker],
        connected: Collection[str],
        now: int,
        *,
        cancelled: bool,
        give_up_ns: int | None,
    ) -> None:
        """Mark those that are lost by now, with the reason; a lost one stays lost.

        Args:
            at_work: the workers that have not said that they are done, by client.
            connected: the clients that are there.
            now: Unix nanoseconds.
            cancelled: nobody waits any longer: who is missing is lost at once.
            give_up_ns: from when on a worker that is still at work is lost, too; ``None``: not yet known.
        """
        for client, worker in at_work.items():
            if worker.lost:
                continue
            if client in connected:
                self._since_ns.pop(client, None)
            else:
                self._since_ns.setdefault(client, now)
            missing_s = (now - self._since_ns.get(client, now)) / NS_PER_S
            if missing_s > MISSING_S or (cancelled and missing_s > 0):
                worker.lost, worker.lost_reason = True, f"no sign of life for {missing_s:.0f} s"
            elif give_up_ns is not None and now > give_up_ns:
                worker.lost, worker.lost_reason = True, "did not finish the stage in time"
            if worker.lost:
                logger.error("worker %d on %s is lost: %s", worker.worker, worker.host, worker.lost_reason)
