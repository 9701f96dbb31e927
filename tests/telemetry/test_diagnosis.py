"""The diagnosis of one failed request: cause, quoted words, remedy."""

from __future__ import annotations

from typing import Any

import pytest

from llm_locust.records import Outcome
from llm_locust.streaming import Reply
from llm_locust.telemetry.diagnosis import diagnose, is_listed, models_named
from llm_locust.telemetry.diagnosis.model_names import close_models

BASE = "http://10.0.0.7:8000"
PATH = "/v1/chat/completions"


def why(
    outcome: Outcome,
    error: str,
    status: int | None = None,
    *,
    base_url: str = BASE,
    path: str = PATH,
    model: str | None = "m",
    models: list[str] | None = None,
    key_given: bool = False,
    **seen: Any,
) -> str:
    reply = Reply(outcome=outcome, error=error, status=status, **seen)
    return diagnose(reply, base_url=base_url, path=path, model=model, models=models, key_given=key_given)


def http_error(status: int, said: str, **known: Any) -> str:
    return why(Outcome.HTTP_ERROR, f"HTTP {status}: {said}", status, **known)


def remedy(text: str) -> str:
    return text.partition("). ")[2]


def cause(text: str) -> str:
    return text.partition(f" ({BASE}")[0]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
@pytest.mark.parametrize("status", [None, 200, 400, 404, 503])
def test_every_outcome_is_told_in_one_line_with_what_was_said(outcome: Outcome, status: int | None) -> None:
    text = why(outcome, "some words of the server", status)
    assert f"({BASE}{PATH}: some words of the server). " in text
    assert "\n" not in text
    assert remedy(text).endswith((".", "8000"))


# Models


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "The model `qwen` does not exist. Valid aliases: Qwen/Qwen2.5-7B."),
        (404, 'model "qwen" not found, try pulling it first'),
        (404, "model 'qwen' not found"),
        (404, "The model `qwen` does not exist or you do not have access to it."),
        (400, "Invalid model name passed in model=qwen."),
        (400, "qwen is not a valid model ID"),
        (404, '{"type":"model_not_found"}'),
        (404, "The API deployment for this resource does not exist."),
        (400, "Model 'qwen' is not loaded."),
    ],
)
def test_a_model_that_the_server_does_not_know(status: int, said: str) -> None:
    text = http_error(status, said, model="qwen", models=["llama", "Qwen/Qwen2.5-7B"])
    assert cause(text) == "the server has no model 'qwen'"
    assert "It lists 'llama', 'Qwen/Qwen2.5-7B'." in remedy(text)


def test_a_close_model_is_proposed() -> None:
    said = "The model `qwen2.5-7b-instuct` does not exist."
    text = http_error(404, said, model="qwen2.5-7b-instuct", models=["llama", "Qwen/Qwen2.5-7B-Instruct"])
    assert remedy(text) == (
        "Did you mean --model Qwen/Qwen2.5-7B-Instruct? It lists 'llama', 'Qwen/Qwen2.5-7B-Instruct'."
    )


def test_a_model_that_ollama_would_have_to_pull() -> None:
    text = http_error(404, 'model "mistral" not found, try pulling it first', model="mistral", models=[])
    assert remedy(text) == (
        "It lists no model at all: load one into it first. Or let Ollama fetch it: ollama pull mistral"
    )


def test_a_model_of_a_server_that_lists_none() -> None:
    text = http_error(404, "The model `m` does not exist.", models=None)
    assert remedy(text) == "It lists none; give --model the name that it is served under."


def test_a_model_that_is_listed_but_not_served() -> None:
    text = http_error(404, "The model `m` does not exist.", models=["m"])
    assert cause(text) == "the server lists the model 'm', but does not serve it here"


def test_no_model_was_named() -> None:
    text = http_error(400, "model is required", model=None, models=["a", "b"])
    assert cause(text) == "the server wants a model to be named"
    assert remedy(text) == "Name it with --model. It lists 'a', 'b'."


