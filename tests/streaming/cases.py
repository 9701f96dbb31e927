"""Raw responses and what is due for each: the specification of the decoder."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from llm_locust.streaming import Reply

from .responses import (
    CHAT,
    COMPLETIONS,
    DONE,
    GENERATE,
    HELLO,
    OLLAMA_CHAT,
    PLAIN,
    ROLE,
    STOP,
    TOOL,
    USAGE,
    chunk,
    delta,
    head,
    lines,
    response,
    sse,
    text,
    usage,
    whole,
)


class Case(NamedTuple):
    name: str
    dialect: str
    raw: bytes
    due: dict[str, Any]
    streamed: bool = True


def decoded_fields(reply: Reply) -> dict[str, Any]:
    """Everything about a reply that does not depend on how its bytes were cut into reads."""
    names = (
        "outcome", "status", "error", "text", "reasoning", "output_events", "output_tokens", "output_tokens_source",
        "finish_reason", "prompt_tokens", "reasoning_tokens", "cached_tokens", "load_duration_ns", "bytes_in",
    )  # fmt: skip
    return {name: getattr(reply, name) for name in names}


HELLO_DUE = {
    "outcome": "ok", "status": 200, "error": None, "text": "Hello!", "reasoning": "", "output_events": 3,
    "output_tokens": 3, "output_tokens_source": "usage", "finish_reason": "stop", "prompt_tokens": 7,
}  # fmt: skip
UNCOUNTED_DUE = {**HELLO_DUE, "output_tokens_source": "events", "prompt_tokens": None}


def error_reply(status: str, body: str, kind: str = "application/json", extra: str = "") -> bytes:
    return whole(body, status, kind, extra)


def reply_in_one_piece(message: dict[str, Any], tokens: int) -> bytes:
    """A chat reply without a stream, of 7 prompt tokens."""
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return whole(json.dumps({"choices": [choice], "usage": usage(7, tokens)["usage"]}))


def ollama(*parts: str) -> bytes:
    """A stream of lines of JSON."""
    return response(*parts, kind="application/x-ndjson")


CASES: list[Case] = [
    # The shape of a good stream
    Case("a role-only first event is not output", CHAT, response(*PLAIN), HELLO_DUE),
    Case("lines end in CRLF", CHAT, response("".join(PLAIN).replace("\n", "\r\n")), HELLO_DUE),
    Case("lines end in CR", CHAT, response("".join(PLAIN).replace("\n", "\r")), HELLO_DUE),
    Case("an event ends in LF CRLF", CHAT, response(*[e[:-1] + "\r\n" for e in PLAIN]), HELLO_DUE),
    Case("no space after the colon", CHAT, response(*[e.replace("data: ", "data:") for e in PLAIN]), HELLO_DUE),
    Case("a byte-order mark", CHAT, response("\ufeff" + PLAIN[0], *PLAIN[1:]), HELLO_DUE),
    Case(
        "comments alone and before data",
        CHAT,
        response(": ping\n\n", ":\n\n", ROLE, ":\n" + HELLO[0], *PLAIN[2:]),
        HELLO_DUE,
    ),
    Case("a keep-alive comment inside a data field", CHAT, response("data: : keepalive\n\n", *PLAIN), HELLO_DUE),
    Case("an empty data field", CHAT, response("data:\n\n", *PLAIN), HELLO_DUE),
    Case(
        "event, id and retry fields",
        CHAT,
        response("retry: 3000\n\n", *[f"event: message\nid: 1\n{e}" for e in PLAIN]),
        HELLO_DUE,
    ),
    Case(
        "one event over two data lines",
        CHAT,
        response('data: {"choices":[{"index":0,\ndata: "delta":{"content":"Hello!"}}]}\n\n', STOP, USAGE, DONE),
        {**HELLO_DUE, "output_events": 1},
    ),
    Case(
        "multi-byte characters",
        CHAT,
        response(sse(delta(content="你好")), sse(delta(content="🙂é")), STOP, sse(usage(7, 4))),
        {"outcome": "ok", "text": "你好🙂é", "output_events": 2, "output_tokens": 4},
    ),
    Case(
        "a character whose halves are escaped in two events",
        CHAT,
        response(
            'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
            'data: {"choices":[{"delta":{"content":"\\ude42"}}]}\n\n',
            STOP,
        ),
        {"outcome": "ok", "text": "🙂", "output_events": 2},
    ),
    Case(
        "broken UTF-8 is replaced",
        CHAT,
        response(b'data: {"choices":[{"delta":{"content":"a\xff"}}]}\n\n', STOP),
        {"outcome": "ok", "text": "a�"},
    ),
    Case(
        "NaN where a number should be",
        CHAT,
        response('data: {"choices":[{"delta":{"content":"a"},"logprobs":NaN}]}\n\n', STOP),
        {"outcome": "ok", "text": "a"},
    ),
    Case(
        "empty content is not output",
        CHAT,
        response(
            sse(delta(content="")),
            sse(delta(content="a")),
            sse(delta(content="")),
            sse(delta(content="b")),
            STOP,
            sse(usage(7, 2)),
        ),
        {"outcome": "ok", "text": "ab", "output_events": 2, "output_tokens": 2},
    ),
    Case(
        "a null delta",
        CHAT,
        response(
            'data: {"choices":[{"index":0,"delta":null,"finish_reason":null}]}\n\n',
            sse(delta(content="a")),
            'data: {"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}\n\n',
            sse(usage(7, 1)),
        ),
        {"outcome": "ok", "text": "a", "output_events": 1, "output_tokens": 1},
    ),
    Case("a stream under a wrong content type is a stream", CHAT, response(*PLAIN, kind="application/json"), HELLO_DUE),
    # What else is output
    Case(
        "reasoning is output",
        CHAT,
        response(
            sse(delta(content=None, reasoning_content="think")),
            sse(delta(reasoning="ing")),
            sse(delta(content="42")),
            STOP,
            sse(
                usage(
                    7, 5, completion_tokens_details={"reasoning_tokens": 4}, prompt_tokens_details={"cached_tokens": 6}
                )
            ),
        ),
        {
            "outcome": "ok",
            "text": "42",
            "reasoning": "thinking",
            "output_events": 3,
            "output_tokens": 5,
            "reasoning_tokens": 4,
            "cached_tokens": 6,
        },
    ),
    Case(
        "both reasoning keys at once are one text",
        CHAT,
        response(sse(delta(reasoning_content="hm", reasoning="hm")), sse(delta(content="ok")), STOP),
        {"outcome": "ok", "reasoning": "hm", "output_events": 2},
    ),
    Case(
        "a tool call is output",
        CHAT,
        response(ROLE, sse(delta(tool_calls=[TOOL])), sse(delta("tool_calls"))),
        {"outcome": "ok", "text": "", "output_events": 1, "finish_reason": "tool_calls"},
    ),
    Case(
        "a refusal is output",
        CHAT,
        response(ROLE, sse(delta(refusal="No.")), STOP),
        {"outcome": "ok", "output_events": 1},
    ),
    Case(
        "an empty list of tool calls is not output",
        CHAT,
        response(sse(delta(tool_calls=[])), STOP),
        {"outcome": "empty", "output_events": 0},
    ),
    # Token counts
    Case(
        "usage null on every event but the last",
        CHAT,
        response(sse({**delta(content="a"), "usage": None}), sse({**delta("stop"), "usage": None}), sse(usage(7, 1))),
        {"outcome": "ok", "output_tokens": 1, "output_tokens_source": "usage"},
    ),
    Case(
        "of a usage on every event the last counts",
        CHAT,
        response(
            *[
                sse({**delta(content=piece), "usage": usage(7, n)["usage"]})
                for piece, n in (("a", 1), ("bcd", 4), ("e", 5))
            ],
            STOP,
        ),
        {"outcome": "ok", "text": "abcde", "output_events": 3, "output_tokens": 5},
    ),
    Case(
        "usage rides on the finish event",
        CHAT,
        response(*HELLO, sse({**delta("stop"), "usage": usage(7, 4)["usage"]})),
        {**HELLO_DUE, "output_tokens": 4},
    ),
    Case("without usage the output events count", CHAT, response(*HELLO, STOP, DONE), UNCOUNTED_DUE),
    Case(
        "a usage of zero beside text is not believed",
        CHAT,
        response(*HELLO, STOP, sse(usage(7, 0))),
        {**HELLO_DUE, "output_tokens_source": "events"},
    ),
    Case(
        "ten tokens in two events",
        CHAT,
        response(sse(delta(content="one two three four ")), sse(delta("length", content="five")), sse(usage(7, 10))),
        {"outcome": "ok", "output_events": 2, "output_tokens": 10, "finish_reason": "length"},
    ),
    # How it may end
    Case("[DONE] is not needed", CHAT, response(*HELLO, STOP), UNCOUNTED_DUE),
    Case("[DONE] is not enough", CHAT, response(*HELLO, DONE), {"outcome": "truncated", "output_events": 3}),
    Case("a clean end without a finish reason", CHAT, response(*HELLO), {"outcome": "truncated", "output_events": 3}),
    Case("an empty finish reason is none", CHAT, response(sse(delta("", content="a"))), {"outcome": "truncated"}),
    Case(
        "closed between chunks",
        CHAT,
        head() + chunk(HELLO[0]) + chunk(HELLO[1]),
        {"outcome": "truncated", "output_events": 2, "error": "the connection was closed before the end of the body"},
    ),
    Case(
        "closed inside a chunk",
        CHAT,
        head() + chunk(HELLO[0]) + chunk(HELLO[1])[:-20],
        {"outcome": "truncated", "output_events": 1},
    ),
    Case(
        "an unfinished last event is never dispatched",
        CHAT,
        response(*HELLO, STOP.rstrip("\n")),
        {"outcome": "truncated", "output_events": 3},
    ),
    Case(
        "a body that ends with the connection",
        CHAT,
        head(framing="Connection: close") + "".join(PLAIN).encode(),
        HELLO_DUE,
    ),
    Case(
        "a body that ends with the connection, cut short",
        CHAT,
        head(framing="Connection: close") + "".join(HELLO).encode(),
        {"outcome": "truncated", "output_events": 3},
    ),
    Case(
        "closed inside the head", CHAT, b"HTTP/1.1 200 OK\r\nContent-Ty", {"outcome": "connection_lost", "status": None}
    ),
    Case(
        "closed without a byte", CHAT, b"", {"outcome": "connection_lost", "output_events": None, "output_tokens": None}
    ),
    Case("role, then nothing", CHAT, response(ROLE, DONE), {"outcome": "empty", "output_events": 0}),
    Case(
        "finished with zero tokens",
        CHAT,
        response(ROLE, STOP, sse(usage(7, 0))),
        {"outcome": "empty", "output_events": 0, "output_tokens": 0, "output_tokens_source": "usage"},
    ),
    Case("200 and nothing", CHAT, response(), {"outcome": "empty", "output_events": 0}),
    Case("204", CHAT, b"HTTP/1.1 204 No Content\r\n\r\n", {"outcome": "empty", "status": 204}),
    # Errors inside a 200
    Case(
        "an error first, even one of memory",
        CHAT,
        response(sse({"error": {"message": "out of memory", "code": 500}}), DONE),
        {"outcome": "stream_error", "output_events": 0, "error": "out of memory"},
    ),
    Case(
        "an error after output",
        CHAT,
        response(*HELLO, sse({"error": {"message": "engine died"}}), STOP),
        {"outcome": "stream_error", "output_events": 3, "text": "Hello!", "error": "engine died"},
    ),
    Case(
        "an event of type error",
        CHAT,
        response(HELLO[0], 'event: error\ndata: {"message":"upstream timeout"}\n\n'),
        {"outcome": "stream_error", "output_events": 1, "error": "upstream timeout"},
    ),
    Case(
        "an error object of the older form",
        CHAT,
        response(sse({"object": "error", "message": "bad", "code": 400})),
        {"outcome": "stream_error", "error": "bad"},
    ),
    Case(
        "finish reason abort",
        CHAT,
        response(*HELLO, sse(delta("abort")), USAGE, DONE),
        {"outcome": "stream_error", "output_events": 3, "finish_reason": "abort"},
    ),
    # Not the protocol
    Case(
        "an event that is not JSON",
        CHAT,
        response(HELLO[0], 'data: {"choices":[{"x"\n\n', HELLO[2], STOP),
        {"outcome": "protocol_error", "output_events": 2, "error": 'event 2: not JSON: {"choices":[{"x"'},
    ),
    Case("an event that is no object", CHAT, response("data: 17\n\n"), {"outcome": "protocol_error"}),
    Case(
        "an error outranks bytes that are not JSON",
        CHAT,
        response("data: {\n\n", sse({"error": "x"})),
        {"outcome": "stream_error"},
    ),
    Case(
        "more than one choice",
        CHAT,
        response(HELLO[0], 'data: {"choices":[{"index":1,"delta":{"content":"b"}}]}\n\n', STOP),
        {"outcome": "protocol_error", "error": "event 2: more than one choice per request (n > 1) cannot be measured"},
    ),
    Case("JSON nested beyond reason", CHAT, response("data: " + "[" * 20000 + "\n\n"), {"outcome": "protocol_error"}),
    Case(
        "a web page",
        CHAT,
        whole("<!DOCTYPE html><title>Welcome to nginx!</title>", kind="text/html"),
        {
            "outcome": "protocol_error",
            "error": "the answer looks like a web page, not an API; check the base URL (Welcome to nginx!)",
        },
    ),
    Case(
        "a text that is no stream",
        CHAT,
        whole("Ollama is running", kind="text/plain"),
        {
            "outcome": "protocol_error",
            "error": "no event in the body; wanted text/event-stream, got text/plain: Ollama is running",
        },
    ),
    Case(
        "lines of JSON where events were due",
        CHAT,
        ollama(lines({"response": "a", "done": False}, {"response": "", "done": True})),
        {"outcome": "protocol_error"},
    ),
    Case(
        "a chunk size that is none",
        CHAT,
        head() + chunk(HELLO[0]) + b"zz\r\n",
        {
            "outcome": "protocol_error",
            "output_events": 1,
            "error": "the body breaks HTTP framing: Invalid character in chunk size",
        },
    ),
    Case("not HTTP", CHAT, b"SSH-2.0-OpenSSH_9.6\r\n", {"outcome": "protocol_error", "status": None}),
    Case("a TLS alert", CHAT, b"\x15\x03\x01\x00\x02\x02\x46", {"outcome": "protocol_error"}),
    Case(
        "101",
        CHAT,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        {"outcome": "protocol_error"},
    ),
    Case(
        "a compressed body",
        CHAT,
        head(framing="Content-Encoding: gzip\r\nContent-Length: 2") + b"\x1f\x8b",
        {"outcome": "protocol_error", "error": "the body is compressed (gzip) although identity was asked for"},
    ),
    # Not streamed
    Case(
        "one JSON object by its content type",
        CHAT,
        reply_in_one_piece({"content": "hi"}, 1),
        {"outcome": "not_streamed", "output_events": None, "output_tokens": 1, "text": "hi", "finish_reason": "stop"},
    ),
    Case(
        "one JSON object by its look",
        CHAT,
        whole('{"choices": [],\n\n "id": 1}\n', kind="text/plain"),
        {"outcome": "not_streamed"},
    ),
    Case(
        "a JSON error under 200",
        CHAT,
        whole('{"error":{"message":"no such model"}}'),
        {
            "outcome": "not_streamed",
            "error": "a stream was asked for, but the server answered with one JSON object, an error: no such model",
        },
    ),
    Case(
        "an Ollama reply in one piece",
        GENERATE,
        whole(lines({"response": "hi", "done": True, "eval_count": 1})),
        {"outcome": "not_streamed", "output_events": None, "output_tokens": 1},
    ),
    # By status
    Case(
        "429",
        CHAT,
        error_reply("429 Too Many Requests", '{"error":{"message":"Rate limit"}}'),
        {
            "outcome": "rejected",
            "status": 429,
            "error": "HTTP 429: Rate limit",
            "output_events": None,
            "output_tokens": None,
        },
    ),
    Case(
        "503",
        CHAT,
        error_reply("503 Service Unavailable", '{"error":"server busy"}'),
        {"outcome": "rejected", "status": 503, "error": "HTTP 503: server busy"},
    ),
    Case(
        "500 out of memory",
        CHAT,
        error_reply("500 Oops", '{"error":{"message":"CUDA out of memory. Tried to allocate 2.00 GiB"}}'),
        {"outcome": "oom", "status": 500},
    ),
    Case(
        "503 out of memory",
        CHAT,
        error_reply("503 Busy", '{"error":"model requires more system memory (5.6 GiB) than is available"}'),
        {"outcome": "oom", "status": 503},
    ),
    Case(
        "400",
        CHAT,
        error_reply("400 Bad Request", '{"object":"error","message":"context length is 8192 tokens","code":400}'),
        {"outcome": "http_error", "status": 400, "error": "HTTP 400: context length is 8192 tokens"},
    ),
    Case(
        "404 with a detail",
        CHAT,
        error_reply("404 Not Found", '{"detail":"Not Found"}'),
        {"outcome": "http_error", "error": "HTTP 404: Not Found"},
    ),
    Case(
        "502 with a page",
        CHAT,
        error_reply("502 Bad Gateway", "<html><head><title>502 Bad Gateway</title></head></html>", "text/html"),
        {"outcome": "http_error", "error": "HTTP 502: 502 Bad Gateway"},
    ),
    Case("500 without a body", CHAT, error_reply("500 Oops", ""), {"outcome": "http_error", "error": "HTTP 500"}),
    Case(
        "500 whose body is cut",
        CHAT,
        error_reply("500 Oops", '{"error":"x"}')[:-3],
        {"outcome": "http_error", "status": 500},
    ),
    Case(
        "a redirect names where it points",
        CHAT,
        error_reply("307 Temporary Redirect", "", extra="Location: /v1/chat/completions/\r\n"),
        {
            "outcome": "http_error",
            "status": 307,
            "error": "HTTP 307: redirects are not followed; it points to /v1/chat/completions/",
        },
    ),
    # HTTP around it
    Case(
        "interim responses",
        CHAT,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(*PLAIN),
        HELLO_DUE,
    ),
    Case(
        "chunk extensions and trailers",
        CHAT,
        head()
        + b"%x;a=b\r\n%b\r\n" % (len("".join(PLAIN)), "".join(PLAIN).encode())
        + b"0\r\nContent-Type: text/html\r\n\r\n",
        HELLO_DUE,
    ),
    Case(
        "an empty header",
        CHAT,
        response(*PLAIN).replace(b"\r\n", b"\r\nAccess-Control-Allow-Origin: \r\n", 1),
        HELLO_DUE,
    ),
    Case("a stream with a length", CHAT, whole("".join(PLAIN), kind="text/event-stream"), HELLO_DUE),
    # Completions
    Case(
        "completions",
        COMPLETIONS,
        response(sse(text("Once")), sse(text(" upon")), sse(text(" a", "length")), sse(usage(7, 3)), DONE),
        {"outcome": "ok", "text": "Once upon a", "output_events": 3, "output_tokens": 3, "finish_reason": "length"},
    ),
    Case(
        "an empty first text is not output",
        COMPLETIONS,
        response(sse(text("")), sse(text("Once")), sse(text("", "stop"))),
        {"outcome": "ok", "text": "Once", "output_events": 1, "output_tokens_source": "events"},
    ),
    # Ollama
    Case(
        "ollama generate",
        GENERATE,
        ollama(
            lines({"response": "Hel", "done": False}, {"response": "lo", "done": False})
            + lines(
                {
                    "response": "",
                    "done": True,
                    "done_reason": "stop",
                    "load_duration": 10**9,
                    "prompt_eval_count": 7,
                    "eval_count": 2,
                }
            )
        ),
        {
            "outcome": "ok",
            "text": "Hello",
            "output_events": 2,
            "output_tokens": 2,
            "output_tokens_source": "usage",
            "finish_reason": "stop",
            "prompt_tokens": 7,
            "load_duration_ns": 10**9,
        },
    ),
    Case(
        "ollama chat with thinking",
        OLLAMA_CHAT,
        ollama(
            lines(
                {"message": {"content": "", "thinking": "hm"}, "done": False},
                {"message": {"content": "ok"}, "done": False},
            ),
            lines({"message": {"content": ""}, "done": True, "done_reason": "length", "eval_count": 2}),
        ),
        {"outcome": "ok", "text": "ok", "reasoning": "hm", "output_events": 2, "finish_reason": "length"},
    ),
    Case(
        "done without a reason is a finish",
        GENERATE,
        ollama(lines({"response": "a"}, {"done": True})),
        {"outcome": "ok", "finish_reason": None, "output_tokens_source": "events"},
    ),
    Case(
        "lines end in CRLF, some are blank",
        GENERATE,
        ollama('{"response":"a"}\r\n\r\n{"done":true}\r\n'),
        {"outcome": "ok", "text": "a"},
    ),
    Case(
        "the last line has no newline",
        GENERATE,
        ollama('{"response":"a"}\n{"done":true}'),
        {"outcome": "ok", "text": "a"},
    ),
    Case(
        "the last line is cut",
        GENERATE,
        ollama('{"response":"a"}\n{"done":tr'),
        {
            "outcome": "truncated",
            "output_events": 1,
            "error": 'the body ended without a finish reason; it stops inside an event: {"done":tr',
        },
    ),
    Case(
        "an error line",
        GENERATE,
        ollama(lines({"response": "a"}, {"error": "model runner has unexpectedly stopped"})),
        {"outcome": "stream_error", "output_events": 1, "error": "model runner has unexpectedly stopped"},
    ),
    Case(
        "a model only loaded",
        GENERATE,
        ollama(lines({"response": "", "done": True, "done_reason": "load"})),
        {"outcome": "empty", "output_events": 0},
    ),
    Case("events where lines of JSON were due", GENERATE, response(*PLAIN), {"outcome": "protocol_error"}),
    # In one piece, as asked
    Case(
        "a whole chat reply",
        CHAT,
        reply_in_one_piece({"content": "hi", "reasoning": "hm"}, 2),
        {
            "outcome": "ok",
            "text": "hi",
            "reasoning": "hm",
            "finish_reason": "stop",
            "output_tokens": 2,
            "output_events": None,
        },
        False,
    ),
    Case(
        "a whole reply without usage has no token count",
        CHAT,
        whole('{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'),
        {"outcome": "ok", "output_tokens": None, "output_tokens_source": None},
        False,
    ),
    Case(
        "a whole reply that says nothing",
        CHAT,
        whole('{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}'),
        {"outcome": "empty"},
        False,
    ),
    Case("a whole error under 200", CHAT, whole('{"error":"no"}'), {"outcome": "stream_error", "error": "no"}, False),
    Case(
        "a whole reply that is another thing",
        CHAT,
        whole('{"status":"up"}'),
        {"outcome": "protocol_error", "error": "a JSON object without choices"},
        False,
    ),
    Case(
        "a stream that was not asked for",
        CHAT,
        response(*PLAIN),
        {"outcome": "protocol_error", "error": "the reply was streamed although no stream was asked for"},
        False,
    ),
    Case(
        "a web page in one piece",
        CHAT,
        whole("<html></html>", kind="text/html"),
        {"outcome": "protocol_error", "error": "the answer looks like a web page, not an API; check the base URL"},
        False,
    ),
    Case(
        "a whole Ollama reply",
        OLLAMA_CHAT,
        whole('{"message":{"content":"hi"},"done":true,"done_reason":"stop","eval_count":1}'),
        {"outcome": "ok", "text": "hi", "output_tokens": 1, "finish_reason": "stop"},
        False,
    ),
]
