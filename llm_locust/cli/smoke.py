"""``llm-locust smoke``: does the whole chain work here, and does a server keep what a load test relies on?"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from llm_locust.records import UsageError


@click.command("smoke")
@click.option("--host", metavar="URL", help="Check this server instead of starting the synthetic engine.")
@click.option("--model", metavar="NAME", help="Which of its models.  [default: the first that it lists]")
@click.option(
    "--api-key-env", metavar="VARIABLE", help="Where its key is.  [default: LLM_LOCUST_API_KEY, OPENAI_API_KEY]"
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME: VALUE", help="Sent to it; @env:VARIABLE for a secret."
)
@click.option(
    "--extra-body", metavar="JSON", help="Fields of every request, e.g. to have a model answer without thinking first."
)
@click.option("--ca-file", metavar="PEM", help="Certificates to trust instead of the system's.")
@click.option("--insecure", is_flag=True, help="Do not verify its certificate.")
@click.option(
    "--ready-timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait for it to be up.  [default: 60]",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Limit of a whole request.  [default: 60]",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the run folder there.  [default: it is removed]",
)
@click.option("--json", "as_json", is_flag=True, help="Print figures and checks as one JSON object.")
def command(run_dir: Path | None, as_json: bool, **of_server: Any) -> None:
    """Start the synthetic engine, speak every dialect, and take one short run through the whole chain of evidence: under
    30 s, and no GPU. With --host, check a server that is there: chat template, end token, output limit, structured output,
    streaming, usage, metrics, token counts and clock, and before them how exactly the load generator keeps its plan.

    The figures that it prints show that they can be made. They are never performance.

    \b
    Exit status: 0 every check passed, or does not apply
                 2 wrong usage, the server is not reached, or it takes no request
                 3 a check failed
                 4 no check failed, and one is undecided
    """
    host = of_server["host"]
    if host is None:
        _refuse(of_server)
    # Only now: Locust, which users come from, patches the standard library for gevent.
    from llm_locust.smoke.host import smoke_host
    from llm_locust.smoke.printing import as_json as json_of
    from llm_locust.smoke.printing import text_lines
    from llm_locust.smoke.simulated import smoke_simulator

    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="llm-locust-smoke-")))
        into = _made(run_dir) if run_dir is not None else home / "runs"
        if host is None:
            result = smoke_simulator(home, into, report=_report, kept=run_dir is not None)
        else:
            result = smoke_host(_access(of_server), home, into, report=_report, kept=run_dir is not None)
    if as_json:
        click.echo(json_of(result).decode())
    else:
        for line in text_lines(result):
            click.echo(line)
    sys.exit(result.exit_code)


def _report(line: str) -> None:
    click.echo(f"smoke: {line}", err=True)


def _made(run_dir: Path) -> Path:
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--run-dir {run_dir}: cannot be made: {error.strerror}") from None
    return run_dir.resolve()


def _refuse(of_server: dict[str, Any]) -> None:
    given = [name for name, value in of_server.items() if value not in (None, (), False)]
    if given:
        flags = ", ".join("--header" if name == "headers" else f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(
            f"{flags}: of which server? Name it with --host URL, or leave them out to try the synthetic engine"
        )


def _access(given: dict[str, Any]) -> Any:
    from llm_locust.smoke.host import Access
    from llm_locust.users.headers import parse_headers

    defaults = Access(host=given["host"])
    return Access(
        host=given["host"],
        model=given["model"],
        api_key_env=given["api_key_env"],
        headers=parse_headers(given["headers"]),
        extra_body=_fields(given["extra_body"]),
        ca_file=given["ca_file"],
        insecure=given["insecure"],
        ready_timeout_s=defaults.ready_timeout_s if given["ready_timeout"] is None else given["ready_timeout"],
        deadline_s=given["deadline"] or defaults.deadline_s,
    )


def _fields(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text is not None else {}
    except msgspec.MsgspecError as error:
        raise UsageError(f"--extra-body: not a JSON object ({error}); write for example '{{\"seed\": 1}}'") from None
