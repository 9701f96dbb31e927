"""The pages of the server, read once a second from before the first stage until after the last, by the master alone.

Each address has a greenlet of its own: one that answers late holds up no other. A scrape has three seconds and a bounded
page; one that fails leaves a row that says why, at the time of asking, and the next one is due as if nothing had been. The
time of any other row is when the first byte of its page came. The load may be made in this very process: so a page is read
in slices of a quarter of a millisecond, and whatever else is due has its turn between two of them.

Connections are kept from one scrape to the next. Servers that give every connection a thread (llama.cpp) answer then even
when all of their other threads are taken by the load.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from time import monotonic

import gevent
from gevent.lock import BoundedSemaphore

from llm_locust.dispatch.row_file import RowFile
from llm_locust.records import NS_PER_S, Clock, RunFolder, UsageError
from llm_locust.records.device_sample import device_header_line, encode_device_rows
from llm_locust.records.server_sample import ServerSample, encode_server_rows, server_header_line
from llm_locust.streaming.turns import give_way
from llm_locust.telemetry.page_reading import PageReading, Rows
from llm_locust.telemetry.probe import NoPage, Page, Probe
from llm_locust.telemetry.raw_pages import RawPage, RawPages, file_names

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
SCRAPE_S = 3.0
"""How long a scrape may take, from asking to the last byte."""
MOST_PAGE_BYTES = 4 * 1024 * 1024
"""vLLM's page has 57 kB for one engine, and some 200 kB for several with adapters."""
LOOK_S = 2 * SCRAPE_S + 0.5
"""How long a look at all pages may take: a scrape that is under way, then one of its own."""


class Scraped:
    """One address, how it is asked and how it is read.

    Args:
        url: The address, as it stands in the rows.
        probe: Asks it; its connection is kept between scrapes, so that one costs little on either side.
        path: The path to ask for.
        reading: Makes rows of its pages.
    """

    def __init__(self, url: str, probe: Probe, path: str, reading: PageReading) -> None:
        self.url = url
        self.path = path
        self.probe = probe
        self.reading = reading
        self.lock = BoundedSemaphore(1)
        """One scrape at a time."""

    def scrape(self, clock: Clock) -> tuple[Rows, RawPage | None]:
        """Ask once; never raises for what the server does, nor for what it sends."""
        asked_ns = clock.now_ns()
        page, error = self._page()
        if page is None or error is not None:
            at_ns = page.first_ns if page is not None else asked_ns
            return self.reading.failed(self.probe.safe(error or ""), at_ns, _ms(clock.now_ns() - asked_ns)), None
        give_way()
        rows = self.reading.read(page, page.first_ns, _ms(page.last_ns - asked_ns), give_way)
        give_way()
        return rows, RawPage(page.first_ns, self.url, page.body)

    def try_once(self, clock: Clock) -> str | None:
        """Ask once before load; why there is nothing to read, or ``None``."""
        rows, _ = self.scrape(clock)
        return next((sample.error for sample in rows.server if sample.error is not None), None)

    def _page(self) -> tuple[Page | None, str | None]:
        """The answer, and why it is no page to read; one of the two may be missing."""
        try:
            page = self.probe.get(self.path, timeout_s=SCRAPE_S)
        except NoPage as none:
            return None, none.failure.error
        if page.status != 200:
            said = page.message()
            return page, f"HTTP {page.status}: {said}" if said else f"HTTP {page.status}"
        return page, page.cut


