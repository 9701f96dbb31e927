"""``llm-locust matrix``: many scenarios as one thing, planned, tried on the simulator, run and resumed."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from llm_locust.records import ExitCode, UsageError

MODES = ("dry-run", "protocol-smoke", "run")


@click.command("matrix")
@click.option("--mode", type=click.Choice(MODES), required=True, help="What to do; see above.")
@click.option(
    "--output-dir",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where plan, run folders and results go, and where an interrupted matrix is gone on with.",
)
@click.option(
    "--config",
    default="vllm",
    show_default=True,
    metavar="FILE.toml",
    help="The matrix: a file, or the name of a shipped one (vllm, llama_cpp); llm-locust paths says where those are.",
)
def command(mode: str, output_dir: Path, config: str) -> None:
    """Run every combination of engine settings, prompts and requests in flight, three rounds each, and grade each.

    \b
    dry-run         write the plan and every command: of the engines, ours, and of vllm bench serve; send nothing. Again,
                    after a change: written anew, and what only the earlier plan had written is removed
    protocol-smoke  all scenarios, short, on the simulator: it shows that they can be run, never how fast
    run             start each engine (or use those that run), load it, keep everything, go on after a break

    The matrix is a TOML file. The shipped one is of vLLM 0.25.1: 36 scenarios, {baseline, prefix caching, chunked prefill} x
    {512, 2K, 8K, mixed} x {1, 4, 16} in flight. Copy it and fill in the model. An engine that does not start, or a run that
    fails, is named in the results, and the others go on; started again with the same folder, only those are made.

    \b
    llm-locust matrix --mode protocol-smoke --output-dir smoke
    llm-locust matrix --mode run --config my-matrix.toml --output-dir results

    \b
    Exit status: 0 every scenario was run (of a smoke test: and came out as asked)
                 2 wrong usage: a key of the file, a placeholder that is left, a folder of another matrix
                 4 some scenario was not run, or was interrupted; matrix.md says which and why
    """
    from llm_locust.matrix import read_config, run_matrix, write_plan
    from llm_locust.matrix.commands import smoke_config
    from llm_locust.matrix.ledger import read_state
    from llm_locust.matrix.plan_files import plan_summary
    from llm_locust.matrix.results_files import MARKDOWN

    matrix = read_config(config)
    if mode == "protocol-smoke":
        matrix = smoke_config(matrix)
    output_dir = output_dir.resolve()
    if mode == "dry-run":
        if read_state(output_dir) is not None:
            raise UsageError(f"--output-dir {output_dir} holds a matrix that was begun: give the plan another folder")
        for path in write_plan(matrix, mode, output_dir):
            click.echo(path)
        for line in plan_summary(matrix):
            click.echo(line)
        return
    output_dir.mkdir(parents=True, exist_ok=True)
    results = run_matrix(matrix, mode, output_dir, _say)
    click.echo(f"{results.measured} of {len(results.rows)} scenarios were run: {output_dir / MARKDOWN}")
    if not results.complete:
        if results.measured < len(results.rows):
            click.echo("the same command goes on with the rest", err=True)
        sys.exit(ExitCode.UNDECIDED)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # that nobody reads it any more is no reason to stop
        click.echo(line, err=True)