def test_an_unlisted_model_is_mentioned_beside_an_error_that_does_not_name_it() -> None:
    text = http_error(500, "Internal Server Error", model="small", models=["smalll"])
    assert cause(text) == "the server failed on the request"
    assert remedy(text).endswith(
        "It does not list the model 'small' either. Did you mean --model smalll? It lists 'smalll'."
    )


def test_a_model_that_cannot_chat() -> None:
    text = http_error(400, "default chat template is no longer allowed, so you must provide a chat template")
    assert cause(text) == "the model cannot be asked in this way"
    assert cause(http_error(400, '"nomic-embed-text" does not support chat')) == cause(text)


def test_names_of_models() -> None:
    assert is_listed("llama3.2", ["llama3.2:latest"])
    assert not is_listed("llama3.2:1b", ["llama3.2:latest"])
    assert close_models("QWEN2.5-7B", ["phi", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-14B"])[0] == "Qwen/Qwen2.5-7B"
    assert close_models("mistral", ["Qwen/Qwen2.5-7B"]) == []
    assert models_named(["a"]) == "'a'"
    assert models_named(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"


# Paths


@pytest.mark.parametrize("said", ["Not Found", "File Not Found"])
def test_nothing_at_the_path_of_an_unknown_server(said: str) -> None:
    text = http_error(404, said)
    assert cause(text) == f"there is nothing at {PATH}"
    assert remedy(text).startswith("Check host and port in --host, and whether a path belongs to it")


def test_a_server_that_lists_models_but_has_no_such_endpoint() -> None:
    text = http_error(404, "Not Found", models=["m"])
    assert cause(text) == f"the server answers, but there is nothing at {PATH}"
    assert remedy(text).startswith(
        "It may serve its model by another API: try locustfiles/completions.py, or locustfiles/ollama_chat.py if it speaks "
        "Ollama's own API only (llm-locust paths says where they are)"
    )
    text = http_error(404, "Not Found", models=["m"], path="/v1/completions")
    assert "try locustfiles/chat.py, or locustfiles/ollama_chat.py" in remedy(text)


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize("models", [["m"], None])
def test_ollamas_api_asked_of_a_server_with_openais_names_the_right_locustfile(
    path: str, models: list[str] | None
) -> None:
    text = http_error(404, '{"detail":"Not Found"}', models=models, path=path)
    assert (
        f"{path} is Ollama's own API: for a server that speaks OpenAI's, as vLLM, SGLang and llama.cpp do, use "
        "locustfiles/chat.py"
    ) in remedy(text)


def test_a_server_that_streams_as_ollama_does_is_for_its_locustfile() -> None:
    text = why(Outcome.PROTOCOL_ERROR, "the reply is application/x-ndjson, not text/event-stream", 200)
    assert "locustfiles/ollama_chat.py" in remedy(text)


@pytest.mark.parametrize(
    ("base_url", "path", "models", "base"),
    [
        (f"{BASE}/v1/v1", PATH, None, BASE),
        (f"{BASE}/gateway/v1/v1/", PATH, None, f"{BASE}/gateway"),
        (f"{BASE}/v1/chat/completions", PATH, None, BASE),
        (f"{BASE}/gateway/v1/chat/completions", PATH, None, f"{BASE}/gateway"),
        (f"{BASE}/v1/completions", PATH, None, BASE),
        (f"{BASE}/v1/models", PATH, None, BASE),
        (f"{BASE}/api/chat", "/api/chat", None, BASE),
        (f"{BASE}/gateway", PATH, None, BASE),
        (f"{BASE}/v1", "/api/chat", ["m"], BASE),
        (f"{BASE}/gateway/v1", "/api/chat", ["m"], f"{BASE}/gateway"),
    ],
)
def test_a_base_url_with_too_much_in_it(base_url: str, path: str, models: list[str] | None, base: str) -> None:
    assert http_error(404, "Not Found", base_url=base_url, path=path, models=models).endswith(f"--host {base}")


def test_a_prefix_under_which_models_are_listed_is_right() -> None:
    text = http_error(404, "Not Found", base_url=f"{BASE}/gateway", models=["m"])
    assert cause(text) == f"the server answers, but there is nothing at /gateway{PATH}"


def test_a_v1_in_the_base_url_is_not_blamed_where_it_changes_nothing() -> None:
    assert cause(http_error(404, "Not Found", base_url=f"{BASE}/v1")) == f"there is nothing at {PATH}"


@pytest.mark.parametrize("status", [405, 501])
def test_a_page_that_takes_no_post(status: int) -> None:
    assert cause(http_error(status, "Method Not Allowed")) == f"{PATH} takes no POST"


# Redirects and web pages


@pytest.mark.parametrize(
    ("location", "ends"),
    [
        (f"https://api.example{PATH}", "Use the place it points to as the base URL: --host https://api.example"),
        (f"/gateway{PATH}", f"Use the place it points to as the base URL: --host {BASE}/gateway"),
        (f"{PATH}/", f"Give with --host the URL that answers directly; it points to {BASE}{PATH}/"),
        ("https://www.example/", "Give with --host the URL that answers directly; it points to https://www.example/"),
        ("nowhere", "Give with --host the URL that answers directly; it names no other place"),
    ],
)
def test_a_redirect(location: str, ends: str) -> None:
    text = why(Outcome.HTTP_ERROR, f"HTTP 307: redirects are not followed; it points to {location}", 307)
    assert cause(text).startswith("the server redirects instead of answering")
    assert text.endswith(ends)


def test_a_redirect_to_a_page_to_sign_in_at() -> None:
    text = why(Outcome.HTTP_ERROR, "HTTP 302: redirects are not followed; it points to https://sso.example/login", 302)
    assert cause(text) == "the server wants a browser to sign in at https://sso.example/login"


def test_a_web_page() -> None:
    said = "the answer looks like a web page, not an API; check the base URL (Open WebUI)"
    text = why(Outcome.PROTOCOL_ERROR, said, 200)
    assert cause(text) == "a web page answered, not an API"
    assert "Open WebUI" in text


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("not an HTTP/1.1 response: Invalid constant", "what listens on this port does not speak HTTP/1.1"),
        (
            "the body is compressed (gzip) although identity was asked for",
            "the reply is compressed although plain text",
        ),
        (
            "no event in the body; wanted text/event-stream, got application/x-ndjson: {",
            "the server streams JSON lines",
        ),
        ("event 1: not JSON: hello", "the reply is not in the form that this user class reads"),
        ("the reply was streamed although no stream was asked for", "the server streams although it was asked not to"),
    ],
)
def test_another_protocol(said: str, found: str) -> None:
    assert cause(why(Outcome.PROTOCOL_ERROR, said, 200)).startswith(found)


# Keys


@pytest.mark.parametrize(("status", "said"), [(401, "Unauthorized"), (403, "Forbidden"), (400, "API key not valid.")])
def test_a_key_that_is_missing(status: int, said: str) -> None:
    text = http_error(status, said, key_given=False)
    assert cause(text) == "the server wants an API key"
    assert "neither LLM_LOCUST_API_KEY nor OPENAI_API_KEY is set" in remedy(text)
    assert "--api-key-env" in remedy(text)


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_wrong(status: int) -> None:
    text = http_error(status, "Incorrect API key provided.", key_given=True)
    assert cause(text) == "the server did not accept the API key"
    assert "LLM_LOCUST_API_KEY, else OPENAI_API_KEY" in remedy(text)
    assert "None was sent" not in text


# Requests that do not fit


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens.",
        "request (8193 tokens) exceeds the available context size (2048 tokens), try increasing it",
        "max_tokens=8192 cannot be greater than max_model_len=2048. Please request fewer output tokens.",
        "the input length exceeds the context length",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_a_prompt_that_is_too_long(said: str) -> None:
    text = http_error(400, said, models=["m"])
    assert cause(text) == "prompt and reply do not fit into the context of the model"
    assert "--max-tokens" in remedy(text)


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "1 validation error: {'type': 'extra_forbidden', 'loc': ('body', 'stream_options')}",
        "Unrecognized request argument supplied: stream_options",
    ],
)
def test_a_field_that_the_server_does_not_take(said: str) -> None:
    text = http_error(400, said)
    assert cause(text) == "the server does not take a field of the request"
    assert "build_body()" in remedy(text)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"),
        (400, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"),
        (422, "Input should be a valid integer"),
    ],
)
def test_any_other_refusal_quotes_the_server(status: int, said: str) -> None:
    text = http_error(status, said)
    assert cause(text) == "the server refused the request"
    assert said in text


