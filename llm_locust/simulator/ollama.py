"""The Ollama API: generate and chat as JSON lines with durations in nanoseconds, and the pages about models."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from llm_locust.simulator.dialect import Ask, Refused, encode, json_response, read_messages
from llm_locust.simulator.engine import Job
from llm_locust.simulator.http import Response
from llm_locust.simulator.keep_alive import parse_keep_alive
from llm_locust.simulator.options import Options
from llm_locust.simulator.tokens import tokenize, tokenize_chat

_DIGEST = "0" * 64
_DETAILS = {
    "parent_model": "",
    "format": "synthetic",
    "family": "synthetic",
    "families": ["synthetic"],
    "parameter_size": "0B",
    "quantization_level": "none",
}


def error_response(status: int, message: str) -> Response:
    """An error in Ollama's form."""
    return json_response(status, {"error": message}, *((("retry-after", "1"),) if status == 429 else ()))


class PreloadAsked(Exception):
    """A generation request without a prompt: the wish to load the model, or with ``keep_alive`` 0 to unload it."""

    def __init__(self, keep_ns: int | None) -> None:
        super().__init__(keep_ns)
        self.keep_ns = keep_ns
        self.unload = keep_ns == 0


class OllamaDialect:
    """``/api/generate``, or with ``chat`` ``/api/chat``."""

    def __init__(self, options: Options, *, chat: bool) -> None:
        self._options = options
        self._chat = chat

    def parse(self, body: bytes, reply_id: str) -> Ask:
        """Understand a request; Ollama streams unless told not to, and has no ids.

        Raises:
            Refused: see :class:`~llm_locust.simulator.dialect.Dialect`.
            PreloadAsked: there is nothing to answer but that the model is loaded, or unloaded.
        """
        ask = read_object(body)
        check_model(ask, self._options.model)
        try:
            keep_ns = parse_keep_alive(ask.get("keep_alive"))
        except ValueError as error:
            raise Refused(error_response(400, str(error))) from None
        if self._chat:
            if ask.get("messages") in (None, []):
                raise PreloadAsked(keep_ns)
            messages = read_messages(ask["messages"])
            if messages is None:
                raise Refused(error_response(400, "messages: give a list of objects with a role and a text content"))
            prompt = tokenize_chat(messages)
        else:
            prompt = self._generate_prompt(ask)
            if not prompt:
                raise PreloadAsked(keep_ns)
        settings = ask.get("options")
        asked = settings.get("num_predict") if isinstance(settings, dict) else None
        if asked is not None and (not isinstance(asked, int) or isinstance(asked, bool)):
            raise Refused(error_response(400, f"options.num_predict must be an integer, got {asked!r}"))
        if asked is not None and asked <= 0:
            asked = None  # Ollama: -1 is "until the model stops"
        room = self._options.max_model_len - len(prompt)
        if room < (asked or 1):
            raise Refused(
                error_response(
                    400,
                    f"the input length exceeds the context length: {len(prompt)} tokens and {asked or 1} to come, "
                    f"but the context holds {self._options.max_model_len}",
                )
            )
        length = min(self._options.output_tokens, room) if asked is None else asked
        reason = "stop" if asked is None else "length"
        writer = OllamaWriter(self._options, chat=self._chat)
        return Ask(prompt, length, reason, ask.get("stream") is not False, writer, keep_ns)

    def refusal(self, status: int, message: str, kind: str | None = None) -> Response:
        """An error in Ollama's form, which knows no types."""
        return error_response(status, message)

    def busy(self) -> Response:
        """The queue is full: 503 with the words of Ollama."""
        return error_response(503, "server busy, please try again.  maximum pending requests exceeded")

    def without_prompt(self, asked: PreloadAsked) -> Response:
        """The answer to a request that only loads or unloads the model."""
        empty = {"message": {"role": "assistant", "content": ""}} if self._chat else {"response": ""}
        reason = "unload" if asked.unload else "load"
        return json_response(
            200,
            {"model": self._options.model, "created_at": _now(), **empty, "done": True, "done_reason": reason},
        )

    def _generate_prompt(self, ask: dict[str, Any]) -> list[int]:
        prompt, system = ask.get("prompt"), ask.get("system")
        if prompt in (None, ""):
            return []
        if not isinstance(prompt, str) or not isinstance(system, (str, type(None))):
            raise Refused(error_response(400, "prompt and system must be text"))
        return tokenize(f"{system} {prompt}" if system else prompt)


