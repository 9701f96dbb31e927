"""The metrics pages that a run kept, read once more by a mapping that came after it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from llm_locust.records import RunFolder, UsageError
from llm_locust.records.server_sample import ServerSample
from llm_locust.telemetry.metrics import load_mapping, read_page, server_sample
from llm_locust.telemetry.metrics.exposition import read_exposition
from llm_locust.telemetry.raw_pages import SUFFIX, read_raw_pages


class ReadAnew(NamedTuple):
    """The samples of a run with those of the mapping's pages in place of what was made of them in the run."""

    samples: list[ServerSample]
    pages: int
    """Pages that the mapping recognised."""
    title: str
    """Of the mapping."""


def keep_mapping(folder: RunFolder, given: Path) -> None:
    """Put a mapping into the run folder, where every later reading finds it.

    Raises:
        UsageError: it cannot be read or used, or recognises none of the pages that the run kept.
    """
    if read_anew(folder, [], given).pages == 0:
        kept = sorted(path.name for path in folder.raw_metrics_dir.glob(f"*{SUFFIX}"))
        raise UsageError(
            f"--metrics-map {given}: its prefix is on none of the pages in {folder.raw_metrics_dir} "
            f"({', '.join(kept) or 'none were kept'}): correct it, or merge without it"
        )
    if given.resolve() != folder.metrics_map.resolve():
        shutil.copyfile(given, folder.metrics_map)


def read_anew(folder: RunFolder, samples: Sequence[ServerSample], mapping: Path) -> ReadAnew:
    """Read the kept pages that a mapping recognises.

    Args:
        folder: The run folder.
        samples: Those of ``server.csv``; the row of a page that is read anew gives way to its new one.
        mapping: A mapping file.

    Raises:
        UsageError: the mapping cannot be read or used, or a file of pages is none.
    """
    by = load_mapping(mapping)
    before = {(sample.target, sample.at_ns): sample for sample in samples}
    pages = 0
    for path in sorted(folder.raw_metrics_dir.glob(f"*{SUFFIX}")):
        for page in read_raw_pages(path):
            if not by.recognises(read_exposition(page.body, ()).names):
                continue
            key = (page.target, page.at_ns)
            scrape_ms = before[key].scrape_ms if key in before else None
            read = read_page(page.body, by)
            before[key] = server_sample(read, at_ns=page.at_ns, target=page.target, scrape_ms=scrape_ms)
            pages += 1
    return ReadAnew(sorted(before.values(), key=lambda sample: sample.at_ns), pages, by.title)
