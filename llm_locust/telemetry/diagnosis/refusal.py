"""The right server answered and said no: keys, models, prompts too long, load, memory, or an error of its own."""

from __future__ import annotations

import re

from llm_locust.records.run import API_KEY_VARIABLES
from llm_locust.telemetry.diagnosis.finding import Failed, Finding
from llm_locust.telemetry.diagnosis.model_names import close_models, is_listed, models_named

_KEY = re.compile(r"api.?key|unauthori[sz]ed|authentication|credentials", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"""context[ ](?:length|size|window) | exceed_context | max_model_len | input_tokens
      | maximum.{0,20}[ ]tokens | too[ ]many[ ]tokens | (?:prompt|input)\b.{0,20}[ ]too[ ]long
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FIELD = re.compile(
    r"""(?:unsupported|unknown|unrecogni[sz]ed|extra)[ ](?:parameter|field|input|argument|request[ ]argument)
      | extra_forbidden | stream_options
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NO_CHAT = re.compile(r"chat.?template|does not support (?:chat|generate|.{0,20}completions)", re.IGNORECASE)
_MODEL = re.compile(
    r"""(?:model|deployment)\b .{0,120}? (?: \bnot[ ](?:be[ ])?(?:exist|found|available|loaded|served|supported|a[ ]valid)
          | unknown | is[ ]required | invalid | try[ ]pulling )
      | (?:no[ ]such|unknown|invalid|unsupported|missing|not[ ]a[ ]valid)[ ]model
      | model_?not_?found | DeploymentNotFound
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PULL = re.compile(r"\bpull", re.IGNORECASE)
_LOADING = re.compile(r"loading|starting|warming|not ready", re.IGNORECASE)


def key(failed: Failed) -> Finding | None:
    """401, 403, or a 400 that speaks of the key."""
    if failed.status not in (401, 403) and not (failed.status == 400 and failed.says(_KEY)):
        return None
    if not failed.key_given:
        remedy = (
            f"None was sent: neither {' nor '.join(API_KEY_VARIABLES)} is set. Put the key into one of them wherever "
            "requests are sent from, or name the variable that holds it with --api-key-env (in a header of another name: "
            "--header 'NAME: @env:VARIABLE')."
        )
        return Finding("the server wants an API key", remedy)
    remedy = (
        f"It was read from {', else '.join(API_KEY_VARIABLES)}, or the variable that --api-key-env names: check that "
        "it is this server's, has not expired, and may use this model."
    )
    return Finding("the server did not accept the API key", remedy)


def too_long(failed: Failed) -> Finding | None:
    """Prompt and reply exceed the context."""
    if not failed.says(_TOO_LONG):
        return None
    remedy = (
        "Use shorter prompts (--prompts) or fewer output tokens (--max-tokens), or serve a longer context (vLLM: "
        "--max-model-len; llama.cpp: -c, which its slots share; Ollama: num_ctx)."
    )
    return Finding("prompt and reply do not fit into the context of the model", remedy)


def unknown_field(failed: Failed) -> Finding | None:
    """The body holds something that the server does not take."""
    if not failed.says(_FIELD):
        return None
    remedy = "Leave it out, or write it as the server wants it, in build_body() of your user class."
    return Finding("the server does not take a field of the request", remedy)


def no_chat(failed: Failed) -> Finding | None:
    """The model has no chat template, or does another job."""
    if not failed.says(_NO_CHAT):
        return None
    remedy = (
        "Try the other way of asking (locustfiles/chat.py or completions.py), or serve the model with a chat template."
    )
    return Finding("the model cannot be asked in this way", remedy)


def model(failed: Failed) -> Finding | None:
    """The server does not know the model, or wants one to be named."""
    if failed.status >= 500 or not failed.says(_MODEL):
        return None
    asked = failed.model
    if not asked:
        return Finding("the server wants a model to be named", f"Name it with --model. {_listed(failed)}")
    if failed.models and is_listed(asked, failed.models):
        remedy = "Look into its log: the model may have been unloaded, or be served at another endpoint only."
        return Finding(f"the server lists the model {asked!r}, but does not serve it here", remedy)
    remedy = _did_you_mean(failed) + _listed(failed)
    if failed.says(_PULL):
        remedy += f" Or let Ollama fetch it: ollama pull {asked}"
    return Finding(f"the server has no model {asked!r}", remedy)


def busy(failed: Failed) -> Finding:
    """429 and 503."""
    if failed.says(_LOADING):
        return Finding("the server is still starting", "Wait longer for it with --ready-timeout.")
    if failed.status == 429:
        remedy = "Wait until it allows more, or have the limit raised: load would meet it at once."
        return Finding("the server turned a single request away, because a rate limit is used up", remedy)
    remedy = "Is somebody else using it? A measurement needs it alone: wait until it is idle, and look into its log."
    return Finding("the server turned a single request away, as if it were busy", remedy)


def out_of_memory(failed: Failed) -> Finding:
    """Memory exhaustion by name."""
    remedy = "Serve a smaller or more strongly quantised model, a shorter context or fewer slots."
    return Finding("the server ran out of memory on a single request", remedy)


def refused(failed: Failed) -> Finding:
    """Every other status."""
    if failed.status in (502, 504):
        remedy = "Check that the server behind it runs; for one that boots, raise --ready-timeout."
        return Finding("a proxy answers, but the server behind it does not", remedy)
    if failed.status >= 500:
        cause, remedy = "the server failed on the request", "Look into its log: it should not fail on a single request."
    elif failed.status == 413:
        cause, remedy = (
            "the request is too large for the server",
            "Use shorter prompts (--prompts), or raise its limit.",
        )
    else:
        cause = "the server refused the request"
        remedy = "Change what it does not like in build_body() or build_headers() of your user class."
    if failed.model and failed.models and not is_listed(failed.model, failed.models):
        remedy += f" It does not list the model {failed.model!r} either. {_did_you_mean(failed)}{_listed(failed)}"
    return Finding(cause, remedy)


def not_streamed(failed: Failed) -> Finding:
    """One JSON object where a stream was asked for."""
    remedy = (
        'Keep "stream": true in build_body(), and see that no gateway takes it out or collects the reply; some models '
        "and endpoints cannot stream at all."
    )
    return Finding("the server answered in one piece instead of a stream, so there is no TTFT to measure", remedy)


def stream_error(failed: Failed) -> Finding:
    """An error inside a stream that began with a good status."""
    remedy = "Look into its log and mend the cause first: under load it would only come more often."
    return Finding("the server began to answer and then reported an error", remedy)


def empty(failed: Failed) -> Finding:
    """Finished without output."""
    remedy = "The model may have ended at once: try another prompt, and a --max-tokens that leaves room for an answer."
    return Finding("the reply was finished without any output", remedy)


def _did_you_mean(failed: Failed) -> str:
    near = close_models(failed.model or "", failed.models or ())
    return f"Did you mean --model {' or '.join(near)}? " if near else ""


def _listed(failed: Failed) -> str:
    if failed.models:
        return f"It lists {models_named(failed.models)}."
    if failed.models is not None:
        return "It lists no model at all: load one into it first."
    return "It lists none; give --model the name that it is served under."