class OllamaWriter:
    """One reply as JSON lines: a line per token, and a last one that says how long everything took."""

    content_type = "application/x-ndjson"

    def __init__(self, options: Options, *, chat: bool) -> None:
        self._model = options.model
        self._chat = chat

    def opening(self) -> bytes:
        """Nothing."""
        return b""

    def token(self, index: int, word: str, finish: str | None) -> bytes:
        """One line; the finish comes in a line of its own."""
        return encode(self._line(word if index == 0 else " " + word, done=False)) + b"\n"

    def closing(self, job: Job, *, finished: bool) -> bytes:
        """The line with ``done``, counts and durations."""
        return encode(self._last(job, "")) + b"\n" if finished else b""

    def aborted(self) -> bytes:
        """Nothing: the connection just ends."""
        return b""

    def error(self, message: str) -> bytes:
        """A line with an error, and no line after it."""
        return encode({"error": message}) + b"\n"

    def whole(self, job: Job, words: list[str]) -> Response:
        """The last line with the whole text."""
        return json_response(200, self._last(job, " ".join(words)))

    def _line(self, text: str, *, done: bool) -> dict[str, Any]:
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"response": text}
        return {"model": self._model, "created_at": _now(), **content, "done": done}

    def _last(self, job: Job, text: str) -> dict[str, Any]:
        assert job.admitted_ns is not None
        assert job.first_ns is not None
        assert job.last_ns is not None
        return {
            **self._line(text, done=True),
            "done_reason": job.finish_reason,
            "total_duration": job.last_ns - job.arrived_ns,
            "load_duration": job.load_wait_ns,
            "prompt_eval_count": len(job.prompt),
            "prompt_eval_duration": job.first_ns - job.admitted_ns,
            "eval_count": job.emitted,
            "eval_duration": job.last_ns - job.first_ns,
        }


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        Refused: it is none.
    """
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(error_response(400, f"the body is not a JSON object: {error}")) from None


def check_model(ask: Mapping[str, Any], model: str) -> None:
    """Whether the model is named and served; the tag ``:latest`` may be there or not.

    Raises:
        Refused: it is missing, or another.
    """
    asked = ask.get("model") or ask.get("name")
    if not asked:
        raise Refused(error_response(400, "model is required"))
    if str(asked).removesuffix(":latest") != model.removesuffix(":latest"):
        raise Refused(error_response(404, f"model '{asked}' not found"))


def list_models(options: Options) -> Response:
    """``/api/tags``."""
    return json_response(200, {"models": [{**_card(options.model), "modified_at": _now()}]})


def loaded_models(options: Options, *, loaded: bool, expires_in_ns: int) -> Response:
    """``/api/ps``: the model while it is loaded, its memory in bytes, and when it will go."""
    expires = datetime.now(UTC) + timedelta(microseconds=expires_in_ns // 1000)
    memory = round(options.model_gb * 1e9)
    card = {
        **_card(options.model),
        "size": memory,
        "size_vram": round(options.vram_share * memory),
        "expires_at": expires.isoformat(),
        "context_length": options.max_model_len,
    }
    return json_response(200, {"models": [card] if loaded else []})


def show_model(body: bytes, options: Options) -> Response:
    """``/api/show``.

    Raises:
        Refused: another model.
    """
    check_model(read_object(body), options.model)
    info = {"general.architecture": "synthetic", "synthetic.context_length": options.max_model_len}
    return json_response(200, {"details": _DETAILS, "model_info": info, "capabilities": ["completion"]})


def _card(model: str) -> dict[str, Any]:
    return {"name": model, "model": model, "size": 0, "digest": _DIGEST, "details": _DETAILS}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
