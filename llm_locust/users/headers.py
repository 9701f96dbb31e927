"""Keys, passwords and further headers: named on the command line, read from the environment of the process that sends.

Options travel to workers in clear text and stand in the manifest, so none of them may hold a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from llm_locust.records import UsageError
from llm_locust.records.run import API_KEY_VARIABLES, PROXY_AUTH_VARIABLE
from llm_locust.streaming import Proxy, looks_like_a_secret, names_a_secret
from llm_locust.streaming.basic import encode_basic

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
                f"--api-key-env {variable}: that environment variable is not set, or empty, on this machine: "
                "set it where this process starts"
            )
        return key
    return next((key for name in API_KEY_VARIABLES if (key := environment.get(name))), None)


def proxy_here(url: str | None, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy at ``url``, with the credentials of this process; ``None`` when none was asked for.

    Variables such as ``HTTPS_PROXY`` have no say in it.

    Raises:
        UsageError: no URL of a proxy, or a variable that does not hold ``user:password``.
    """
    if url is None:
        return None
    credentials = environment.get(PROXY_AUTH_VARIABLE) or None
    if credentials is not None:
        _check_credentials(credentials, PROXY_AUTH_VARIABLE)
    return Proxy.parse(url, credentials)


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
    api_key_env: str | None,
    headers: Sequence[tuple[str, str]],
    environment: Mapping[str, str] = os.environ,
    *,
    basic_auth_env: str | None = None,
) -> dict[str, str]:
    """The headers that this process sends with every request: the key as a bearer token, and the further ones.

    Args:
        api_key_env: the variable that holds the key; ``None`` for the usual ones.
        headers: as :func:`parse_headers` returned them.
        environment: that of this process.
        basic_auth_env: the variable that holds ``user:password``, sent in place of a key.

    Raises:
        UsageError: a variable that was named is not set here, or a key is set beside the password.
    """
    found: dict[str, str] = {}
    if basic_auth_env is not None:
        refuse_two_credentials(basic_auth_env, api_key_env, headers, environment)
        found["Authorization"] = encode_basic(_credentials(basic_auth_env, environment))
    elif (key := api_key(api_key_env, environment)) is not None:
        found["Authorization"] = f"Bearer {key}"
    for name, value in headers:
        if value.startswith(FROM_ENVIRONMENT):
            variable = value.removeprefix(FROM_ENVIRONMENT)
            if not environment.get(variable):
                raise UsageError(
                    f"--header {name}: the environment variable {variable} is not set on this machine: "
                    "set it where this process starts"
                )
            value = environment[variable]
        found[name] = value
    return found


def refuse_secrets_for(host: str, headers: Mapping[str, str], given: Sequence[tuple[str, str]]) -> None:
    """For a host that nobody named on the command line.

    Args:
        host: as it was typed on a web page.
        headers: what this process sends, as :func:`request_headers` made them.
        given: as :func:`parse_headers` returned them; a value from the environment is a secret, whatever its name.

    Raises:
        UsageError: a secret would be sent to it.
    """
    secret = next((name for name in headers if names_a_secret(name)), None)
    secret = secret or next((name for name, value in given if value.startswith(FROM_ENVIRONMENT)), None)
    if secret is not None:
        raise UsageError(
            f"--host {host}: {secret} of this machine's environment is not sent to a host that was typed on a web page: "
            "start Locust with that --host, or with --web-trusted"
        )


def refuse_two_credentials(
    basic_auth_env: str,
    api_key_env: str | None,
    headers: Sequence[tuple[str, str]],
    environment: Mapping[str, str] = os.environ,
) -> None:
    """A request has one ``Authorization``: beside a password there is no key.

    Raises:
        UsageError: there is one; it is said where.
    """
    other = f"--api-key-env {api_key_env}" if api_key_env is not None else None
    other = other or next((f"--header {name}" for name, _ in headers if name.lower() == "authorization"), None)
    other = other or next((f"the key in {name}" for name in API_KEY_VARIABLES if environment.get(name)), None)
    if other is not None:
        raise UsageError(
            f"--basic-auth-env {basic_auth_env} and {other} are both set, and a request has one Authorization header: "
            "leave one out"
        )


def _credentials(variable: str, environment: Mapping[str, str]) -> str:
    found = environment.get(variable)
    if not found:
        raise UsageError(
            f"--basic-auth-env {variable}: that environment variable is not set, or empty, on this machine: "
            "set it where this process starts"
        )
    _check_credentials(found, variable)
    return found


def _check_credentials(text: str, variable: str) -> None:
    if ":" not in text or not text.isprintable():
        raise UsageError(f"the environment variable {variable} does not hold user:password, on one line: set it so")
