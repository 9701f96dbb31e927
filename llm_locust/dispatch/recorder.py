"""A worker's rows: appended to its own file, flushed every second, and shipped to the master in acknowledged batches."""

from __future__ import annotations

from collections import deque

import gevent
from gevent.event import Event

from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import Ack, Rows
from llm_locust.dispatch.row_file import RowFile
from llm_locust.records import PlanRow, RequestRecord, RunFolder, encode_plan_rows, encode_rows
from llm_locust.records.plan import plan_header_line
from llm_locust.records.request import header_line
from llm_locust.streaming.turns import give_way

BATCH_BYTES = 256_000
"""Largest message: more delays heartbeats."""
SLICE = 8
"""Rows encoded at a time: with a hundred gaps each a row costs some 50 microseconds, and nothing is sent meanwhile."""
CREDIT = 4
"""Batches under way without an acknowledgement: thousands of unyielded messages lose heartbeats."""


class Recorder:
    """One worker's record files of one run. The file here is the authority; what is shipped is the same lines."""

    FLUSH_S = 1.0

    def __init__(self, folder: RunFolder, worker: int, link: Link) -> None:
        """Open the files.

        Raises:
            OSError: the folder cannot be written.
        """
        self._run_id = folder.run_id
        self._worker = worker
        self._link = link
        folder.requests_dir.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._requests = RowFile(folder.worker_csv(worker), header_line())
        self._issued: RowFile | None = None
        self._buffer: deque[RequestRecord] = deque()
        self._outbox: deque[Rows] = deque()
        self._serial = 0
        self._acknowledged = 0
        self._all_acknowledged = Event()
        self._all_acknowledged.set()
        self.trouble: str | None = None
        """Why rows could not be written here (they are kept, shipped, and tried again)."""
        self._flusher = gevent.spawn(self._flush_forever)

    def add(self, record: RequestRecord) -> None:
        """Keep a terminal row; it is on disk within :attr:`FLUSH_S`."""
        self._buffer.append(record)

    def issue(self, row: PlanRow) -> None:
        """Write the row of an arrival that has no prior plan, before it is sent."""
        if self._issued is None:
            self._issued = RowFile(self._folder.worker_csv(self._worker, issued=True), plan_header_line())
        lines = encode_plan_rows([row])
        self._write(self._issued, lines)
        self._enqueue(lines, issued=True)

    def flush(self) -> None:
        """Write what is buffered and hand it to the shipping, a slice a turn: other greenlets run in between."""
        while self._buffer:
            lines = encode_rows(self._buffer.popleft() for _ in range(min(SLICE, len(self._buffer))))
            self._write(self._requests, lines)
            self._enqueue(lines, issued=False)
            give_way()
        self._write(self._requests, "")
        self._ship()

    def _write(self, file: RowFile, lines: str) -> None:
        try:
            file.append(lines)
        except OSError as error:
            self.trouble = f"{file.path} cannot be written: {error.strerror}"

    def on_ack(self, ack: Ack) -> None:
        """The master has these rows on disk."""
        self._acknowledged = max(self._acknowledged, ack.serial)
        self._ship()

    def wait_shipped(self, timeout_s: float) -> bool:
        """Flush, then wait until the master has everything; ``False`` when it did not say so in time."""
        self.flush()
        return bool(self._all_acknowledged.wait(timeout_s))

    def close(self) -> None:
        """Flush and close the files."""
        self._flusher.kill()
        self.flush()
        self._requests.close()
        if self._issued is not None:
            self._issued.close()

    def _flush_forever(self) -> None:
        while True:
            gevent.sleep(self.FLUSH_S)
            self.flush()

    def _enqueue(self, lines: str, *, issued: bool) -> None:
        if not self._link.distributed:
            return
        for part in _split(lines, BATCH_BYTES):
            self._serial += 1
            self._outbox.append(
                Rows(run_id=self._run_id, worker=self._worker, serial=self._serial, issued=issued, lines=part)
            )
            self._all_acknowledged.clear()

    def _ship(self) -> None:
        while self._outbox and self._outbox[0].serial <= self._acknowledged + CREDIT:
            self._link.send(self._outbox.popleft())
        if self._acknowledged == self._serial:
            self._all_acknowledged.set()


def _split(lines: str, limit: int) -> list[str]:
    """Whole lines in parts of at most ``limit`` characters (a longer single line is a part of its own)."""
    parts: list[str] = []
    start = 0
    while start < len(lines):
        end = len(lines) if len(lines) - start <= limit else lines.rfind("\n", start, start + limit) + 1
        if end <= start:
            end = lines.index("\n", start) + 1
        parts.append(lines[start:end])
        start = end
    return parts
