"""``llm-locust simulate``: a synthetic LLM server for trying things out and for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from llm_locust.simulator.faults import FORMS
from llm_locust.simulator.options import Options

_DEFAULTS = Options()
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _GroupedOption(click.Option):
    """An option that is shown under a heading."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


class _GroupedCommand(click.Command):
    """Shows its options heading by heading, in the order in which they are declared."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None:
                sections.setdefault(getattr(parameter, "heading", "Other"), []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def _option(heading: str, *names: str, text: str, **settings: Any) -> Callable[[_Function], _Function]:
    field = names[0].split("/")[0].removeprefix("--").replace("-", "_")
    default = getattr(_DEFAULTS, field)
    if default not in (None, ()) and "multiple" not in settings:
        settings = {"default": default, "show_default": True, **settings}
    return click.option(*names, field, cls=_GroupedOption, heading=heading, help=text, **settings)


_SERVER, _ENGINE, _MEMORY, _TROUBLE = "Server", "Engine", "Memory", "Trouble"


@click.command(cls=_GroupedCommand)
@_option(_SERVER, "--host", text="Address to listen on.")
@_option(_SERVER, "--port", type=int, text="Port to listen on; 0 takes a free one.")
@_option(_SERVER, "--model", text="Name of the one model that it serves.")
@_option(_SERVER, "--api-key-env", metavar="NAME", text="Require the key held by this environment variable.")
@_option(
    _SERVER,
    "--log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    text="Write the true times of each request as CSV.",
)
@_option(_SERVER, "--seed", type=int, text="Replies and faults depend on it.")
@_option(_ENGINE, "--slots", "--num-parallel", type=int, text="Requests that run at once.")
@_option(_ENGINE, "--queue-limit", "--max-queue", type=int, text="Waiting requests beyond which the next gets 503.")
@_option(_ENGINE, "--prefill-tps", type=float, text="Prompt tokens prefilled per second.")
@_option(_ENGINE, "--decode-ms", type=float, text="Milliseconds per token of a request alone.")
@_option(
    _ENGINE, "--batch-slowdown", type=float, text="What each further running request adds to a token, as a share of it."
)
@_option(_ENGINE, "--output-tokens", type=int, text="Length of a reply when the request sets no limit.")
@_option(_ENGINE, "--load-seconds", type=float, text="Cold load of the model on its first use, and after an unload.")
@_option(_ENGINE, "--loading-seconds", type=float, text="After the start, answer 503 to everything but /metrics.")
@_option(_MEMORY, "--max-model-len", type=int, text="Context: tokens of prompt and reply together.")
@_option(_MEMORY, "--model-gb", type=float, text="Gigabytes (1e9 bytes) that /api/ps says the loaded model takes.")
@_option(_MEMORY, "--vram-share", type=float, text="... and the part of them that it says is GPU memory, 0 to 1.")
@_option(_MEMORY, "--kv-blocks", type=int, text="Blocks of the KV cache.  [default: enough for every slot]")
@_option(_MEMORY, "--block-size", type=int, text="Tokens per block.")
@_option(_MEMORY, "--prefix-caching/--no-prefix-caching", text="Share the full blocks of equal prompt beginnings.")
@_option(
    _TROUBLE,
    "--fault",
    multiple=True,
    metavar="FAULT:SHARE",
    text=f"Deal this fault to a share of the requests; may be repeated. Faults: {FORMS}. "
    "N counts tokens before it strikes. The header X-Simulate-Fault: FAULT asks for exactly one.",
)
@_option(_TROUBLE, "--latency-ms", type=float, text="Hold every request back before it is looked at.")
@_option(_TROUBLE, "--bandwidth-kbps", type=float, text="Kilobits per second of each connection.")
def command(**settings: Any) -> None:
    """Serve a synthetic LLM over the OpenAI and Ollama APIs, with the metrics of vLLM.

    It generates words at a pace that follows from the options by arithmetic: what is measured on it is the client, never
    a performance. It prints "listening on URL" when it is ready and ends on Ctrl-C or SIGTERM.

    \b
    llm-locust simulate --port 8000 --slots 4 --decode-ms 20
    llm-locust simulate --port 0 --fault status=503:0.05 --fault cut:3:0.01
    """
    options = Options(**settings)
    from llm_locust.simulator.server import serve  # gevent is slow to import, and --help needs none of it

    serve(options)