# A server in trouble


@pytest.mark.parametrize(
    ("outcome", "status", "said", "found", "flag"),
    [
        (Outcome.REJECTED, 503, "Loading model", "the server is still starting", "--ready-timeout"),
        (
            Outcome.REJECTED,
            503,
            "The engine is currently busy.",
            "the server turned a single request away, as if",
            "idle",
        ),
        (Outcome.REJECTED, 429, "Too Many Requests", "the server turned a single request away, because", "limit"),
        (Outcome.OOM, 500, "CUDA out of memory", "the server ran out of memory on a single request", "quantised"),
        (Outcome.HTTP_ERROR, 500, "boom", "the server failed on the request", "log"),
        (
            Outcome.HTTP_ERROR,
            502,
            "Bad Gateway",
            "a proxy answers, but the server behind it does not",
            "--ready-timeout",
        ),
        (Outcome.HTTP_ERROR, 413, "Too Large", "the request is too large for the server", "--prompts"),
        (Outcome.STREAM_ERROR, 200, "engine died", "the server began to answer and then reported an error", "log"),
        (Outcome.TRUNCATED, 200, "no finish reason", "the reply broke off before it was finished", "proxy"),
        (Outcome.EMPTY, 200, "ended without any output", "the reply was finished without any output", "--max-tokens"),
        (
            Outcome.NOT_STREAMED,
            200,
            "one JSON object",
            "the server answered in one piece instead of a stream",
            "stream",
        ),
    ],
)
def test_a_server_in_trouble(outcome: Outcome, status: int, said: str, found: str, flag: str) -> None:
    text = why(outcome, said, status)
    assert cause(text).startswith(found)
    assert flag in remedy(text)


