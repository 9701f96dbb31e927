"""The OpenAI API as vLLM serves it: completions and chat over SSE, its error bodies, ``/tokenize`` (llama.cpp's too)."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from llm_locust.simulator.dialect import Ask, Refused, encode, json_response, read_messages
from llm_locust.simulator.engine import Job
from llm_locust.simulator.faults import status_phrase
from llm_locust.simulator.http import Response
from llm_locust.simulator.options import Options
from llm_locust.simulator.tokens import tokenize, tokenize_chat

_DONE = b"data: [DONE]\n\n"


def error_response(
    status: int, message: str, kind: str | None = None, *, param: str | None = None, code: int | str | None = None
) -> Response:
    """An error in the form of vLLM; ``kind`` defaults to the phrase of the status, ``code`` to the status."""
    error = {
        "message": message,
        "type": kind or status_phrase(status),
        "param": param,
        "code": status if code is None else code,
    }
    return json_response(status, {"error": error}, *((("retry-after", "1"),) if status == 429 else ()))


class OpenAIDialect:
    """``/v1/completions``, or with ``chat`` ``/v1/chat/completions``."""

    def __init__(self, options: Options, *, chat: bool) -> None:
        self._options = options
        self._chat = chat

    def parse(self, body: bytes, reply_id: str) -> Ask:
        """Understand a request; see :class:`~llm_locust.simulator.dialect.Dialect`."""
        ask = _read_object(body)
        _check_model(ask, self._options.model)
        if _integer(ask, "n", low=1) not in (None, 1):
            raise _bad("n must be 1: this engine gives one choice per request.", "n")
        prompt = _chat_prompt(ask) if self._chat else _plain_prompt(ask)
        asked = _integer(ask, "max_tokens", low=1)
        if asked is None and self._chat:
            asked = _integer(ask, "max_completion_tokens", low=1)
        _integer(ask, "min_tokens", low=0)
        reply_tokens = _fit(len(prompt), asked, self._options)
        stream_options = ask.get("stream_options")
        if not isinstance(stream_options, dict):
            stream_options = {}
        writer = OpenAIWriter(
            self._options,
            chat=self._chat,
            reply_id=reply_id,
            prompt_tokens=len(prompt),
            include_usage=bool(stream_options.get("include_usage")),
            continuous_usage=bool(stream_options.get("continuous_usage_stats")),
        )
        return Ask(prompt, reply_tokens, "stop" if asked is None else "length", bool(ask.get("stream")), writer)

    def refusal(self, status: int, message: str, kind: str | None = None) -> Response:
        """An error in vLLM's form."""
        return error_response(status, message, kind)

    def busy(self) -> Response:
        """The queue is full: 503, without ``Retry-After``, as vLLM."""
        return error_response(503, "The engine is busy: its queue is full. Try again later.")


