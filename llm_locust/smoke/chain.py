"""The chain of evidence of one run, link by link: plan, rows, merge, gates, evidence records, report.

Each check compares what two links say: files of the run folder with one another, and all with what the synthetic engine
itself wrote down.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from llm_locust.arrivals import plan_of
from llm_locust.records import ExitCode, Manifest, RunFolder, UsageError
from llm_locust.records.evidence_schema import Violation
from llm_locust.records.generator_bounds import late_words
from llm_locust.records.run import UserChoice
from llm_locust.records.stage_summary import StageSummary
from llm_locust.records.summary import RunSummary
from llm_locust.smoke.locust_run import LocustRun
from llm_locust.smoke.result import Check, Found, failed, not_applicable, passed, undecided
from llm_locust.smoke.server import ID_PREFIX

GRADE = "protocol-only"
"""The only grade that a run against a synthetic engine may earn."""
CHECK_BEFORE_LOAD = ".check"
"""How the id of a request before load ends: no row is of it."""


class Link(NamedTuple):
    """What the checks look at."""

    folder: RunFolder
    manifest: Manifest
    summary: RunSummary
    stage: StageSummary
    truth: list[dict[str, str]]
    """Rows that the engine wrote, those of requests outside the load left out."""


def chain_checks(run: LocustRun, truth_log: Path) -> list[Check]:
    """All links of a run against the synthetic engine.

    Args:
        run: with a single stage of open arrivals, all of whose user classes have the same weight.
        truth_log: what the engine wrote of its requests, whole.
    """
    checks = [Check.of("run", _run(run))]
    folder, manifest, summary, stage = run.folder, run.manifest, run.summary, run.stage
    if folder is None or manifest is None or summary is None or stage is None:
        none = not_applicable("there is no judged run to look at")
        return checks + [Check.of(name, none) for name in LINKS]
    truth = [
        row
        for row in _read(truth_log)
        if not row["request_id"].startswith(ID_PREFIX) and not row["request_id"].endswith(CHECK_BEFORE_LOAD)
    ]
    link = Link(folder, manifest, summary, stage, truth)
    return checks + [Check.of(name, _made(check, link)) for name, check in LINKS.items()]


def _made(check: Callable[[Link], Found], link: Link) -> Found:
    try:
        return check(link)
    except FileNotFoundError as error:
        return failed(f"{Path(error.filename).name} is missing")
    except (UsageError, KeyError, ValueError) as error:
        return failed(f"a file cannot be read: {error}")


def _run(run: LocustRun) -> Found:
    state = run.manifest.state if run.manifest is not None else None
    seen = f"locust, a master and its workers: exit code {run.code}, run {state or 'without a manifest'}"
    # A stage that could not be judged is none of this check: the gates tell of it.
    if run.code in (ExitCode.DONE, ExitCode.UNDECIDED) and state == "complete":
        return passed(seen)
    return failed(f"the run did not end as it should: {run.last_words}", seen)


def _plan(link: Link) -> Found:
    """Made anew from its specification and seed it is the same, by its digest; and every arrival that was due is in it."""
    (stage,) = link.manifest.stages
    planned = _read(link.folder.plan)
    anew = plan_of(stage.spec, [UserChoice(name=name, weight=1.0) for name in link.manifest.users])
    seen = f"{len(planned)} arrivals of {stage.spec.label}, SHA-256 {(stage.plan_sha256 or '-')[:12]}"
    if len({row["index"] for row in planned}) != len(planned) or len(planned) != stage.planned:
        return failed(f"the manifest says that {stage.planned} were due, each once", seen)
    if anew.sha256 != stage.plan_sha256:
        return failed(f"made anew from specification and seed it is another: {anew.sha256[:12]}", seen)
    return passed(seen)


def _rows(link: Link) -> Found:
    """Each planned arrival has one row of its worker, the engine saw each once, and their tokens are the same."""
    own = [path for path in link.folder.request_files() if ".shipped" not in path.name]
    rows = [row for path in own for row in _read(path)]
    users = Counter(row["user"] for row in rows)
    seen = (
        f"{len(rows)} rows of {len(own)} workers ({', '.join(f'{name} {n}' for name, n in sorted(users.items()))}); the "
        f"engine's own log: {len(link.truth)} requests"
    )
    if sorted(row["index"] for row in rows) != sorted(row["index"] for row in _read(link.folder.plan)):
        return failed("rows and planned arrivals are not one to one", seen)
    if set(users) != set(link.manifest.users):
        return failed("a user class sent nothing", seen)
    ours = {row["request_id"]: row["output_tokens"] for row in rows}
    theirs = {row["request_id"]: row["output_tokens"] for row in link.truth}
    if ours != theirs or len(link.truth) != len(rows):
        return failed("the engine saw other requests, or other tokens, than the rows tell of", seen)
    if any(row["outcome"] != "ok" for row in rows):
        outcomes = Counter(row["outcome"] for row in rows)
        return failed(f"not every request came out ok: {dict(outcomes)}", seen)
    return passed(seen)


def _merge(link: Link) -> Found:
    """Counts add up, the workers' rows and the master's copies collapse, and the server's metrics count the same."""
    sums, stage, merged = link.summary.reconciliation, link.stage, _read(link.folder.merged)
    agreement = link.summary.agreement
    seen = (
        f"{sums.planned} planned = {sums.attempted} attempted + {sums.not_sent} not sent + {sums.lost} lost; "
        f"{stage.measured} measured = {stage.successful} ok + {stage.failed} failed; {sums.rows_collapsed} copies; "
        f"{agreement.text if agreement is not None else 'nobody read the metrics'}"
    )
    if sums.planned != sums.attempted + sums.not_sent + sums.lost or stage.measured != stage.successful + stage.failed:
        return failed("the counts do not add up", seen)
    if len(merged) != sums.planned or sums.rows_collapsed != sums.attempted:
        return failed(f"requests.csv has {len(merged)} rows", seen)
    if agreement is None or agreement.differences:
        return failed("client and server do not count the same", seen)
    return passed(seen)


