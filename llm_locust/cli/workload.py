"""``llm-locust workload export``: the prompts of a run as a file that can be sent again, and that vLLM's bench reads."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from llm_locust.records import UsageError
from llm_locust.records.run import TokenRule


@click.group("workload")
def command() -> None:
    """Look at what a run sends."""


@command.command(
    "export", context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def export(arguments: tuple[str, ...]) -> None:
    """Write prompts to OUT.jsonl: export OUT.jsonl --count N [the options of the run]."""
    # Its options are those of a run, so its parser is Locust's.
    given = _parse(arguments)
    from llm_locust.plugin.options import read_options
    from llm_locust.workload import load_workload, needs_counting
    from llm_locust.workload.export import export_lines

    options = read_options(given)
    spec = options.workload
    if needs_counting(spec):
        rule = _rule(given.host, options, given.completions)
        spec = msgspec.structs.replace(spec, tokens=rule)
        click.echo(f"Lengths: {rule.counted_by}", err=True)
    workload = load_workload(spec)
    count = given.count or workload.facts.prompts
    if count is None:
        raise UsageError("--count is missing: these prompts have no end, so how many? Give --count N")
    written = 0
    try:
        with Path(given.out).open("wb") as out:
            for line in export_lines(workload, count):
                out.write(line)
                written += 1
    except OSError as error:
        raise UsageError(f"{given.out}: {error.strerror}") from None
    click.echo(f"{written:,} lines in {given.out} ({workload.facts.kind}); send them with --prompts {given.out}")


def _parse(arguments: tuple[str, ...]) -> Namespace:
    from locust.argument_parser import LocustArgumentParser

    from llm_locust.plugin.option_table import add_options

    parser = LocustArgumentParser(
        prog="llm-locust workload export",
        description="Write the prompts of a run to a file. Sent again with --prompts, they are the same bit for bit.",
        add_config_file_help=False,
        default_config_files=[],
    )
    parser.add_argument("out", metavar="OUT.jsonl", help="The file to write")
    parser.add_argument("--count", type=_count, metavar="N", help="Arrivals. Default: all of a file's")
    parser.add_argument("--host", metavar="URL", help="The server whose tokens made-up lengths are counted in")
    parser.add_argument(
        "--completions", action="store_true", help="Lengths are those of text completions, without a chat template"
    )
    add_options(parser)
    given: Namespace = parser.parse_args(list(arguments))
    return given


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _rule(host: str | None, options: Any, completions: bool) -> TokenRule:
    """How lengths are counted: by the server when it is named, by a file, or not at all."""
    from llm_locust.plugin.workload_options import AUTO, ESTIMATE, SERVER
    from llm_locust.telemetry.probe import Probe
    from llm_locust.telemetry.target import ask_target
    from llm_locust.telemetry.tokenizing import CannotCount, FileTokenizer, ServerTokenizer, Tokenizer
    from llm_locust.users.headers import proxy_here, request_headers
    from llm_locust.workload.calibration import NotAdditive, calibrate

    asked = options.tokenizer
    if asked == ESTIMATE or (asked == AUTO and host is None):
        return TokenRule()
    if asked == SERVER and host is None:
        raise UsageError("--tokenizer server: which? Name it with --host")
    model = options.model
    if asked not in (AUTO, SERVER):
        tokenizer: Tokenizer = FileTokenizer(asked)
    else:
        assert host is not None
        headers = request_headers(options.api_key_env, options.headers, basic_auth_env=options.basic_auth_env)
        route: dict[str, Any] = {
            "ca_file": options.ca_file,
            "insecure": options.insecure,
            "proxy": proxy_here(options.proxy),
        }
        models = ask_target(host, headers, **route).models
        model = model or (models[0] if models else None)
        try:
            tokenizer = ServerTokenizer(Probe(host, headers, keep_alive=True, most_bytes=1 << 26, **route))
        except CannotCount as why:
            raise UsageError(f"{host} cannot count tokens: {why}. Give --tokenizer estimate, or a file") from None

    def tokens(text: str) -> Sequence[object]:
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {"prompt": text} if completions else {"messages": [{"role": "user", "content": text}]}
        return tokenizer.tokens(body)

    try:
        return calibrate(
            tokens, source="file" if isinstance(tokenizer, FileTokenizer) else "server", counted_by=tokenizer.counted_by
        )
    except (NotAdditive, CannotCount) as why:
        raise UsageError(f"{tokenizer.counted_by}: {why}. Give --tokenizer estimate") from None
