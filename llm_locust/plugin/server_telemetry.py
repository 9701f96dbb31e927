"""What a run learns of its server: facts before and after, and its pages all the while. On the master only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Mapping as Headers
from pathlib import Path

import gevent

from llm_locust.plugin.interrupts import say
from llm_locust.plugin.options import RunOptions
from llm_locust.records import Clock, Manifest, RunFolder
from llm_locust.records.facts import FACT_NAMES, combine
from llm_locust.telemetry.metrics import Mapping, load_mapping
from llm_locust.telemetry.metrics_targets import MetricsTarget, headers_for, metrics_targets
from llm_locust.telemetry.ollama import PS, as_given
from llm_locust.telemetry.page_reading import MetricsReading, OllamaReading, Rows
from llm_locust.telemetry.probe import Probe
from llm_locust.telemetry.scraper import MOST_PAGE_BYTES, Scraped, Scraper
from llm_locust.telemetry.server_facts import FACTS_S, ServerFacts
from llm_locust.users.headers import proxy_here

logger = logging.getLogger(__name__)


class ServerTelemetry:
    """The server of one run, asked and watched.

    Args:
        host: The base URL of the load.
        headers: Those of the load; pages of other origins get none of them.
        options: The options of the run.
        model: What the load asks for.
        clock: The master's clock.

    Raises:
        UsageError: a mapping file, an address or the proxy's credentials that cannot be used.
    """

    def __init__(
        self, host: str, headers: Headers[str, str], options: RunOptions, model: str | None, clock: Clock
    ) -> None:
        self._host = host
        self._headers = headers
        self._options = options
        self._model = model
        self._clock = clock
        self._proxy = proxy_here(options.proxy)
        self._scraper: Scraper | None = None
        self._scraped: list[Scraped] = []
        self._is_watched = bool(metrics_targets(options.metrics, host))

    def ask(self, manifest: Manifest) -> None:
        """Before load: note what the server says of itself, and which of its pages will be read.

        Raises:
            UsageError: the server says something else than the file of facts.
        """
        facts = self._facts()
        manifest.server_facts_start = facts.plain()
        said = {name: manifest.versions.get(name) for name in ("engine", "engine_version")}
        said |= {name: value for name, value in manifest.server_facts_start.items() if name in FACT_NAMES}
        said["model_id"] = self._options.model  # a name that came from the server's list is nobody's statement
        manifest.facts = combine(self._options.facts, said)
        self._scraped = self._pages(facts.engine)
        manifest.metrics_targets = [scraped.url for scraped in self._scraped]
        manifest.metrics_interval_s = self._options.metrics_interval_s if self._scraped else None
        if facts.engine == "Ollama":
            manifest.ollama = {"start": facts.loaded.plain() if facts.loaded else None, "as_given": as_given()}

    def start(
        self, folder: RunFolder, on_trouble: Callable[[str], None], on_rows: Callable[[Rows], None] = lambda _: None
    ) -> None:
        """Read every page once, and go on until :meth:`finish`.

        Args:
            folder: The run folder, which is there.
            on_trouble: Told why rows cannot be written any longer.
            on_rows: Told of the rows of each page that is read.

        Raises:
            UsageError: the files cannot be written.
        """
        if self._scraped:
            self._scraper = Scraper(
                self._scraped,
                folder,
                self._clock,
                interval_s=self._options.metrics_interval_s,
                on_trouble=on_trouble,
                on_rows=on_rows,
            )
            self._scraper.start()

    def between_stages(self) -> None:
        """Read every page now: what a stage's counters are told from lies right before it and right after it."""
        if self._scraper is not None:
            self._scraper.look()

    def finish(self, manifest: Manifest, path: Path) -> None:
        """After the last stage: read the pages a last time, and ask once more what the server says of itself.

        Never raises: a run is judged whatever becomes of this.

        Args:
            manifest: Gets the facts.
            path: Where it is saved.
        """
        try:
            self._finish(manifest)
            manifest.save(path)
        except OSError as error:
            logger.error("%s cannot be written: %s", error.filename or path, error.strerror)
        except Exception:
            logger.exception("the server's last words were not noted")

    def _finish(self, manifest: Manifest) -> None:
        asking = gevent.spawn(self._facts)
        if self._scraper is not None:
            self._scraper.stop()
        manifest.telemetry_clocks = {
            session: seen
            for scraped in self._scraped
            if isinstance(scraped.reading, MetricsReading)
            for session, clock in scraped.reading.clocks.items()
            if (seen := clock.sample()) is not None
        }
        asking.join(FACTS_S)
        asking.kill()
        facts = asking.value
        if not isinstance(facts, ServerFacts):  # it came to no end
            return
        manifest.server_facts_end = facts.plain()
        if manifest.ollama:
            manifest.ollama["end"] = facts.loaded.plain() if facts.loaded else None

    def abandon(self) -> None:
        """End it, whatever it was at; harmless when it has ended."""
        if self._scraper is not None:
            self._scraper.stop(last_look=False)

    def _facts(self) -> ServerFacts:
        return ServerFacts(self._probe(self._host, self._headers), self._model, metrics=self._is_watched)

    def _probe(self, base: str, headers: Headers[str, str], *, keep_alive: bool = False) -> Probe:
        return Probe(
            base,
            headers,
            ca_file=self._options.ca_file,
            insecure=self._options.insecure,
            proxy=self._proxy,
            clock=self._clock,
            keep_alive=keep_alive,
            most_bytes=MOST_PAGE_BYTES,
        )

    def _pages(self, engine: str | None) -> list[Scraped]:
        """The pages that will be read, each tried once; a person is told of each what it is."""
        own = load_mapping(self._options.metrics_map) if self._options.metrics_map else None
        found = [
            scraped
            for target in metrics_targets(self._options.metrics, self._host)
            if (scraped := self._tried(target, engine, own)) is not None
        ]
        if own is not None and not any(scraped.reading.title == own.title for scraped in found):
            say(
                f"WARNING: --metrics-map {self._options.metrics_map} fits none of the pages: its prefix is on none of them"
            )
        return found

    def _tried(self, target: MetricsTarget, engine: str | None, own: Mapping | None) -> Scraped | None:
        of_host = target.base == metrics_targets((), self._host)[0].base
        if engine == "Ollama" and of_host and target.path == "/metrics":
            target = MetricsTarget(target.base, PS, asked_for=target.asked_for)
        reading = OllamaReading(target.url, self._model) if target.path == PS else MetricsReading(target.url, own)
        headers = headers_for(target, self._host, self._headers)
        scraped = Scraped(target.url, self._probe(target.base, headers, keep_alive=True), target.path, reading)
        error = scraped.try_once(self._clock)
        every = f"every {self._options.metrics_interval_s:g} s"
        if error is None and target.path == PS:
            say(f"no server metrics: Ollama has none; {target.url} is read {every}")
        elif error is None:
            say(f"server metrics: {scraped.reading.title} at {target.url}, read {every}")
        elif target.asked_for:
            say(f"WARNING: --metrics {target.url}: {error}; it is asked again and again during the run")
        else:
            say(f"no server metrics: {target.url}: {error}; --metrics names another page, --metrics-map another engine")
            scraped.probe.close()
            return None
        return scraped
