"""What one address said, scrape after scrape, as rows. Whose page it is, is found out at the first and remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.server_sample import ServerSample
from llm_locust.telemetry.devices.clock_offset import PageClock, offset_of_page
from llm_locust.telemetry.devices.page import TELEMETRY_INFO
from llm_locust.telemetry.devices.page_samples import device_samples_from_page, telemetry_page
from llm_locust.telemetry.metrics import Mapping, detect, read_page, server_sample
from llm_locust.telemetry.metrics.exposition import read_exposition
from llm_locust.telemetry.ollama import ollama_sample
from llm_locust.telemetry.probe import Page

_OURS = TELEMETRY_INFO.encode()
_DEVICE_MARKS = (_OURS, b"DCGM_FI_DEV_")


class Rows(NamedTuple):
    """What a scrape leaves in ``server.csv`` or in ``devices.csv``."""

    server: list[ServerSample]
    devices: list[DeviceSample]


class PageReading(Protocol):
    """Reads the pages of one address."""

    def read(self, page: Page, at_ns: int, scrape_ms: float, pause: Callable[[], object]) -> Rows:
        """The rows of a whole page with status 200; ``pause`` is called now and then, to let others have their turn."""
        ...

    def failed(self, error: str, at_ns: int, scrape_ms: float) -> Rows:
        """The rows that tell that there was no page, or none that could be read."""
        ...

    @property
    def title(self) -> str | None:
        """Whose page it is, for a person; ``None`` while that is not known."""
        ...


class MetricsReading:
    """A page of an engine's metrics, or of devices (``llm-locust telemetry --port``, NVIDIA's DCGM exporter).

    Pages of devices leave no row in ``server.csv``: they say nothing of requests, and would stand there as a server that
    does not tell how many wait.

    Args:
        target: The address.
        own: A mapping that is taken before the known ones, for pages that it recognises.
    """

    def __init__(self, target: str, own: Mapping | None = None) -> None:
        self._target = target
        self._own = own
        self._mapping: Mapping | None = None
        self._is_of_devices = False
        self._devices: list[DeviceSample] = []
        self.clocks: dict[str, PageClock] = {}
        """The clock of each sampler of ours that was behind the address, by its session."""

    @property
    def title(self) -> str | None:
        """Whose page it is."""
        return "devices" if self._is_of_devices else self._mapping.title if self._mapping is not None else None

    def read(self, page: Page, at_ns: int, scrape_ms: float, pause: Callable[[], object]) -> Rows:
        """The rows of a page."""
        body = page.body
        if self._mapping is None and not self._is_of_devices:
            self._mapping = self._find(body)
            self._is_of_devices = self._mapping is None and any(mark in body for mark in _DEVICE_MARKS)
        if self._is_of_devices:
            text = body.decode("utf-8", "replace")
            found = device_samples_from_page(text, at_ns, self._target)
            if page.sent_ns and _OURS in body and (ours := telemetry_page(text)) is not None:
                seen = offset_of_page(ours.clock_ns, page.sent_ns, page.first_ns)
                self.clocks.setdefault(ours.session, PageClock()).add(seen)
            self._devices = found or self._devices
            return Rows([], found)
        read = read_page(body, self._mapping, pause)
        if read.error is not None:  # another engine may have taken the address over
            self._mapping = None
        return Rows([server_sample(read, at_ns=at_ns, target=self._target, scrape_ms=scrape_ms)], [])

    def failed(self, error: str, at_ns: int, scrape_ms: float) -> Rows:
        """An error in the row of the server, or of each device that was on the page before."""
        if not self._is_of_devices:
            return Rows([ServerSample(at_ns=at_ns, target=self._target, scrape_ms=scrape_ms, error=error)], [])
        lost = [
            DeviceSample(
                at_ns=at_ns,
                source=self._target,
                session=known.session,
                kind=known.kind,
                gpu=known.gpu,
                uuid=known.uuid,
                name=known.name,
                pid=known.pid,
                memory_kind=known.memory_kind,
                error=f"its page was not read: {error}",
            )
            for known in self._devices
        ]
        return Rows([], lost)

    def _find(self, body: bytes) -> Mapping | None:
        if self._own is not None and self._own.recognises(read_exposition(body, ()).names):
            return self._own
        if any(mark in body for mark in _DEVICE_MARKS):
            return None
        return detect(body)


class OllamaReading:
    """Ollama's ``/api/ps``.

    Args:
        target: The address.
        model: What the load asks for.
    """

    title = "Ollama"

    def __init__(self, target: str, model: str | None) -> None:
        self._target = target
        self._model = model

    def read(self, page: Page, at_ns: int, scrape_ms: float, pause: Callable[[], object]) -> Rows:
        """The row of a page."""
        sample = ollama_sample(page.json(), self._model, at_ns=at_ns, target=self._target, scrape_ms=scrape_ms)
        return Rows([sample], [])

    def failed(self, error: str, at_ns: int, scrape_ms: float) -> Rows:
        """A row with the error."""
        return Rows([ServerSample(at_ns=at_ns, target=self._target, scrape_ms=scrape_ms, error=error)], [])
