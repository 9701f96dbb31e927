"""``loads.md``: what a load is made of: shapes, arrival processes, traces, lengths, checks."""

from __future__ import annotations

import ast
import re

from docs.generate.markdown import code, codes, page, section, table, text
from docs.generate.source import ROOT, docstring


def loads_page() -> str:
    """Everything that is registered by name, with its parameters."""
    return page(
        "Loads: shapes, arrivals, traces, lengths, checks",
        "What can be named in an option, with its parameters.",
        _shapes(),
        _processes(),
        _traces(),
        _contents(),
        _checks(),
        _users(),
    )


def _shapes() -> str:
    rows = [
        (
            code(f"shapes/{path.name}"),
            text(re.split(r"\n\s*\n|: ``", docstring(path))[0].rstrip(".") + "."),
            codes(_taken(path)),
        )
        for path in sorted((ROOT / "shapes").glob("*.py"))
    ]
    return section(
        "Shapes",
        "Which stages there are. One file beside the locustfile: `-f locustfiles/chat.py,shapes/rate_ladder.py`. *Reads*: "
        "which options that say what stages there are the shape reads; others are refused.",
        table(("file", "what it does", "reads"), rows),
    )


def _taken(path: object) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "takes":
            found = {str(item.value) for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
            return [f"--{name.replace('_', '-')}" for name in sorted(found)]
    return []


def _processes() -> str:
    from llm_locust.arrivals import PROCESSES
    from llm_locust.arrivals.processes import plain_number

    rows = []
    for kind in PROCESSES.values():
        parameters = "<br>".join(
            f"{code(p.name)}: {text(p.meaning)}, {text(p.rule)}"
            + ("" if p.default is None else f" (default {plain_number(p.default)})")
            for p in kind.parameters
        )
        rows.append((code(kind.name), text(kind.meaning), parameters))
    return section(
        "Arrival processes (`--arrivals`, `--burst`)",
        "Written as `gamma:cv=2`, `on-off:on=5,off=15`.",
        table(("name", "what it is", "parameters"), rows),
    )


def _traces() -> str:
    from llm_locust.arrivals.traces import FORMATS

    rows = ((code(name), text(kind.about), text(kind.unit)) for name, kind in FORMATS.items())
    return section("Trace formats (`--trace-format`)", table(("name", "files", "times in"), rows))


def _contents() -> str:
    from llm_locust.workload.lengths import FORMS
    from llm_locust.workload.sessions import FORM as SESSIONS
    from llm_locust.workload.shared_prefix import FORM as PREFIX

    rows = [
        (
            code("--input-tokens, --output-tokens"),
            codes(FORMS),
            "`min=` and `max=` cut a normal or lognormal off; `empirical` takes the lengths of `--trace`",
        ),
        (code("--shared-prefix"), code(PREFIX), "share of the prompt, how many groups, how uneven (Zipf exponent)"),
        (code("--sessions"), code(SESSIONS), "turns of a conversation, seconds of thought before each but the first"),
        (code("--cancel"), codes(("share=0.1,after=2s", "share=0.1,tokens=20")), "which share leaves, and when"),
    ]
    return section("Made-up prompts", table(("option", "form", "parameters"), rows))


def _checks() -> str:
    from llm_locust.users.checks import CHECKS

    rows = ((code(kind.form), text(kind.meaning)) for kind in CHECKS.values())
    return section("Quality checks (`--quality`)", table(("form", "a reply passes when"), rows))


def _users() -> str:
    from llm_locust import users
    from llm_locust.streaming import DIALECTS

    rows = [
        (
            code(name),
            code(kind.path),
            code(kind.dialect),
            text((kind.__doc__ or "").split("\n\n")[0].partition(": ")[2] or kind.__doc__),
        )
        for name in users.__all__
        if isinstance(kind := getattr(users, name), type)
        and issubclass(kind, users.LLMUser)
        and getattr(kind, "dialect", None) in DIALECTS
    ]
    return section("User classes", table(("class", "endpoint", "dialect", "what it is"), rows))
