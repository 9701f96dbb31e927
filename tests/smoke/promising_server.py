"""A made-up server that keeps every promise which a smoke test looks at, and breaks those that a test names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import gevent
import msgspec
from gevent.server import StreamServer

from llm_locust.smoke.server import SmokedServer
from llm_locust.telemetry.target import TargetFacts
from tests.telemetry.server import http, models

TEMPLATE = 5
"""Tokens that its chat template adds; a word of a prompt is a token."""
ANSWER = '{"answer": "yes", "certain": true}'

Body = Mapping[str, Any]


@dataclass
class PromisingServer:
    """What it does; each field is a promise, or a way to break one."""

    template: int = TEMPLATE
    ended_text: str = "OK"
    """Its reply to who sets no output limit."""
    ended_reason: str = "stop"
    ends: bool = True
    beyond_limit: int = 0
    limit_reason: str = "length"
    early: bool = False
    """Every reply ends by itself before the limit."""
    formatted: str | None = ANSWER
    """Its reply where a form is asked for; ``None``: the same as ever."""
    refused_formats: tuple[str, ...] = ()
    streams: str = "events"
    """``lump``: all at once; ``fours``; ``whole``: no stream at all."""
    gap_s: float = 0.002
    """Between two sends of a stream."""
    usage: bool = True
    whole_prompt_tokens: int | None = None
    usage_error: int = 0
    metrics: str = "counts"
    """``still``: counters that do not move; ``double``, ``unknown``, ``broken``, ``closed``, ``error``."""
    tokenizer: str = "whole"
    """``prompts``: fewer tokens for messages than a request has; ``none``."""
    completions: str = "plain"
    """``templated``, ``none``."""
    date_offset_s: float | None = 0.0
    """``None``: it sends no Date."""
    fails: str | None = None
    """Requests with this field in their body get a 500."""
    loading: int = 0
    """Answers 503 to so many requests first."""
    generated: int = field(default=0, init=False)

    # --- pages ---------------------------------------------------------------------------------------------------------

    def page(self, path: str, body: Body) -> bytes | None:
        """The whole answer; ``None`` where a stream is to be sent."""
        if self.loading > 0:
            self.loading -= 1
            return http(503, {"error": {"message": "Loading model"}})
        if path == "/v1/models":
            date = (
                {}
                if self.date_offset_s is None
                else {"Date": formatdate(time.time() + self.date_offset_s, usegmt=True)}
            )
            return models("m").replace(b"\r\n\r\n", b"".join(_line(*each) for each in date.items()) + b"\r\n\r\n", 1)
        if path == "/metrics":
            return self._metrics_page()
        if path == "/tokenize" and self.tokenizer != "none":
            return self._tokenize(body)
        if path == "/v1/chat/completions" or (path == "/v1/completions" and self.completions != "none"):
            return self._reply(path, body)
        return http(404, {"detail": "Not Found"})

    def _metrics_page(self) -> bytes:
        if self.metrics == "closed":
            return http(501, {"error": {"message": "This server does not support metrics endpoint."}})
        if self.metrics == "error":
            return http(500, "no")
        if self.metrics == "unknown":
            return http(200, "something_else 1\n")
        if self.metrics == "broken":
            return http(200, 'vllm:generation_tokens_total{engine="0"} many\n')
        count = {"still": 0, "double": 2 * self.generated}.get(self.metrics, self.generated)
        return http(200, f'vllm:generation_tokens_total{{engine="0"}} {count}\nvllm:num_requests_running 0\n')

    def _tokenize(self, body: Body) -> bytes:
        count = self._prompt_tokens(body, templated="messages" in body)
        if "messages" in body and self.tokenizer == "prompts":
            count -= self.template
        return http(200, {"count": count, "tokens": list(range(count)), "max_model_len": 100})

    # --- generation ----------------------------------------------------------------------------------------------------

    def _prompt_tokens(self, body: Body, *, templated: bool) -> int:
        text = body.get("prompt") or " ".join(message["content"] for message in body.get("messages", ()))
        return len(text.split()) + (self.template if templated else 0)

    def _words(self, body: Body) -> tuple[list[str], str]:
        limit = body.get("max_tokens")
        if (asked := body.get("response_format")) is not None and self.formatted is not None:
            return [self.formatted], "length" if asked["type"] == "cut" else "stop"
        if limit is None:
            return (self.ended_text.split(" "), self.ended_reason) if self.ends else (["word"] * 2000, "length")
        if self.early:
            return ["short"], "stop"
        return ["word"] * (limit + self.beyond_limit), self.limit_reason

    def _reply(self, path: str, body: Body) -> bytes | None:
        if self.fails is not None and self.fails in body:
            return http(500, {"error": {"message": "it fell over"}})
        form = body.get("response_format", {}).get("type")
        if form in self.refused_formats:
            return http(400, {"error": {"message": f"{form} is not supported"}})
        if body.get("stream") and self.streams != "whole":
            return None
        words, reason = self._words(body)
        self.generated += len(words)
        counts = self._usage(path, body, len(words)) if self.usage else {}
        if counts and self.whole_prompt_tokens is not None:
            counts["prompt_tokens"] = self.whole_prompt_tokens
        text = " ".join(words)
        content = {"text": text} if path == "/v1/completions" else {"message": {"content": text}}
        choice = {"index": 0, "finish_reason": reason, **content}
        return http(200, {"choices": [choice], **({"usage": counts} if counts else {})})

    def _usage(self, path: str, body: Body, count: int) -> dict[str, int]:
        templated = path == "/v1/chat/completions" or self.completions == "templated"
        prompt = self._prompt_tokens(body, templated=templated)
        return {"prompt_tokens": prompt + self.usage_error, "completion_tokens": count}

    def stream(self, path: str, body: Body, send: Callable[[bytes], None]) -> None:
        """The events of a reply, as they are generated."""
        words, reason = self._words(body)
        events = []
        for place, word in enumerate(words):
            piece = word if place == 0 else f" {word}"
            content = {"text": piece} if path == "/v1/completions" else {"delta": {"content": piece}}
            events.append(_event({"choices": [{"index": 0, "finish_reason": None, **content}]}))
        ending = _event({"choices": [{"index": 0, "finish_reason": reason, "delta": {}, "text": ""}]})
        if self.usage and body.get("stream_options", {}).get("include_usage"):
            ending += _event({"choices": [], "usage": self._usage(path, body, len(words))})
        self.generated += len(words)
        at_once = {"lump": len(events), "fours": 4}.get(self.streams, 1)
        send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for start in range(0, len(events), at_once):
            send(b"".join(events[start : start + at_once]))
            gevent.sleep(self.gap_s)
        send(ending)


def _event(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _line(name: str, value: str) -> bytes:
    return f"\r\n{name}: {value}".encode()


@contextlib.contextmanager
def listening(server: PromisingServer) -> Iterator[str]:
    """It serves, one request a connection, while the block lasts; yields its base URL."""

    def serve(sock: Any, _address: Any) -> None:
        with contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += sock.recv(65536) or b"\r\n\r\n"
            head, _, body = data.partition(b"\r\n\r\n")
            length = next((int(w[15:]) for w in head.split(b"\r\n") if w.lower().startswith(b"content-length:")), 0)
            while len(body) < length:
                body += sock.recv(65536)
            path = head.split(b" ")[1].decode()
            asked: Body = msgspec.json.decode(body) if body else {}
            answer = server.page(path, asked)
            if answer is not None:
                sock.sendall(answer.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            else:
                server.stream(path, asked, sock.sendall)

    listener = StreamServer(("127.0.0.1", 0), serve)
    listener.start()
    try:
        with gevent.Timeout(30):
            yield f"http://127.0.0.1:{listener.server_port}"
    finally:
        listener.stop(timeout=1)


@contextlib.contextmanager
def smoked(server: PromisingServer, facts: TargetFacts | None = None, **options: Any) -> Iterator[SmokedServer]:
    """The smoke test's side of it."""
    with listening(server) as url:
        under_test = SmokedServer(
            url, "m", {"Authorization": "Bearer sk-abcdefgh12345678"}, facts or TargetFacts(), **options
        )
        try:
            yield under_test
        finally:
            under_test.close()