class Scraper:
    """Scrapes all addresses of a run into its folder.

    Args:
        targets: The addresses.
        folder: The run folder, which is there.
        clock: The master's clock, which the probes share.
        interval_s: Seconds from one scrape of an address to its next.
        on_trouble: Told, once, why rows can no longer be written.
        on_rows: Told of the rows of each scrape; must return at once.

    Raises:
        UsageError: the files cannot be written.
    """

    def __init__(
        self,
        targets: Sequence[Scraped],
        folder: RunFolder,
        clock: Clock,
        *,
        interval_s: float = INTERVAL_S,
        on_trouble: Callable[[str], None],
        on_rows: Callable[[Rows], None] = lambda _: None,
    ) -> None:
        self._targets = targets
        self._clock = clock
        self._interval_s = interval_s
        self._on_trouble = on_trouble
        self._on_rows = on_rows
        self._files = _Files(folder, [target.url for target in targets])
        self._greenlets: list[gevent.Greenlet[..., None]] = []
        self._broken: set[str] = set()
        self.newest: dict[str, ServerSample] = {}
        """The last row of each server, by address."""

    def start(self) -> None:
        """Read every page once, then go on in the background. Returns when the first rows are written."""
        self.look()
        begin = monotonic()
        for place, target in enumerate(self._targets):
            # One after the other: all pages at the same moment would be one long piece of work.
            first = begin + self._interval_s * (place + 1) / len(self._targets)
            self._greenlets.append(gevent.spawn(self._go_on, target, first))

    def look(self) -> None:
        """Read every page once more, now; returns when that is done, at the latest after :data:`LOOK_S`."""
        looks = [gevent.spawn(self._scrape, target) for target in self._targets]
        gevent.joinall(looks, timeout=LOOK_S)
        gevent.killall(looks)

    def stop(self, *, last_look: bool = True) -> None:
        """End it: read every page a last time, unless told otherwise, and close the files. Harmless when it has ended."""
        gevent.killall(self._greenlets)
        self._greenlets.clear()
        if last_look and not self._files.closed:
            self.look()
        for target in self._targets:
            target.probe.close()
        self._files.close()

    def _go_on(self, target: Scraped, due: float) -> None:
        while True:
            gevent.sleep(max(due - monotonic(), 0))
            self._scrape(target)
            # What a late answer has missed is not made up for: the next one comes at its own time.
            due += self._interval_s * max(math.ceil((monotonic() - due) / self._interval_s), 1)

    def _scrape(self, target: Scraped) -> None:
        with target.lock:
            try:
                rows, raw = target.scrape(self._clock)
            except Exception as error:
                if target.url not in self._broken:
                    logger.exception("a page of %s could not be read for a fault of ours", target.url)
                    self._broken.add(target.url)
                rows = target.reading.failed(f"{type(error).__name__}: {error}", self._clock.now_ns(), 0.0)
                raw = None
            for sample in rows.server:
                self.newest[sample.target] = sample
            trouble = self._files.write(rows, raw)
            self._on_rows(rows)
        if trouble is not None:
            self._on_trouble(trouble)


class _Files:
    """``server.csv``, ``devices.csv`` (as soon as there is something for it) and the raw pages.

    Rows that do not fit on the disk are kept and tried again; raw pages are an extra, and end there.
    """

    def __init__(self, folder: RunFolder, urls: Sequence[str]) -> None:
        self._folder = folder
        self.closed = False
        self._server: RowFile | None = None
        self._devices: RowFile | None = None
        self._raw: dict[str, RawPages] = {}
        self._told = False
        try:
            folder.raw_metrics_dir.mkdir(exist_ok=True)
            for url, name in file_names(urls).items():
                self._raw[url] = RawPages(folder.raw_metrics_dir / name)
        except OSError as error:
            raise UsageError(f"the run folder {folder.path} cannot be written: {error.strerror}") from None

    def write(self, rows: Rows, raw: RawPage | None) -> str | None:
        """Append; what cannot be written is told once."""
        if self.closed:  # a scrape that outlived the run
            return None
        told: str | None = None
        try:
            if rows.server:
                if self._server is None:
                    self._server = RowFile(self._folder.server_csv, server_header_line())
                self._server.append(encode_server_rows(rows.server))
            if rows.devices:
                if self._devices is None:
                    self._devices = RowFile(self._folder.devices_csv, device_header_line())
                self._devices.append(encode_device_rows(rows.devices))
        except OSError as error:
            path = self._folder.devices_csv if rows.devices else self._folder.server_csv
            told = f"{path} cannot be written: {error.strerror}"
        if raw is not None and (pages := self._raw.get(raw.target)) is not None:
            try:
                pages.append(raw)
            except OSError as error:
                logger.warning("%s cannot be written, and ends here: %s", pages.path, error.strerror)
                self._raw.pop(raw.target).close()
        if told is None or self._told:
            return None
        self._told = True
        return told

    def close(self) -> None:
        """Close all files; a file of raw pages that holds none is taken away."""
        if self.closed:
            return
        self.closed = True
        for file in (self._server, self._devices):
            if file is not None:
                file.close()
        for pages in self._raw.values():
            pages.close()
            if not pages.path.stat().st_size:
                pages.path.unlink()


def _ms(ns: int) -> float:
    return round(ns * 1000 / NS_PER_S, 3)
