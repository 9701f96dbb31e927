"""The master's copy of the workers' rows: written as they come, acknowledged when they are on disk."""

from __future__ import annotations

from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import Ack, Rows
from llm_locust.dispatch.row_file import RowFile
from llm_locust.records import RunFolder
from llm_locust.records.plan import plan_header_line
from llm_locust.records.request import header_line


class Collector:
    """Keeps ``requests/worker-<k>.shipped.csv`` for workers on other machines (and, harmlessly, for those on this one)."""

    def __init__(self, folder: RunFolder, link: Link) -> None:
        self._folder = folder
        self._link = link
        self._files: dict[tuple[int, bool], RowFile] = {}
        self.trouble: str | None = None
        """Why rows could not be written here; they stay with their worker, and are tried again."""
        self._last_serial: dict[int, int] = {}

    def on_rows(self, rows: Rows, client_id: str) -> bool:
        """Append the lines and acknowledge; a batch that was sent twice is written once.

        Returns:
            Whether these are rows of this run that had not come before.
        """
        if rows.run_id != self._folder.run_id:
            return False
        new = rows.serial > self._last_serial.get(rows.worker, 0)
        if new:
            self._last_serial[rows.worker] = rows.serial
            try:
                self._file(rows.worker, rows.issued).append(rows.lines)
            except OSError as error:
                self.trouble = f"{self._folder.path} cannot be written: {error.strerror}"
        self._link.send(Ack(serial=rows.serial), client_id)
        return new

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, worker: int, issued: bool) -> RowFile:
        key = (worker, issued)
        if key not in self._files:
            path = self._folder.worker_csv(worker, issued=issued, shipped=True)
            self._files[key] = RowFile(path, plan_header_line() if issued else header_line())
        return self._files[key]