# No answer


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ({}, "the request could not be delivered in time"),
        ({"written_ns": 1}, "the server took the request, but did not answer in time"),
        ({"written_ns": 1, "headers_ns": 2}, "the server began its answer, but no output came in time"),
        (
            {"written_ns": 1, "headers_ns": 2, "output_events": 7},
            "the reply was not finished in time (7 output events had come)",
        ),
    ],
)
def test_a_deadline_that_passed(seen: dict[str, Any], found: str) -> None:
    text = why(Outcome.TIMEOUT, "the deadline of 120 s passed", **seen)
    assert cause(text) == found
    assert "--deadline" in remedy(text)


def test_a_refused_connection() -> None:
    text = why(Outcome.CONNECT_ERROR, "no connection: 10.0.0.7:8000: Connection refused")
    assert cause(text) == "nothing listens at 10.0.0.7:8000"
    assert "container" not in text
    local = why(
        Outcome.CONNECT_ERROR, "no connection: [::1]:8000: Connection refused", base_url="http://localhost:8000"
    )
    assert local.endswith("Inside a container, localhost is the container itself.")


@pytest.mark.parametrize("said", ["no connection: 10.0.0.7:8000: No route to host", "no connection within 10 s"])
def test_a_host_that_cannot_be_reached(said: str) -> None:
    text = why(Outcome.CONNECT_ERROR, said)
    assert cause(text) == "no connection to 10.0.0.7:8000 could be made"
    assert "firewall" in remedy(text)


