"""Why one request failed and what to do about it: a failed reply in, a cause and a remedy out, without I/O.

The outcome says what kind of failure it was; within a kind, the server's own words and the shape of the URL tell more. Each
case is a function that returns a :class:`Finding`, or ``None`` when it is not the one; the first that knows wins.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from llm_locust.records import Outcome
from llm_locust.streaming.reply import Reply
from llm_locust.streaming.target import Target

MAX_MODELS_NAMED = 5


class Finding(NamedTuple):
    """What is wrong, and what to do: the halves of a sentence and a sentence or two."""

    cause: str
    remedy: str


class Failed(NamedTuple):
    """A failed reply with all that is known about the request."""

    reply: Reply
    base_url: str
    path: str
    model: str | None
    models: Sequence[str] | None
    key_given: bool

    @property
    def target(self) -> Target:
        """The base URL taken apart."""
        return Target.parse(self.base_url)

    @property
    def root(self) -> str:
        """Scheme, host and port."""
        return f"{'https' if self.target.tls else 'http'}://{self.target.authority}"

    @property
    def sent_path(self) -> str:
        """The path that was asked for, prefix of the base URL included."""
        return self.target.path(self.path)

    @property
    def text(self) -> str:
        """What the server said, or the client in its place."""
        return self.reply.error or ""

    def says(self, pattern: re.Pattern[str]) -> bool:
        """The text matches."""
        return pattern.search(self.text) is not None


Case = Callable[[Failed], Finding | None]


def diagnose(
    reply: Reply, *, base_url: str, path: str, model: str | None, models: Sequence[str] | None, key_given: bool
) -> str:
    """Cause, quoted words and remedy of a reply whose outcome is not ok, on one line.

    Args:
        reply: as the stream client returned it; its ``error`` is bounded and without secrets.
        base_url: as given with ``--host``.
        path: the endpoint under it.
        model: what was asked for; ``None`` when the request named none.
        models: what the server lists; ``None`` when it did not say.
        key_given: the request carried a key.
    """
    failed = Failed(reply, base_url, path, model, models, key_given)
    finding = next((found for case in _CASES[reply.outcome] if (found := case(failed)) is not None), None)
    cause, remedy = finding or Finding(
        f"the outcome was {reply.outcome.value}", "Look into the server's log for what it made of the request."
    )
    quote = failed.text.rstrip(" .") or reply.outcome.value
    return f"{cause} ({failed.root}{failed.sent_path}: {quote}). {remedy}"


# --- no answer -----------------------------------------------------------------------------------------------------


_CERTIFICATE = re.compile(r"certificate was not accepted")
_WRONG_NAME = re.compile(r"mismatch|doesn't match|not valid for", re.I)
_EXPIRED = re.compile(r"expired|not yet valid", re.I)
_NOT_TLS = re.compile(r"does not speak TLS")
_REFUSED = re.compile(r"refused", re.I)
_UNRESOLVED = re.compile(r"\bresolved?\b")
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0")


def _no_tls(failed: Failed) -> Finding | None:
    if failed.says(_NOT_TLS):
        remedy = f"Begin the base URL with http://: --host {_base(failed, tls=False)}"
        return Finding("the server speaks plain HTTP on this port, not TLS", remedy)
    return None


def _certificate(failed: Failed) -> Finding | None:
    if not failed.says(_CERTIFICATE):
        return None
    if failed.says(_WRONG_NAME):
        remedy = "Give --host with the name that the certificate is made out to, or --insecure to skip the check."
        return Finding(f"the server's certificate is not made out to {failed.target.host}", remedy)
    if failed.says(_EXPIRED):
        remedy = "Renew it, check this machine's clock, or give --insecure to skip the check."
        return Finding("the server's certificate is not valid at this time", remedy)
    remedy = (
        "Trust its issuer (or itself, if it is self-signed) with --ca-file FILE, or skip the check with --insecure."
    )
    return Finding("the server's certificate is not trusted here", remedy)


def _no_connection(failed: Failed) -> Finding:
    host, port = failed.target.host, failed.target.port
    if failed.says(_REFUSED):
        remedy = f"Check that the server is running and listens on port {port}, and for a booting one wait longer with "
        remedy += "--ready-timeout."
        if _LOCAL.fullmatch(host):
            remedy += f" Inside a container, {host} is the container itself."
        return Finding(f"nothing listens at {failed.target.authority}", remedy)
    remedy = (
        f"Check the address and port in --host, and whether a firewall lies between: can this machine reach {host}?"
    )
    return Finding(f"no connection to {failed.target.authority} could be made", remedy)


def _lost(failed: Failed) -> Finding:
    if failed.reply.status is None:
        remedy = "Look into the server's log: it may have crashed, or be starting behind a port that is already open."
        if not failed.target.tls:
            remedy += f" If it speaks TLS, begin the base URL with https://: --host {_base(failed, tls=True)}"
        return Finding("the server hung up without an answer", remedy)
    return Finding(
        "the connection broke in the middle of the reply",
        "Look into the log of the server, and of any proxy before it: one of them ended the connection.",
    )


def _ours(failed: Failed) -> Finding | None:
    host = failed.target.host
    if failed.says(_UNRESOLVED):
        remedy = f"Check the spelling in --host, and that this machine knows the name (getent hosts {host})."
        return Finding(f"the host name {host} has no address here", remedy)
    remedy = (
        "This machine is the limit, not the server: raise its limit of open files (ulimit -n), or free local ports."
    )
    return Finding("the load generator could not send the request", remedy)


def _timeout(failed: Failed) -> Finding:
    reply = failed.reply
    if reply.output_events:
        remedy = "Give it longer with --deadline, or ask for less with --max-tokens."
        return Finding(f"the reply was still being generated ({reply.output_events} output events so far)", remedy)
    if reply.headers_ns is not None:
        cause = "the server began its answer, but no output came"
    elif reply.written_ns is not None:
        cause = "the server took the request and did not answer in time"
    else:
        cause = "the request could not even be delivered in time"
    return Finding(
        cause,
        "It may be busy with others' requests, or still load the model for this first one: look at its log, and give it "
        "longer with --deadline.",
    )


# --- not the API that was meant ------------------------------------------------------------------------------------


_ENDPOINTS = ("/chat/completions", "/completions", "/api/generate", "/api/chat", "/models", "/health", "/metrics")
_HTTPS_WANTED = re.compile(
    r"plain HTTP request was sent to HTTPS|HTTP request to an? HTTPS|TLS record|requires? (?:TLS|HTTPS)", re.I
)
_LOCATION = re.compile(r"it points to (\S+)$")
_SIGN_IN = re.compile(r"log-?in|sign-?in|sso|oauth|/auth", re.I)
_WEB_PAGE = re.compile(r"web page")
_JSON_LINES = re.compile(r"ndjson")
_COMPRESSED = re.compile(r"compressed")


def _https_wanted(failed: Failed) -> Finding | None:
    if failed.target.tls or not failed.says(_HTTPS_WANTED):
        return None
    remedy = f"Begin the base URL with https://: --host {_base(failed, tls=True)}"
    return Finding("the server speaks TLS on this port", remedy)


def _redirect(failed: Failed) -> Finding | None:
    if failed.reply.status is None or not 300 <= failed.reply.status < 400:
        return None
    found = _LOCATION.search(failed.text)
    location = urljoin(failed.root + failed.sent_path, found[1]) if found and found[1] != "nowhere" else ""
    cause = "the server redirects instead of answering, and a load test follows no redirects"
    if _SIGN_IN.search(location):
        return Finding(
            f"the server redirects to a page to sign in at, {location}",
            "A gateway lies in front of the API: give the URL of the API itself with --host, and the key that it wants.",
        )
    base, ended, _ = location.partition(failed.path)
    if ended and base and base != _base(failed):
        return Finding(cause, f"Use what it points to as the base URL: --host {base}")
    return Finding(cause, f"Give the URL that answers directly with --host; it points to {location or 'no location'}.")


def _web_page(failed: Failed) -> Finding | None:
    if not failed.says(_WEB_PAGE):
        return None
    return Finding(
        f"a web page answered, not an API{_under(failed)}",
        "Check host, port and path of --host: it may be a web interface beside the API (vLLM serves on port 8000, "
        "llama.cpp on 8080, Ollama on 11434), or a page to sign in at.",
    )


def _other_protocol(failed: Failed) -> Finding:
    if failed.says(_COMPRESSED):
        remedy = "Switch compression off for this path in the proxy before the server: it also delays the stream."
        return Finding("the reply is compressed although that was not asked for", remedy)
    if failed.says(_JSON_LINES):
        remedy = "Use a user class for Ollama's own API, or the server's OpenAI endpoint (/v1/chat/completions)."
        return Finding("the server streams JSON lines, as Ollama's own API does", remedy)
    return Finding(
        "the reply is not the streaming protocol that this user class reads",
        f"Check that {failed.path} is an endpoint of that API, and that host and port in --host are right.",
    )


def _wrong_path(failed: Failed) -> Finding | None:
    """404, 405 or 501 without a word about the model."""
    if failed.reply.status not in (404, 405, 501):
        return None
    prefix, sent = failed.target.prefix, failed.sent_path
    cause = f"there is nothing at {sent}"
    if failed.reply.status != 404:
        cause = f"{sent} does not take POST requests"
    endpoint = next((end for end in (failed.path, *_ENDPOINTS) if prefix.endswith(end)), None)
    if endpoint is not None:
        base = prefix.removesuffix(endpoint).removesuffix("/v1")
        remedy = f"Leave it out of the base URL: --host {failed.root}{base}"
        return Finding(f"--host already holds the path of an endpoint ({prefix})", remedy)
    if "/v1/v1/" in sent:
        remedy = f"Leave it out of the base URL: --host {failed.root}{re.sub('(/v1)+$', '', prefix)}"
        return Finding("the path holds /v1 twice", remedy)
    if prefix and not (failed.models is not None and sent.startswith("/v1/") and prefix == "/v1"):
        remedy = f"If the API is at the server's root, leave {prefix} out of the base URL: --host {failed.root}"
        return Finding(cause, remedy)
    if failed.models is not None:
        return Finding(
            f"the server answers, but not at {sent}",
            "Its model may serve another API: try the other locustfile (chat or completions), or set the path of your "
            "user class to one that the server documents.",
        )
    return Finding(
        cause,
        f"Check host and port in --host, and whether the API lies under a path that belongs into it "
        f"({failed.root}/PATH in front of {failed.path}).",
    )


# --- what the server says ------------------------------------------------------------------------------------------


_TOO_LONG = re.compile(
    r"context (?:length|size|window)|exceed_context|max_model_len|maximum.{0,20}tokens|too many tokens"
    r"|(?:prompt|input).{0,20}too long|input_tokens",
    re.I,
)
_PARAMETER = re.compile(
    r"(?:unsupported|unknown|unrecogni[sz]ed|extra) (?:parameter|field|input|argument|request argument)"
    r"|extra_forbidden|stream_options",
    re.I,
)
_NO_CHAT = re.compile(r"chat.?template|does not support (?:chat|generate|.{0,20}completions)", re.I)
_MODEL = re.compile(
    r"(?:model|deployment)\b.{0,120}?(?:not? (?:be )?(?:exist|found|available|loaded|served|supported|a valid)|unknown"
    r"|is required|invalid|try pulling)"
    r"|(?:no such|unknown|invalid|unsupported|missing) model|model_?not_?found|DeploymentNotFound|not a valid model",
    re.I,
)
_KEY = re.compile(r"api.?key|unauthori[sz]ed|authentication|credentials", re.I)
_LOADING = re.compile(r"loading|starting|warming|not ready", re.I)
KEY_VARIABLES = "LLM_LOCUST_API_KEY or OPENAI_API_KEY"


def _key(failed: Failed) -> Finding | None:
    status = failed.reply.status
    if status not in (401, 403) and not (status == 400 and failed.says(_KEY)):
        return None
    if not failed.key_given:
        remedy = (
            f"None was sent: neither {KEY_VARIABLES.replace(' or ', ' nor ')} is set. Put the key into one of them on every "
            "machine that sends, or name the variable that holds it with --api-key-env."
        )
        return Finding("the server wants an API key", remedy)
    remedy = (
        f"Check the key in {KEY_VARIABLES} (the first wins), or in the variable that --api-key-env names: it may be "
        "another server's, expired, or not allowed to use this model."
    )
    return Finding("the server did not accept the API key that was sent", remedy)


def _too_long(failed: Failed) -> Finding | None:
    if not failed.says(_TOO_LONG):
        return None
    return Finding(
        "prompt and reply do not fit into the model's context",
        "Use shorter prompts (--prompts) or fewer output tokens (--max-tokens), or serve a longer context (vLLM: "
        "--max-model-len; llama.cpp: -c, which is shared out among its slots; Ollama: num_ctx).",
    )


def _parameter(failed: Failed) -> Finding | None:
    if not failed.says(_PARAMETER):
        return None
    remedy = "Leave it out, or write it as the server wants it, in build_body() of your user class."
    return Finding("the server does not know a field of the request", remedy)


def _no_chat(failed: Failed) -> Finding | None:
    if not failed.says(_NO_CHAT):
        return None
    remedy = "Try the other locustfile (completions instead of chat), or serve the model with a chat template."
    return Finding("the model cannot be asked in this way", remedy)


def _model(failed: Failed) -> Finding | None:
    if not failed.says(_MODEL):
        return None
    asked = failed.model
    if not asked:
        return Finding("the server wants a model to be named", f"Name it with --model. {_models_listed(failed)}")
    if failed.models and asked in failed.models:
        remedy = "Look into the server's log: the model may have been unloaded, or be served on another endpoint only."
        return Finding(f"the server lists the model {asked!r}, but does not serve it here", remedy)
    remedy = f"{_did_you_mean(failed)}{_models_listed(failed)}"
    if "pull" in failed.text:
        remedy += f" Or pull it first: ollama pull {asked}"
    return Finding(f"the server has no model {asked!r}", remedy)


def _busy(failed: Failed) -> Finding:
    if failed.says(_LOADING):
        remedy = "Wait longer for it with --ready-timeout."
        return Finding("the server is still starting", remedy)
    if failed.reply.status == 429:
        return Finding(
            "the server turned a single request away: a rate limit is used up",
            "Wait until it allows more, or raise the limit of this key: a load test would meet it at once.",
        )
    return Finding(
        "the server turned a single request away: it is busy, or has nothing behind it",
        "Is somebody else using it? A measurement needs it alone: wait until it is idle, and look into its log.",
    )


def _out_of_memory(failed: Failed) -> Finding:
    remedy = "Serve a smaller or more strongly quantised model, a shorter context or fewer slots, and try again."
    return Finding("the server ran out of memory on a single request", remedy)


def _refused(failed: Failed) -> Finding:
    status = failed.reply.status or 0
    if status in (502, 504):
        remedy = "Check that the server behind it runs, and for a booting one wait longer with --ready-timeout."
        return Finding("a proxy answers, but the server behind it does not", remedy)
    if status >= 500:
        cause, remedy = "the server failed on the request", "Look into its log: a single request should not do that."
    elif status == 413:
        cause, remedy = (
            "the request is too large for the server",
            "Use shorter prompts (--prompts), or raise its limit.",
        )
    else:
        cause = "the server refused the request"
        remedy = "Change what it does not like in build_body() or build_headers() of your user class."
    if failed.model and failed.models and not is_listed(failed.model, failed.models):
        remedy += (
            f" The model {failed.model!r} is not among those listed: {_did_you_mean(failed)}{_models_listed(failed)}"
        )
    return Finding(cause, remedy)


def _not_streamed(failed: Failed) -> Finding:
    return Finding(
        "the server answered in one piece although a stream was asked for, so that no TTFT can be measured",
        'Keep "stream": true in build_body(), and see that no gateway before the server takes it out or collects the '
        "reply; some models and endpoints cannot stream.",
    )


def _stream_error(failed: Failed) -> Finding:
    return Finding(
        "the server began to answer and then reported an error",
        "Look into its log for the cause, and mend it first: under load it would only come more often.",
    )


def _truncated(failed: Failed) -> Finding:
    return Finding(
        "the reply broke off before it was finished",
        "Look into the log of the server, and of any proxy before it, for a time or size limit; a reply is whole only "
        "with a finish reason.",
    )


def _empty(failed: Failed) -> Finding:
    return Finding(
        "the reply was finished without any output",
        "The model ended at once, or its output is of a kind that is not read here: try another prompt, and a "
        "--max-tokens that leaves room for an answer.",
    )


# --- wording -------------------------------------------------------------------------------------------------------


def is_listed(model: str, models: Sequence[str]) -> bool:
    """The model is among those listed; Ollama lists ``name:latest`` for what is asked for as ``name``."""
    return model in models or f"{model}:latest" in models or model.removesuffix(":latest") in models


def close_models(model: str, models: Sequence[str]) -> list[str]:
    """Up to three of ``models`` that may have been meant, closest first; case and the part before a slash count little."""
    forms: dict[str, str] = {}
    for name in models:
        for form in (name.lower(), name.lower().rpartition("/")[2]):
            forms.setdefault(form, name)
    asked = model.lower()
    near = [
        found
        for form in dict.fromkeys((asked, asked.rpartition("/")[2]))
        for found in difflib.get_close_matches(form, forms, n=3)
    ]
    return list(dict.fromkeys(forms[form] for form in near))[:3]


def models_named(models: Sequence[str]) -> str:
    """The first few names, and how many there are beside them."""
    names = ", ".join(map(repr, models[:MAX_MODELS_NAMED]))
    more = len(models) - MAX_MODELS_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _did_you_mean(failed: Failed) -> str:
    near = close_models(failed.model or "", failed.models or ())
    return f"Did you mean --model {' or '.join(near)}? " if near else ""


def _models_listed(failed: Failed) -> str:
    if failed.models:
        return f"It lists {models_named(failed.models)}."
    if failed.models is not None:
        return "It lists no model at all: load one into it first."
    return "Give --model the name that the server knows it by; it did not list any."


def _base(failed: Failed, *, tls: bool | None = None) -> str:
    """The base URL, as given or with the other scheme."""
    url = failed.base_url.strip().rstrip("/")
    if tls is None:
        return url
    return urlsplit(url)._replace(scheme="https" if tls else "http").geturl()


def _under(failed: Failed) -> str:
    return f" under {failed.target.prefix}" if failed.target.prefix else ""


# --- the cases, by outcome, in the order in which they are tried ---------------------------------------------------


_HTTP_ERROR: tuple[Case, ...] = (
    _redirect,
    _https_wanted,
    _key,
    _too_long,
    _parameter,
    _no_chat,
    _model,
    _wrong_path,
    _refused,
)

_CASES: dict[Outcome, tuple[Case, ...]] = {outcome: () for outcome in Outcome} | {
    Outcome.TIMEOUT: (_timeout,),
    Outcome.CONNECT_ERROR: (_no_tls, _certificate, _no_connection),
    Outcome.CONNECTION_LOST: (_lost,),
    Outcome.OOM: (_out_of_memory,),
    Outcome.REJECTED: (_busy,),
    Outcome.HTTP_ERROR: _HTTP_ERROR,
    Outcome.NOT_STREAMED: (_not_streamed,),
    Outcome.STREAM_ERROR: (_too_long, _model, _stream_error),
    Outcome.PROTOCOL_ERROR: (_https_wanted, _web_page, _other_protocol),
    Outcome.TRUNCATED: (_truncated,),
    Outcome.EMPTY: (_empty,),
    Outcome.GENERATOR_ERROR: (_ours,),
}
