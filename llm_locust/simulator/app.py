"""The pages of the synthetic server: which path is whose, who is let in, and what is said while it loads."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from importlib.metadata import version

import gevent

from llm_locust.simulator import ollama, openai
from llm_locust.simulator.connection import Connection
from llm_locust.simulator.dialect import Dialect, Refused, json_response
from llm_locust.simulator.engine import Engine
from llm_locust.simulator.generation import Generations
from llm_locust.simulator.http import Request, Response
from llm_locust.simulator.keep_alive import FOREVER_NS
from llm_locust.simulator.metrics import EngineMetrics
from llm_locust.simulator.options import Options
from llm_locust.simulator.pacing import EnginePacer
from llm_locust.simulator.truth_log import TruthLog

Page = Callable[[Request], Response]

_LOADING = json_response(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
_PROMETHEUS_TEXT = "text/plain; version=1.0.0; charset=utf-8"


class App:
    """One engine behind its pages."""

    def __init__(self, options: Options, log: TruthLog, unix_anchor_ns: int) -> None:
        engine = Engine(options.engine_config())
        self._options = options
        self._engine = engine
        self._metrics = EngineMetrics(engine, options.model, options.max_model_len)
        self._pacer = EnginePacer(engine, self._metrics.observe)
        self._generations = Generations(options, self._pacer, log, unix_anchor_ns)
        self._key = options.api_key()
        self._started = int(time.time())
        self._ready_ns = time.monotonic_ns() + round(options.loading_seconds * 1e9)
        self._dialects: dict[str, Dialect] = {
            "/v1/completions": openai.OpenAIDialect(options, chat=False),
            "/v1/chat/completions": openai.OpenAIDialect(options, chat=True),
            "/api/generate": ollama.OllamaDialect(options, chat=False),
            "/api/chat": ollama.OllamaDialect(options, chat=True),
        }
        self._pages: dict[str, tuple[str, Page]] = {
            "/health": ("GET", lambda _: Response(200, b"")),
            "/metrics": ("GET", self._metrics_page),
            "/version": ("GET", self._version),
            "/tokenize": ("POST", lambda request: openai.tokenize_response(request.body, options)),
            "/reset_prefix_cache": ("POST", self._reset_prefix_cache),
            "/v1/models": ("GET", self._models),
            "/api/version": ("GET", self._version),
            "/api/tags": ("GET", lambda _: ollama.list_models(options)),
            "/api/ps": ("GET", self._loaded_models),
            "/api/show": ("POST", lambda request: ollama.show_model(request.body, options)),
        }

    def answer(self, request: Request, connection: Connection) -> None:
        """Answer one request.

        Raises:
            ClientGone: the connection is over.
        """
        if self._options.latency_ms:
            gevent.sleep(self._options.latency_ms / 1000)
        denied = self._deny(request)
        dialect = self._dialects.get(request.path)
        if dialect is not None and request.method == "POST":
            self._generations.answer(request, connection, dialect, denied)
            return
        response = denied or self._page(request)
        connection.send(response.encode(keep_alive=request.keep_alive))

    def stop(self, seconds: float) -> None:
        """End every stream, within ``seconds``."""
        self._generations.stop(seconds)
        self._pacer.stop()

    def _deny(self, request: Request) -> Response | None:
        if request.path == "/metrics":
            return None
        if time.monotonic_ns() < self._ready_ns:
            return _LOADING
        if self._key is not None and request.path.startswith(("/v1/", "/api/")):
            # Bytes: a header may hold characters that compare_digest refuses in text.
            given = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, f"Bearer {self._key}".encode()):
                return openai.error_response(
                    401, "Incorrect API key provided.", "invalid_request_error", code="invalid_api_key"
                )
        return None

    def _page(self, request: Request) -> Response:
        method, page = self._pages.get(request.path, ("POST" if request.path in self._dialects else "", None))
        if page is not None and request.method == method:
            try:
                return page(request)
            except Refused as refused:
                return refused.response
        if method:
            return json_response(405, {"detail": "Method Not Allowed"}, ("allow", method))
        return json_response(404, {"detail": "Not Found"})

    def _metrics_page(self, _: Request) -> Response:
        self._pacer.refresh()
        return Response(200, self._metrics.page(), _PROMETHEUS_TEXT)

    def _reset_prefix_cache(self, _: Request) -> Response:
        self._pacer.reset_prefix_cache()
        return Response(200, b"")

    def _version(self, _: Request) -> Response:
        facts = {"version": version("llm-locust"), "engine": "llm-locust-simulator", "synthetic": True}
        return json_response(200, facts)

    def _models(self, _: Request) -> Response:
        card = {
            "id": self._options.model,
            "object": "model",
            "created": self._started,
            "owned_by": "llm-locust-simulator",
            "root": self._options.model,
            "parent": None,
            "max_model_len": self._options.max_model_len,
        }
        return json_response(200, {"object": "list", "data": [card]})

    def _loaded_models(self, _: Request) -> Response:
        self._pacer.refresh()
        now_ns = time.monotonic_ns()
        loaded_ns, expires_ns = self._engine.loaded_ns, self._engine.expires_ns
        return ollama.loaded_models(
            self._options,
            # Without a cold load the model is in memory from the start.
            loaded=loaded_ns is not None and loaded_ns <= now_ns,
            expires_in_ns=FOREVER_NS if expires_ns is None else expires_ns - now_ns,
        )
