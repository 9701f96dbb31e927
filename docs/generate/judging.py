"""``judging.md``: outcomes, limits, gates and their figures, results, exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from docs.generate.fields import fields_of
from docs.generate.markdown import code, codes, page, section, table, text
from docs.generate.source import members

if TYPE_CHECKING:
    from llm_locust.records import ExitCode

LIMITS = {
    "ttft": "first output - sent",
    "tpot": "(complete - first output) / (output tokens - 1)",
    "e2e": "complete - sent",
    "max_gap": "the longest gap between two output events",
    "arrival_ttft": "first output - planned",
    "arrival_e2e": "complete - planned",
    "quality": "no number: the reply passed its check (`--quality`, or the user class's own)",
}

RESULTS = {
    "pass": "every gate holds",
    "fail": "a gate does not hold",
    "undetermined": "a gate's figure was not measured, or there are too few requests to tell; never a pass",
    "invalid": "the load generator was not valid, or the server was not the same at the end: nothing is said of the server",
    "not_run": "the stage was never begun",
}


def judging_page() -> str:
    """What is decided, by what, and how it is said."""
    return page(
        "Outcomes, limits, gates, exit codes",
        "How a request, a stage and a run are judged.",
        _outcomes(),
        _limits(),
        _gates(),
        _results(),
        _exit_codes(),
    )


def _outcomes() -> str:
    from llm_locust.records import UNATTEMPTED, outcomes

    docs = members(outcomes, "Outcome")
    return section(
        "Outcomes of a request",
        "One per arrival. The first that matches wins, in this order. Everything but `ok` counts as failed and stays in the "
        f"denominator; {codes(sorted(UNATTEMPTED))} were not attempted. What to look at: [errors](errors.md#outcomes).",
        table(("outcome", "what it is"), ((code(outcome), text(docs[outcome.name])) for outcome in outcomes.Outcome)),
    )


def _limits() -> str:
    from llm_locust.records import SLO_NAMES

    return section(
        "Limits of a good request (`--slo`)",
        "Milliseconds, judged request by request and jointly: a request is *good* when it is ok and meets every chosen "
        "limit. A value equal to its limit meets it. There are none built in.",
        table(("name", "what is held to it"), ((code(name), LIMITS[name]) for name in SLO_NAMES)),
    )


def _gates() -> str:
    from llm_locust.records import gates

    described = {**gates.SERVER_LEVELS, **gates.SERVER_PERCENTS}
    shares = table(
        ("figure", "held by"), ((code(name), code(f"{name}{side}...")) for name, side in gates.SHARES.items())
    )
    latencies = table(("latency", "what it is"), ((code(name), text(said)) for name, said in gates.LATENCIES.items()))
    server = table(("figure", "what it is"), ((code(name), text(said)) for name, said in described.items()))
    defaults = table(("default gate",), ((code(gates.format_gate(gate)),) for gate in gates.DEFAULT_GATES))
    percentiles = codes(f"p{percent}" for percent in gates.PERCENTS)
    counts = codes(figure.name for figure in gates.GATE_FIGURES.values() if figure.kind == "count")
    return section(
        "Gates of a stage (`--gate`)",
        "`[SLICE:]FIGURE<=LIMIT` (or `>=`, `=`). Latencies are in milliseconds, shares from 0 to 1, `_pct` from 0 to 100, "
        "counts whole numbers, a trend is `flat`. Without a slice a gate is about all requests of a stage; `*:` holds every "
        "slice to it, each alone.",
        section(
            "Latencies",
            f"With a percentile, {percentiles}: `ttft_p95<=1000`. {codes(gates.WITH_FAILURES)} also with "
            "failures as infinity: `ttft_p95_all`.",
            latencies,
            level=3,
        ),
        section(
            "Shares, goodput, trends",
            f"`goodput>=2` is in requests per second; {codes(gates.TRENDS)} are held to `flat`: `waiting_trend=flat`.",
            shares,
            level=3,
        ),
        section("Counts", f"{counts}, and `http_503` and the like for any HTTP status: `http_503=0`.", level=3),
        section("Of the server", "What its metrics page says; no slice has one of its own.", server, level=3),
        section(
            "Defaults",
            "What a stage is held to when no gate was chosen: the first only where there are limits "
            "(`--slo`), the last only where the server told how many requests waited. The last three belong to any pass, "
            "also beside chosen gates.",
            defaults,
            level=3,
        ),
    )


def _results() -> str:
    from typing import get_args

    from llm_locust.records.stage_summary import GeneratorHealth, Result

    return section(
        "Results of a stage",
        table(("result", "when"), ((code(result), RESULTS[result]) for result in get_args(Result))),
        "A pass or a fail is `signed` when the confidence interval of what decides clears the limit, else `candidate`: run "
        "longer. A rate over several rounds passes only if every round does.",
        section(
            "What makes a generator invalid",
            text(GeneratorHealth.__doc__) + " Its figures:",
            table(
                ("field", "what it is"),
                ((code(f.name), text(f.meaning)) for f in fields_of(GeneratorHealth)),
            ),
            level=3,
        ),
    )


def _exit_codes() -> str:
    from llm_locust.analysis.judgement import exit_code

    rows = []
    of_all = ((str(int(each)), text(said)) for each, said in exit_codes().items())
    for name, said in statuses():
        rows += [(code(name), number, text(meaning)) for number, meaning in said]
    return section(
        "Exit codes",
        table(("code", "meaning"), of_all),
        text(exit_code.__doc__),
        "`locust` (headless) ends with the same codes as `llm-locust merge`. What each subcommand says of its own:",
        table(("command", "code", "when"), rows),
    )


def exit_codes() -> dict[ExitCode, str]:
    """What each exit code means. It stands in the README too."""
    from llm_locust.records import exit_codes

    docs = members(exit_codes, "ExitCode")
    return {code: docs[code.name] for code in exit_codes.ExitCode}


def statuses() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What each subcommand says of its exit codes: number and meaning."""
    import click

    from docs.generate.commands import walk
    from llm_locust.cli import llm_locust

    for name, command in walk(llm_locust, click.Context(llm_locust), "llm-locust"):
        found = re.search(r"Exit status:(.*?)(?:\n\s*\n|\Z)", command.help or "", re.DOTALL)
        if found:
            codes_ = re.findall(r"^\s*(\d)\s+(.*?)(?=^\s*\d\s|\Z)", found[1], re.DOTALL | re.MULTILINE)
            yield name, [(number, " ".join(meaning.split())) for number, meaning in codes_]