@pytest.mark.parametrize(
    ("reason", "found", "flag"),
    [
        ("self-signed certificate", "the server's certificate is not trusted here", "--ca-file FILE"),
        ("unable to get local issuer certificate", "the server's certificate is not trusted here", "--ca-file FILE"),
        ("certificate has expired", "the server's certificate is not valid at this time", "--insecure"),
        ("IP address mismatch, ...", "the server's certificate is not made out to gpu.example", "--insecure"),
    ],
)
def test_a_certificate_that_is_not_accepted(reason: str, found: str, flag: str) -> None:
    said = f"TLS handshake failed: the certificate was not accepted: {reason}; give its CA file"
    text = why(Outcome.CONNECT_ERROR, said, base_url="https://gpu.example")
    assert text.startswith(f"{found} (https://gpu.example{PATH}: ")
    assert flag in remedy(text)


def test_tls_on_one_side_only() -> None:
    plain = why(
        Outcome.CONNECT_ERROR,
        "TLS handshake failed: the server does not speak TLS on this port",
        base_url="https://10.0.0.7:8000/v1",
    )
    assert plain.endswith("--host http://10.0.0.7:8000/v1")
    no_agreement = why(
        Outcome.CONNECT_ERROR, "TLS handshake failed: handshake failure", base_url="https://10.0.0.7:8000"
    )
    assert no_agreement.startswith("the server does not agree on TLS")


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (Outcome.PROTOCOL_ERROR, None, "the answer is a TLS record, not HTTP: use https:// in the base URL"),
        (Outcome.HTTP_ERROR, 400, "HTTP 400: Client sent an HTTP request to an HTTPS server."),
        (Outcome.HTTP_ERROR, 400, "HTTP 400: 400 The plain HTTP request was sent to HTTPS port"),
    ],
)
def test_plain_http_to_a_tls_port(outcome: Outcome, status: int | None, said: str) -> None:
    text = why(outcome, said, status)
    assert cause(text) == "the server speaks TLS on this port"
    assert text.endswith("--host https://10.0.0.7:8000")


def test_a_server_that_hangs_up() -> None:
    text = why(Outcome.CONNECTION_LOST, "the connection was closed without an answer")
    assert cause(text) == "the server hung up without an answer"
    assert text.endswith("If it speaks TLS: --host https://10.0.0.7:8000")
    later = why(Outcome.CONNECTION_LOST, "the connection broke: Connection reset by peer", 200)
    assert cause(later) == "the connection broke in the middle of the reply"


def test_a_generator_that_cannot_send() -> None:
    unknown = why(
        Outcome.GENERATOR_ERROR, "cannot resolve gpu-bxo: Name or service not known", base_url="http://gpu-bxo"
    )
    assert unknown.startswith("the host name gpu-bxo has no address here (")
    full = why(Outcome.GENERATOR_ERROR, "out of sockets: Too many open files")
    assert cause(full) == "the load generator could not send the request"
    assert "ulimit -n" in remedy(full)


# A proxy between


@pytest.mark.parametrize(
    ("outcome", "said", "status"),
    [
        (Outcome.CONNECT_ERROR, "no connection to the proxy: 10.0.0.1:3128: Connection refused", None),
        (Outcome.CONNECT_ERROR, "the proxy p:3128 opens no tunnel to 10.0.0.7:8000: HTTP 403: only port 443", None),
        (Outcome.GENERATOR_ERROR, "cannot resolve the proxy p: Name or service not known", None),
        (Outcome.HTTP_ERROR, "HTTP 407 (the proxy wants user:password in the environment variable X)", 407),
    ],
)
def test_a_proxy_that_is_in_the_way_is_not_taken_for_the_server(
    outcome: Outcome, said: str, status: int | None
) -> None:
    text = why(outcome, said, status)
    assert cause(text) == "there is no way through the proxy"
    assert remedy(text).startswith("Check --proxy and that the proxy may reach 10.0.0.7:8000; ")
