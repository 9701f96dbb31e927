"""``llm-locust decode``: what the decoder makes of a raw HTTP response in a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from llm_locust.cli.locustfile_option import import_locustfile, locustfile_option
from llm_locust.records import UsageError
from llm_locust.streaming import DIALECTS, Reply, ReplyDecoder, get_dialect

FIELDS = (
    "outcome", "status", "error", "text", "reasoning", "output_events", "output_tokens", "output_tokens_source",
    "finish_reason", "prompt_tokens", "reasoning_tokens", "cached_tokens", "load_duration_ns",
)  # fmt: skip

_CHUNKED = re.compile(rb"(?im)^transfer-encoding:[^\r\n]*chunked[ \t]*\r\n")
_CHUNK_SIZE_LINE = re.compile(rb"[0-9A-Fa-f]+[ \t]*(?:;[^\r\n]*)?\r\n")


def decode(raw: bytes, dialect: str, *, split: int | None = None, streamed: bool = True) -> Reply:
    """Feed a whole response, in pieces of ``split`` bytes (default: one piece), as if the server then closed."""
    decoder = ReplyDecoder(get_dialect(dialect), streamed=streamed, keep_text=True)
    size = split or max(len(raw), 1)
    read = 0
    for read, start in enumerate(range(0, len(raw), size)):
        decoder.feed(raw[start : start + size], read)
    decoder.close(read + 1)
    return decoder.finish(read + 1)


def without_chunked_header(raw: bytes) -> bytes | None:
    """The response with its chunked header removed, if its body has no chunks but plainly begins a stream; else ``None``.

    ``curl -i`` without ``--raw`` saves responses so.
    """
    head, blank, body = raw.partition(b"\r\n\r\n")
    chunked = _CHUNKED.search(head + b"\r\n")
    if not chunked or _CHUNK_SIZE_LINE.match(body) or not re.match(rb"\s*(?:data:|event:|id:|retry:|:|\{)", body):
        return None
    return _CHUNKED.sub(b"", head + b"\r\n", count=1).removesuffix(b"\r\n") + blank + body


@click.command("decode")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--dialect",
    metavar="NAME",
    help=f"How the reply is to be read: {', '.join(DIALECTS)}, or one that FILE of -f registers.  [default: the only one "
    "that it registers]",
)
@locustfile_option("A locustfile that registers a dialect of its own.")
@click.option("--split", type=click.IntRange(min=1), metavar="N", help="Feed the file in pieces of N bytes.")
@click.option("--no-stream", is_flag=True, help="Expect one JSON object instead of a stream.")
def command(file: BinaryIO, dialect: str | None, locustfile: Path | None, split: int | None, no_stream: bool) -> None:
    """Decode the raw HTTP response in FILE and print, as JSON, what a load test would record of it.

    FILE holds the bytes of one response as they came over the wire, head first ("-" reads standard input).
    """
    own = [] if locustfile is None else _registered_by(locustfile)
    name = dialect if dialect is not None else _only(own, locustfile)
    get_dialect(name)
    raw = file.read()
    dechunked = without_chunked_header(raw)
    if dechunked is not None:
        click.echo("note: the head says chunked, the body has no chunks (as curl -i saves it); read without", err=True)
        raw = dechunked
    reply = decode(raw, name, split=split, streamed=not no_stream)
    shown = {name: getattr(reply, name) for name in FIELDS}
    click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())


def _registered_by(locustfile: Path) -> list[str]:
    before = dict(DIALECTS)
    import_locustfile(locustfile)
    return [name for name, dialect in DIALECTS.items() if dialect is not before.get(name)]


def _only(own: list[str], locustfile: Path | None) -> str:
    if len(own) == 1:
        return own[0]
    if own:
        raise UsageError(f"--locustfile {locustfile} registers {', '.join(own)}: choose one with --dialect NAME")
    if locustfile is not None:
        raise UsageError(
            f"--locustfile {locustfile} registers no dialect: add register_dialect(...) to it, or choose one of "
            f"{', '.join(DIALECTS)} with --dialect NAME"
        )
    raise UsageError(
        f"--dialect is missing: choose one of {', '.join(DIALECTS)}, or give the file that registers your own with -f FILE"
    )
