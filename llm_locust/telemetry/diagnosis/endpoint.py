"""Something else answered than the API that was meant: a web page, a redirect, a dead path, another protocol."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from llm_locust.telemetry.diagnosis.finding import Failed, Finding

_HTTPS_WANTED = re.compile(
    r"plain HTTP request was sent to HTTPS|HTTP request to an? HTTPS|TLS record|(?:requires?|use) HTTPS", re.IGNORECASE
)
_LOCATION = re.compile(r"it points to (\S+)$")
_SIGN_IN = re.compile(r"log-?in|sign-?in|\bsso\b|oauth|/auth\b", re.IGNORECASE)
_WEB_PAGE = re.compile(r"web page")
_JSON_LINES = re.compile(r"ndjson")
_COMPRESSED = re.compile(r"compressed")
_STREAMED = re.compile(r"streamed although")
_NOT_HTTP = re.compile(r"not an HTTP")
_OLLAMAS = "/api/"
_ENDPOINTS = ("/chat/completions", "/completions", "/api/generate", "/api/chat", "/models", "/health", "/metrics")


def https_wanted(failed: Failed) -> Finding | None:
    """``http://`` to a port that speaks TLS."""
    if failed.target.tls or not failed.says(_HTTPS_WANTED):
        return None
    remedy = f"Begin the base URL with https://: --host {failed.with_scheme('https')}"
    return Finding("the server speaks TLS on this port", remedy)


def redirect(failed: Failed) -> Finding | None:
    """3xx: where it points to is the better base URL, unless it is a page to sign in at."""
    if not 300 <= failed.status < 400:
        return None
    found = _LOCATION.search(failed.text)
    location = urljoin(failed.root + failed.sent_path, found[1]) if found and found[1] != "nowhere" else ""
    if _SIGN_IN.search(location):
        remedy = "Give the URL of the API itself with --host, and the key that the gateway before it wants."
        return Finding(f"the server wants a browser to sign in at {location}", remedy)
    cause = "the server redirects instead of answering, and redirects are not followed under load"
    base, ended, _ = location.partition(failed.path)
    if ended and base and base != failed.base_url.strip().rstrip("/"):
        return Finding(cause, f"Use the place it points to as the base URL: --host {base}")
    where = f"it points to {location}" if location else "it names no other place"
    return Finding(cause, f"Give with --host the URL that answers directly; {where}")


def web_page(failed: Failed) -> Finding | None:
    """HTML with a good status."""
    if not failed.says(_WEB_PAGE):
        return None
    remedy = (
        "Check host, port and path in --host: this may be a web interface beside the API, or a page to sign in at "
        "(by default vLLM serves on port 8000, SGLang on 30000, llama.cpp on 8080, Ollama on 11434)."
    )
    return Finding("a web page answered, not an API", remedy)


def other_protocol(failed: Failed) -> Finding:
    """Bytes that are not the streaming protocol of the user class."""
    if failed.says(_NOT_HTTP):
        remedy = "Check the port in --host: it may be the server's internal one (gRPC, ZMQ), or another program's."
        return Finding("what listens on this port does not speak HTTP/1.1", remedy)
    if failed.says(_COMPRESSED):
        remedy = "Switch compression off for this path in the proxy before the server: it also delays the stream."
        return Finding("the reply is compressed although plain text was asked for", remedy)
    if failed.says(_JSON_LINES):
        remedy = "Use locustfiles/ollama_chat.py for that API, or the server's OpenAI endpoint, /v1/chat/completions."
        return Finding("the server streams JSON lines, as Ollama's own API does", remedy)
    if failed.says(_STREAMED):
        remedy = 'Leave out --no-stream, or see why it does not heed "stream": false.'
        return Finding("the server streams although it was asked not to", remedy)
    remedy = f"Check that {failed.path} is the endpoint of that API, and host and port in --host."
    return Finding("the reply is not in the form that this user class reads", remedy)


def wrong_path(failed: Failed) -> Finding | None:
    """404, 405 or 501 without a word about the model."""
    if failed.status not in (404, 405, 501):
        return None
    prefix, sent = failed.target.prefix, failed.sent_path
    endpoint = next((end for end in (failed.path, *_ENDPOINTS) if prefix.endswith(end)), None)
    if endpoint is not None:
        base = prefix.removesuffix(endpoint).removesuffix("/v1")
        return Finding(
            f"--host already holds the path of an endpoint, {prefix}",
            f"Leave it out of the base URL: --host {failed.root}{base}",
        )
    if "/v1/v1/" in sent:
        base = re.sub(r"(?:/v1)+$", "", prefix)
        return Finding("the path holds /v1 twice", f"Leave it out of the base URL: --host {failed.root}{base}")
    cause = f"there is nothing at {sent}" if failed.status == 404 else f"{sent} takes no POST"
    before = sent.removesuffix(failed.path)
    # That the server lists its models says that the base URL is right, but for a /v1, which was left out to ask it.
    if before and (failed.models is None or before.endswith("/v1")):
        base = before.removesuffix("/v1") if before != "/v1" and before.endswith("/v1") else ""
        return Finding(
            cause, f"If {before} does not belong there, leave it out of the base URL: --host {failed.root}{base}"
        )
    if failed.path.startswith(_OLLAMAS):
        remedy = (
            f"{failed.path} is Ollama's own API: for a server that speaks OpenAI's, as vLLM, SGLang and llama.cpp do, use "
            "locustfiles/chat.py (llm-locust paths says where it is); for an Ollama, check host and port in --host."
        )
        return Finding(cause, remedy)
    if failed.models is not None:
        beside = "completions.py" if failed.path.endswith("/chat/completions") else "chat.py"
        remedy = (
            f"It may serve its model by another API: try locustfiles/{beside}, or locustfiles/ollama_chat.py if it speaks "
            "Ollama's own API only (llm-locust paths says where they are); a user class of your own wants the path that the "
            "server documents."
        )
        return Finding(f"the server answers, but {cause}", remedy)
    remedy = (
        f"Check host and port in --host, and whether a path belongs to it ({failed.root}/PATH before {failed.path})."
    )
    return Finding(cause, remedy)
