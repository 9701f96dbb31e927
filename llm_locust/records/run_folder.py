"""Where the files of a run are, by name. Every reader and writer asks here."""

from __future__ import annotations

from pathlib import Path

from llm_locust.records.errors import UsageError

MANIFEST = "manifest.json"


class RunFolder:
    """``<run-dir>/<run_id>/``: the files of one run.

    A worker writes ``requests/worker-<k>.csv`` and, for arrivals without a prior plan,
    ``requests/worker-<k>.issued.csv`` where it runs. What it ships, the master keeps as ``*.shipped.csv`` beside them;
    on one machine both are there, and the merge collapses identical rows.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def run_id(self) -> str:
        """The run id: the folder's own name."""
        return self.path.resolve().name

    @property
    def manifest(self) -> Path:
        """``manifest.json``."""
        return self.path / MANIFEST

    @property
    def facts(self) -> Path:
        """``facts.toml``: what a person knows of the server, written after the run; there when somebody wrote it."""
        return self.path / "facts.toml"

    @property
    def plan(self) -> Path:
        """``plan.csv``."""
        return self.path / "plan.csv"

    @property
    def requests_dir(self) -> Path:
        """``requests/``."""
        return self.path / "requests"

    @property
    def generator(self) -> Path:
        """``generator.csv``: per worker and second, the load generator's own health."""
        return self.path / "generator.csv"

    @property
    def server_csv(self) -> Path:
        """``server.csv``: what the server's metrics pages said, a row per page."""
        return self.path / "server.csv"

    @property
    def devices_csv(self) -> Path:
        """``devices.csv``: samples of GPUs and processes of the machine under test."""
        return self.path / "devices.csv"

    @property
    def raw_metrics_dir(self) -> Path:
        """``raw_metrics/``: the metrics pages themselves, as they came."""
        return self.path / "raw_metrics"

    @property
    def metrics_map(self) -> Path:
        """``metrics-map.toml``: a mapping that came after the run, to read those pages by; there when somebody gave one."""
        return self.path / "metrics-map.toml"

    @property
    def merged(self) -> Path:
        """``requests.csv``: merged, on the master's clock, with derived columns."""
        return self.path / "requests.csv"

    @property
    def records_dir(self) -> Path:
        """``records/``: one evidence record per stage and round."""
        return self.path / "records"

    @property
    def summary(self) -> Path:
        """``summary.json``."""
        return self.path / "summary.json"

    @property
    def report_md(self) -> Path:
        """``report.md``."""
        return self.path / "report.md"

    @property
    def report_html(self) -> Path:
        """``report.html``."""
        return self.path / "report.html"

    @property
    def charts_dir(self) -> Path:
        """``charts/``: the data of each chart of the report, as CSV."""
        return self.path / "charts"

    @property
    def worksheet_csv(self) -> Path:
        """``worksheet.csv``: a row per stage and burst, for a spreadsheet."""
        return self.path / "worksheet.csv"

    @property
    def worksheet_md(self) -> Path:
        """``worksheet.md``: the same rows, for reading."""
        return self.path / "worksheet.md"

    def worker_csv(self, worker: int, *, issued: bool = False, shipped: bool = False) -> Path:
        """The request (or issued) rows of one worker, its own copy or the master's."""
        return self.requests_dir / f"worker-{worker}{'.issued' if issued else ''}{'.shipped' if shipped else ''}.csv"

    def request_files(self) -> list[Path]:
        """Every file of request rows, sorted."""
        return sorted(p for p in self.requests_dir.glob("worker-*.csv") if ".issued" not in p.name)

    def issued_files(self) -> list[Path]:
        """Every file of issued rows, sorted."""
        return sorted(self.requests_dir.glob("worker-*.issued*.csv"))


def require_run(path: Path) -> None:
    """Refuse what is no run folder, before anything else is looked at.

    Raises:
        UsageError: as :func:`why_no_run` says.
    """
    if (why := why_no_run(path)) is not None:
        raise UsageError(why)


def why_no_run(path: Path) -> str | None:
    """Why a path is not a run folder, and which was perhaps meant; ``None`` when it is one.

    The newest run inside, or beside what is not there, is the one whose manifest was written last.
    """
    if (path / MANIFEST).exists():
        return None
    if path.is_dir():
        newest = _newest(path)
        hint = f"{newest} is the newest in it" if newest else "name a folder that a run has left (runs/... by default)"
        return f"{path} is not a run folder: it has no {MANIFEST}; {hint}"
    if path.exists():
        inside = (path.parent / MANIFEST).exists()
        hint = f"{path.parent} is the run folder that it is in" if inside else "name the folder of a run"
        return f"{path} is not a run folder, but a file; {hint}"
    newest = _newest(path.parent)
    hint = f"{newest} is the newest beside it" if newest else "name the folder of a run"
    return f"{path} is not a run folder: there is no such folder; {hint}"


def _newest(path: Path) -> Path | None:
    try:
        written = [(found.stat().st_mtime_ns, found.parent) for found in path.glob(f"*/{MANIFEST}")]
    except OSError:  # what may not be looked into
        return None
    return max(written)[1] if written else None
