"""``llm-locust gate``: hold a judged run to gates and requirements, or runs to what a release requires, by exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from llm_locust.cli.gate_option import gate_option, given_gates
from llm_locust.records import Manifest, Requirements, RunFolder, UsageError
from llm_locust.records.gates import parse_gate
from llm_locust.records.run_folder import require_run
from llm_locust.records.summary import RunSummary


@click.command("gate")
@click.argument("run", type=click.Path(path_type=Path))
@gate_option("What a stage must hold to pass instead of what the run was started with", metavar="[RUN]...")
@click.option(
    "--require-rate", type=click.FloatRange(min=0, min_open=True), help="A rate of at least this was sustained."
)
@click.option("--require-pass", is_flag=True, help="Every stage passed (so it is when nothing else is required).")
@click.option(
    "--release", is_flag=True, help="Hold RUN, or several of one service together, to what a published figure requires."
)
@click.option(
    "--envelope",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.json",
    help="With --release: where the envelope goes, its page beside it. Default: envelope.json in the first RUN.",
)
@click.option(
    "--price-per-hour",
    type=click.FloatRange(min=0, min_open=True),
    help="With --release: what the machines under test cost per hour, in place of what the runs were given.",
)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write the verdicts as JUnit XML.")
@click.option(
    "--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary for the page of a CI run."
)
def command(
    run: Path,
    more: tuple[str, ...],
    gates: tuple[str, ...],
    require_rate: float | None,
    require_pass: bool,
    release: bool,
    envelope: Path | None,
    price_per_hour: float | None,
    junit: Path | None,
    markdown: Path | None,
) -> None:
    """Say stage by stage and slice by slice whether the merged run folder RUN holds its gates and its requirements.

    They are its own, fixed before load, or those given here, which count as set after the run. With no requirement of
    either kind every stage must pass.

    With --release the runs must show what a published figure must show: limits and gates chosen before load, P95, P99 and
    the error rate gated, every gate signed in three rounds, memory and cost known, evidence of the grade performance, a
    representative workload. Then what may be published is written: envelope.json and envelope.md. Else every reason is said.

    \b
    Exit status: 0 every requirement is met
                 2 wrong usage, or nothing was sent
                 3 a requirement is not met: a release is refused
                 4 work was lost, or what decides is invalid or undetermined
    """
    require_run(run)
    asked = Requirements(rate_rps=require_rate, every_stage=require_pass)
    if release:
        if gates:
            raise UsageError(
                "--gate with --release: gates set after the run never earn a release; leave it out, or run again with it"
            )
        for other in map(Path, more):
            require_run(other)
        sys.exit(_release([run, *map(Path, more)], asked, envelope, price_per_hour, junit, markdown))
    for option, given in (("--envelope", envelope), ("--price-per-hour", price_per_hour)):
        if given is not None:
            raise UsageError(f"{option} goes with --release; add that, or leave {option} out")
    if not gates and more and Path(more[0]).is_dir():
        raise UsageError(f"{more[0]}: several runs go with --release; without it, name one")
    sys.exit(_gate(run, asked, gates, more, junit, markdown))


def _gate(
    run: Path,
    asked: Requirements,
    gates: tuple[str, ...],
    more: tuple[str, ...],
    junit: Path | None,
    markdown: Path | None,
) -> int:
    from llm_locust.analysis.judgement import conclude, exit_code
    from llm_locust.report.ci_summary import render_ci_summary
    from llm_locust.report.gate_lines import gate_lines
    from llm_locust.report.junit import junit_xml

    given = given_gates(gates, more)
    folder = RunFolder(run)
    summary = RunSummary.load(folder.summary)
    own = Manifest.load(folder.manifest).requirements
    chosen_here = asked != Requirements() or own == Requirements()
    if asked == Requirements():
        asked = own if own != Requirements() else Requirements(every_stage=True)
    summary = conclude(
        summary,
        [parse_gate(text) for text in summary.gates] if given is None else given,
        summary.gates_set if given is None else "after",
        asked,
        "after" if chosen_here else "before",
    )
    _write(junit, lambda: junit_xml(summary))
    _write(markdown, lambda: render_ci_summary(summary).encode())
    for line in gate_lines(summary):
        click.echo(line)
    return exit_code(summary)


def _release(
    runs: list[Path],
    asked: Requirements,
    envelope: Path | None,
    price_per_hour: float | None,
    junit: Path | None,
    markdown: Path | None,
) -> int:
    from llm_locust.report.junit import release_xml
    from llm_locust.report.release import envelope_path, release_folders, write_envelope
    from llm_locust.report.release_lines import release_lines, render_release

    path = envelope_path(runs[0], envelope)
    verdict = release_folders(runs, asked, price_per_hour)
    _write(junit, lambda: release_xml(verdict))
    _write(markdown, lambda: render_release(verdict).encode())
    for line in [*release_lines(verdict), *write_envelope(verdict, path)]:
        click.echo(line)
    return verdict.exit_code


def _write(path: Path | None, content: Callable[[], bytes]) -> None:
    """Write a file that was asked for."""
    if path is None:
        return
    try:
        path.write_bytes(content())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
