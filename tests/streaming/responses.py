"""Builders for raw responses, and the parts that most of them share."""

from __future__ import annotations

import json
from typing import Any

CHAT, COMPLETIONS, GENERATE, OLLAMA_CHAT = "openai-chat", "openai-completions", "ollama-generate", "ollama-chat"


def response(*chunks: str | bytes, status: str = "200 OK", kind: str = "text/event-stream") -> bytes:
    """A chunked response, one chunk per argument."""
    return head(status, kind) + b"".join(map(chunk, chunks)) + b"0\r\n\r\n"


def head(status: str = "200 OK", kind: str = "text/event-stream", framing: str = "Transfer-Encoding: chunked") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode()


def chunk(body: str | bytes) -> bytes:
    body = body.encode() if isinstance(body, str) else body
    return b"%x\r\n%b\r\n" % (len(body), body)


def whole(body: str, status: str = "200 OK", kind: str = "application/json", extra: str = "") -> bytes:
    """A response with a length."""
    return head(status, kind, f"{extra}Content-Length: {len(body.encode())}") + body.encode()


def sse(value: Any, **kwargs: Any) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, **kwargs)}\n\n"


def delta(finish: str | None = None, **content: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def text(piece: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": piece, "logprobs": None, "finish_reason": finish}]}


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}
    return {"choices": [], "usage": counts}


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


ROLE = sse(delta(role="assistant", content=""))
HELLO = [sse(delta(content=piece)) for piece in ("Hel", "lo", "!")]
STOP = sse(delta("stop"))
USAGE = sse(usage(7, 3))
DONE = "data: [DONE]\n\n"
PLAIN = [ROLE, *HELLO, STOP, USAGE, DONE]

TOOL = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}}
