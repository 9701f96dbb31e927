"""The master's copy of the workers' rows: written as they come, acknowledged when they are on disk."""

from __future__ import annotations

from typing import IO

from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import Ack, Rows
from llm_locust.records import RunFolder
from llm_locust.records.plan import plan_header_line
from llm_locust.records.request import header_line


class Collector:
    """Keeps ``requests/worker-<k>.shipped.csv`` for workers on other machines (and, harmlessly, for those on this one)."""

    def __init__(self, folder: RunFolder, link: Link) -> None:
        self._folder = folder
        self._link = link
        self._files: dict[tuple[int, bool], IO[str]] = {}
        self._last_serial: dict[int, int] = {}

    def on_rows(self, rows: Rows, client_id: str) -> None:
        """Append the lines and acknowledge; a batch that was sent twice is written once."""
        if rows.run_id != self._folder.run_id:
            return
        if rows.serial > self._last_serial.get(rows.worker, 0):
            file = self._file(rows.worker, rows.issued)
            file.write(rows.lines)
            file.flush()
            self._last_serial[rows.worker] = rows.serial
        self._link.send(Ack(serial=rows.serial), client_id)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, worker: int, issued: bool) -> IO[str]:
        key = (worker, issued)
        if key not in self._files:
            path = self._folder.worker_csv(worker, issued=issued, shipped=True)
            self._files[key] = open(path, "a", encoding="utf-8", newline="")  # noqa: SIM115 - closed by close()
            self._files[key].write(plan_header_line() if issued else header_line())
        return self._files[key]
