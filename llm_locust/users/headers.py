"""Keys and further headers: named on the command line, read from the environment of the process that sends.

Options travel to workers in clear text and stand in the manifest, so none of them may hold a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from llm_locust.records import UsageError
from llm_locust.records.run import API_KEY_VARIABLES
from llm_locust.streaming import looks_like_a_secret, names_a_secret

FROM_ENVIRONMENT = "@env:"


def api_key(variable: str | None = None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key of this process, from the variable named, or from the usual ones.

    Raises:
        UsageError: the variable was named and is not set here.
    """
    if variable is not None:
        key = environment.get(variable)
        if not key:
            raise UsageError(
                f"--api-key-env {variable}: that environment variable is not set, or empty, on this machine"
            )
        return key
    return next((key for name in API_KEY_VARIABLES if (key := environment.get(name))), None)


def parse_headers(given: Iterable[str]) -> list[tuple[str, str]]:
    """``["X-Team: search", "X-Key: @env:TEAM_KEY"]`` as pairs.

    Raises:
        UsageError: no header, or a literal secret.
    """
    headers = []
    for item in given:
        name, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or not name or not value or " " in name:
            raise UsageError(f"--header {item.partition(':')[0]!r}: write 'Name: value', or 'Name: @env:VARIABLE'")
        secret = names_a_secret(name) or looks_like_a_secret(value)
        if secret and not value.startswith(FROM_ENVIRONMENT):
            raise UsageError(
                f"--header {name}: a secret on the command line would be sent to workers in clear text and written down; "
                f"put it into an environment variable and write '{name}: {FROM_ENVIRONMENT}VARIABLE'"
            )
        headers.append((name, value))
    return headers


def request_headers(
    api_key_env: str | None, headers: Iterable[tuple[str, str]], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The headers that this process sends with every request: the key as a bearer token, and the further ones.

    Raises:
        UsageError: a variable that was named is not set here.
    """
    found: dict[str, str] = {}
    if (key := api_key(api_key_env, environment)) is not None:
        found["Authorization"] = f"Bearer {key}"
    for name, value in headers:
        if value.startswith(FROM_ENVIRONMENT):
            variable = value.removeprefix(FROM_ENVIRONMENT)
            if not environment.get(variable):
                raise UsageError(f"--header {name}: the environment variable {variable} is not set on this machine")
            value = environment[variable]
        found[name] = value
    return found