def _gates(link: Link) -> Found:
    """Every gate was decided, and the stage passes: the engine is far from its capacity."""
    verdict, generator = link.stage.verdict, link.stage.generator
    applicable = [gate for gate in verdict.gates if gate.applicable]
    strength = f" ({verdict.strength})" if verdict.strength else ""
    seen = (
        f"{len(applicable)} gates, the stage is {verdict.result}{strength}: {verdict.sentence}; dispatch: "
        f"{late_words(generator.late or 0, generator.dispatched or 0, generator.lag_bound_ms)}"
    )
    if not applicable:
        return failed("no gate was applied", seen)
    if verdict.result == "pass":
        return passed(seen)
    if verdict.result in ("invalid", "undetermined"):
        return undecided("this machine was too busy to judge by its run", seen)
    return failed("a rate far below the engine's capacity should pass", seen)


def _records(link: Link) -> Found:
    """An evidence record for each stage, valid by schema and rules, and of no higher grade than a synthetic engine earns."""
    from llm_locust.analysis.evidence_rules import violations

    paths = sorted(link.folder.records_dir.glob("*.json"))
    found: dict[str, list[Violation]] = {}
    grades = []
    for path in paths:
        document = msgspec.json.decode(path.read_bytes())
        found[path.name] = violations(document)
        grades.append(str(document.get("evidence_grade")) if isinstance(document, dict) else "none")
    seen = f"{len(paths)} valid by the JSON Schema and the rules between fields, grade {', '.join(grades)}"
    if len(paths) != len(link.manifest.stages):
        return failed(f"{len(paths)} records of {len(link.manifest.stages)} stages", seen)
    for name, wrong in found.items():
        if wrong:
            return failed(f"{name}: {wrong[0].field}: {wrong[0].rule}", f"{len(wrong)} violations")
    if set(grades) != {GRADE}:
        return failed(f"a run against a synthetic engine is {GRADE}", seen)
    return passed(seen)


def _report(link: Link) -> Found:
    """Every file for people and programs is there, and says that the engine is synthetic."""
    folder = link.folder
    files = (
        folder.summary,
        folder.report_md,
        folder.report_html,
        folder.worksheet_csv,
        folder.worksheet_md,
        folder.merged,
    )
    missing = [path.name for path in files if not path.is_file() or not path.stat().st_size]
    seen = ", ".join(path.name for path in files if path.name not in missing)
    if missing:
        return failed(f"missing or empty: {', '.join(missing)}", seen)
    silent = [
        p.name for p in (folder.report_md, folder.report_html) if "synthetic" not in p.read_text(encoding="utf-8")
    ]
    if silent or not link.summary.synthetic_engine:
        return failed(f"not called synthetic: {', '.join(silent) or 'summary.json'}", seen)
    return passed(seen)


LINKS: dict[str, Callable[[Link], Found]] = {
    "plan": _plan,
    "rows": _rows,
    "merge": _merge,
    "gates": _gates,
    "evidence records": _records,
    "report": _report,
}
"""The checks of a run that has ended, in the order of the chain."""


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
