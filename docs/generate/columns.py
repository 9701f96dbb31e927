"""``files.md``: every file of a run folder, and the columns of those that are tables."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from docs.generate.fields import fields_of, inner
from docs.generate.markdown import code, page, section, table, text

DERIVED = {
    "ttft_ms": "first_output - sent: time to first token.",
    "tpot_ms": "(complete - first_output) / (output_tokens - 1): time per output token after the first. Empty below two "
    "tokens, and where all tokens came at one receive time.",
    "e2e_ms": "complete - sent.",
    "ntpot_ms": "(complete - sent) / output_tokens.",
    "tail_ms": "end - complete: a late usage event or end marker; part of no other figure.",
    "dispatch_lag_ms": "dispatched - planned: the load generator was late.",
    "cap_wait_ms": "sent - dispatched: held back by ``--max-in-flight``.",
    "client_wait_ms": "sent - planned: both together.",
    "arrival_ttft_ms": "first_output - planned.",
    "arrival_e2e_ms": "complete - planned.",
    "max_gap_ms": "The longest gap between two output events.",
    "tpot_state": "``value``, ``not_applicable`` (fewer than two tokens) or ``missing``; of ok requests only.",
    "max_gap_state": "The same for the longest gap.",
    "good": "1: ok and every chosen limit met; 0: not; empty: no limit was chosen, or it cannot be told.",
}


def files_page() -> str:
    """What lies in a run folder."""
    from llm_locust.analysis.derived import DERIVED_COLUMNS
    from llm_locust.dispatch.messages import Progress
    from llm_locust.records import Manifest, PlanRow, RequestRecord, RunFolder, StageManifest, StageSpec, WorkloadFacts
    from llm_locust.records.device_sample import DeviceSample
    from llm_locust.records.manifest import StageWorker
    from llm_locust.records.server_sample import ServerSample
    from llm_locust.report.worksheet_columns import GROUPS

    files = [
        (code(doc.split("``")[1]), text(doc.partition("``")[2].partition("``")[2].lstrip(": ").capitalize()))
        for name, kept in vars(RunFolder).items()
        if isinstance(kept, property) and name != "run_id" and (doc := kept.fget.__doc__ or "").startswith("``")
    ]
    worksheet = [
        (group, column.name, column.unit, code(column.field or "")) for group, columns in GROUPS for column in columns
    ]
    manifest = {
        "The run": Manifest,
        "workload": WorkloadFacts,
        "stages[]": StageManifest,
        "stages[].spec": StageSpec,
        "stages[].workers[]": StageWorker,
    }
    return page(
        "Files of a run folder",
        "A run leaves a folder `runs/<run_id>/`. Empty cells and `null` mean *not measured*; 0 is only ever a measured 0. "
        "Units are in the names: `_ns` Unix nanoseconds (or nanoseconds, where a duration), `_ms` milliseconds, `_rps` per "
        "second; shares run from 0 to 1.",
        section("The files", table(("file", "what it is"), files)),
        section(
            "requests/worker-K.csv",
            "One row per arrival that came to an end, written by worker K while the run goes on; "
            "`worker-K.shipped.csv` is the master's copy of it. Times are those of the worker's own clock. What an "
            "`outcome` means: [judging](judging.md#outcomes-of-a-request).",
            _columns(RequestRecord),
        ),
        section(
            "requests.csv",
            "The same columns for all workers together, times on the master's clock, and these after them:",
            table(("column", "what it is"), ((code(name), text(DERIVED[name])) for name in DERIVED_COLUMNS)),
        ),
        section(
            "plan.csv, and requests/worker-K.issued.csv",
            text(
                "``plan.csv`` has a row for each open arrival that was due. Closed loops and follow-up turns have no plan: "
                "their row stands in the worker's ``issued`` file, written before the request is sent."
            ),
            _columns(PlanRow),
        ),
        section(
            "generator.csv",
            "Per worker and about twice a second, how far the stage is and the load generator's own health. Each row begins "
            "with `worker`, the K of `worker-K.csv`, and has then:",
            _columns(Progress),
        ),
        section(
            "server.csv",
            "One row per reading of a metrics page. Counters are as the page has them, since the server's start. Which "
            "metric of which engine a column is: [metrics](metrics.md).",
            _columns(ServerSample),
            *_parts(ServerSample),
        ),
        section(
            "devices.csv",
            "One row per sample of a GPU or of a tree of processes.",
            _columns(DeviceSample),
        ),
        section(
            "worksheet.csv",
            "One row per stage, in four groups of columns. The last column here names the field of the "
            "[evidence record](record.md) that says the same.",
            table(("group", "column", "unit", "record"), worksheet),
        ),
        section(
            "manifest.json",
            "Everything needed to run it again.",
            *(section(title, _columns(contract), level=3) for title, contract in manifest.items()),
            *_parts(Manifest, *manifest.values()),
        ),
    )


def _columns(contract: type[msgspec.Struct]) -> str:
    rows = ((code(f.name), text(f.kind), text(f.meaning)) for f in fields_of(contract))
    return table(("name", "type", "what it is"), rows)


def _parts(contract: type[msgspec.Struct], *told: type[msgspec.Struct]) -> Iterator[str]:
    """What the values of its fields are made of, but for what is told already."""
    for kind in inner(contract):
        if kind not in told:
            yield section(kind.__name__, text(kind.__doc__), _columns(kind), level=3)
