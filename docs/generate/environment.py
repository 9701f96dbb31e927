"""``environment.md``: every environment variable that is read."""

from __future__ import annotations

import ast
import re
from functools import cache

from docs.generate.markdown import code, codes, page, section, table
from docs.generate.source import sources

VARIABLES = {
    "LLM_LOCUST_API_KEY": "The API key, read by every worker from its own environment. `--api-key-env` names another "
    "variable.",
    "OPENAI_API_KEY": "The API key, where `LLM_LOCUST_API_KEY` is not set.",
    "LLM_LOCUST_WEB_USER": "User name for the web UI (`locustfiles/with_login.py`).",
    "LLM_LOCUST_WEB_PASSWORD": "Password for the web UI (`locustfiles/with_login.py`).",
    "LLM_LOCUST_PROXY_AUTH": "`user:password` for the HTTP proxy of `--proxy`.",
}


def environment_page() -> str:
    """Every environment variable that is read."""
    from llm_locust.plugin.option_table import OPTIONS
    from llm_locust.telemetry.ollama import VARIABLES as OLLAMA

    found = sorted(_named() - set(VARIABLES))
    if found:
        raise LookupError(f"say in docs/generate/environment.py what {', '.join(found)} is")
    return page(
        "Environment variables",
        "Secrets come from the environment of the process that sends, never from an option, and are written nowhere.",
        section("Secrets", table(("variable", "what it is"), ((code(name), said) for name, said in VARIABLES.items()))),
        "`--header 'NAME: @env:VARIABLE'`, `--api-key-env VARIABLE` and `--basic-auth-env VARIABLE` read variables "
        "whose names you choose.",
        section(
            "Options",
            "Each option of ours has a variable; a flag is set by `true`. Locust's own options have `LOCUST_*` variables.",
            table(("variable", "option"), ((code(option.variable), code(option.flag)) for option in OPTIONS)),
        ),
        section(
            "Of Ollama",
            f"{codes(OLLAMA)}: settings of the server that are written down when this machine's environment holds them.",
        ),
    )


@cache
def _named() -> set[str]:
    """Names of variables of ours that stand in the code as a text."""
    found = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^(?:LLM_LOCUST|OPENAI)_[A-Z_]*[A-Z]$", node.value))
    return found