class OpenAIWriter:
    """One reply as server-sent events."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(
        self,
        options: Options,
        *,
        chat: bool,
        reply_id: str,
        prompt_tokens: int,
        include_usage: bool,
        continuous_usage: bool,
    ) -> None:
        self._chat = chat
        self._id = f"{'chatcmpl' if chat else 'cmpl'}-{reply_id}"
        self._created = int(time.time())
        self._model = options.model
        self._prefix_caching = options.prefix_caching
        self._prompt_tokens = prompt_tokens
        self._include_usage = include_usage
        self._continuous_usage = continuous_usage
        kind = "chat.completion.chunk" if chat else "text_completion"
        # Cut short of its closing brace: what is the same in every event of this reply.
        self._common = b"data: " + encode(self._identity(kind))[:-1] + b',"choices":'
        self._before = self._common + (b'[{"index":0,"delta":{"content":"' if chat else b'[{"index":0,"text":"')
        self._after = b'"},"logprobs":null,"finish_reason":' if chat else b'","logprobs":null,"finish_reason":'

    def opening(self) -> bytes:
        """Chat: the role comes with the first token, as in vLLM."""
        if not self._chat:
            return b""
        role = b'[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
        return self._common + role

    def token(self, index: int, word: str, finish: str | None) -> bytes:
        """One event; the finish reason comes in the event of the last token."""
        space = "" if self._chat and index == 0 else " "
        return self._event(space + word, finish, index + 1)

    def closing(self, job: Job, *, finished: bool) -> bytes:
        """The usage event, if it was asked for, and ``[DONE]``; the finish reason was in the last token's event."""
        if not self._include_usage:
            return _DONE
        return self._common + b'[],"usage":' + encode(self._usage(job.emitted)) + b"}\n\n" + _DONE

    def aborted(self) -> bytes:
        """As vLLM on SIGTERM: an orderly end whose finish reason says that it is none."""
        return self._event("", "abort", None) + _DONE

    def error(self, message: str) -> bytes:
        """An error event and ``[DONE]``."""
        error = {"message": message, "type": "InternalServerError", "param": None, "code": 500}
        return b"data: " + encode({"error": error}) + b"\n\n" + _DONE

    def whole(self, job: Job, words: list[str]) -> Response:
        """One JSON object with everything."""
        text = " ".join(words)
        choice: dict[str, Any] = {"index": 0}
        if self._chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = " " + text
        choice |= {"logprobs": None, "finish_reason": job.finish_reason}
        usage = self._usage(job.emitted)
        if self._prefix_caching:
            usage["prompt_tokens_details"] = {"cached_tokens": job.cached_tokens}
        kind = "chat.completion" if self._chat else "text_completion"
        return json_response(200, {**self._identity(kind), "choices": [choice], "usage": usage})

    def _identity(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _event(self, text: str, finish: str | None, count: int | None) -> bytes:
        # Put together by hand: words are plain ASCII, and this runs for every token.
        finish_json = b"null" if finish is None else b'"%b"' % finish.encode()
        event = b"%b%b%b%b}]" % (self._before, text.encode(), self._after, finish_json)
        if self._continuous_usage and count is not None:
            event += b',"usage":' + encode(self._usage(count))
        return event + b"}\n\n"

    def _usage(self, count: int) -> dict[str, Any]:
        return {
            "prompt_tokens": self._prompt_tokens,
            "total_tokens": self._prompt_tokens + count,
            "completion_tokens": count,
        }


def tokenize_response(body: bytes, options: Options) -> Response:
    """The answer of ``/tokenize`` in vLLM's form, or to ``content`` in llama.cpp's.

    Raises:
        Refused: none of ``prompt``, ``messages`` and ``content``, or another model.
    """
    ask = _read_object(body)
    if "prompt" not in ask and "messages" not in ask and isinstance(ask.get("content"), str):
        return json_response(200, {"tokens": tokenize(ask["content"])})
    _check_model(ask, options.model)
    if "messages" in ask:
        tokens = _chat_prompt(ask, reply_marker=bool(ask.get("add_generation_prompt", True)))
    elif isinstance(ask.get("prompt"), str):
        tokens = tokenize(ask["prompt"])
    else:
        raise _bad("Either prompt (text) or messages must be given.", "prompt")
    return json_response(200, {"count": len(tokens), "max_model_len": options.max_model_len, "tokens": tokens})


def _bad(message: str, param: str | None) -> Refused:
    return Refused(error_response(400, message, "BadRequestError", param=param))


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Refused(error_response(400, f"The body is not a JSON object: {error}", param="body")) from None
    except UnicodeDecodeError:
        raise Refused(error_response(400, "The body is not UTF-8.", param="body")) from None


def _check_model(ask: dict[str, Any], model: str) -> None:
    asked = ask.get("model")
    if asked is not None and asked != model:
        message = f"The model `{asked}` does not exist. Valid aliases: {model}."
        raise Refused(error_response(404, message, "NotFoundError", param="model"))


def _integer(ask: dict[str, Any], name: str, *, low: int) -> int | None:
    value = ask.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(error_response(400, f"{name} must be an integer, got {value!r}.", param=f"body.{name}"))
    if value < low:
        raise _bad(f"{name} must be at least {low}, got {value}. (parameter={name}, value={value})", name)
    return value


def _plain_prompt(ask: dict[str, Any]) -> list[int]:
    prompt = ask.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        tokens = tokenize(prompt)
    elif isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        tokens = prompt
    else:
        raise _bad("prompt must be text or a list of token ids: one prompt per request.", "prompt")
    if not tokens:
        raise _bad("Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", "prompt")
    return tokens


def _chat_prompt(ask: dict[str, Any], *, reply_marker: bool = True) -> list[int]:
    messages = read_messages(ask.get("messages"))
    if messages is None:
        raise _bad("messages must be a list of objects with a role and a text content.", "messages")
    return tokenize_chat(messages, reply_marker=reply_marker)


def _fit(prompt_tokens: int, asked: int | None, options: Options) -> int:
    """The length of the reply, if prompt and reply fit into the context."""
    limit = options.max_model_len
    if asked is not None and asked > limit:
        raise _bad(
            f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens. "
            f"(parameter=max_tokens, value={asked})",
            "max_tokens",
        )
    if prompt_tokens + (asked or 1) > limit:
        raise _bad(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains {prompt_tokens} input "
            f"tokens and the reply needs at least {asked or 1}. Please reduce either. "
            f"(parameter=input_tokens, value={prompt_tokens})",
            "input_tokens",
        )
    return min(options.output_tokens, limit - prompt_tokens) if asked is None else asked
