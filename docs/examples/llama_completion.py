"""A dialect of one's own: llama.cpp's own /completion, which is not the OpenAI API.

locust -f docs/examples/llama_completion.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:8080 --rates 0.5,1

A dialect says how one event of a reply reads. It is pure: it sees whole events, and knows neither sockets nor times. Workers
import this file too, so the line at the end registers it in every process; llm-locust decode reads with it after -f FILE.
"""

from typing import Any

from llm_locust import LLMUser, Prompt, register_dialect
from llm_locust.streaming import Counts, Delta, Event, SseEvents, WrongDialect
from llm_locust.streaming.dialects.base import count, error_message, json_object, string


class LlamaCompletion:
    name = "llama-completion"
    path = "/completion"
    media_type = "text/event-stream"
    events = SseEvents

    def read_event(self, event: Event) -> Delta:
        return self._read(json_object(event.data))

    def read_whole(self, body: bytes) -> Delta:
        reply = json_object(body)
        if "content" not in reply and "error" not in reply:
            raise WrongDialect("a JSON object without content")
        return self._read(reply)

    def _read(self, said: dict[str, Any]) -> Delta:
        if said.get("error"):
            return Delta(error=error_message(said["error"]))
        delta = Delta(text=string(said.get("content")))
        if said.get("stop") is True:
            delta.finished = True
            delta.finish_reason = string(said.get("stop_type")) or None
            delta.counts = Counts(
                prompt_tokens=count(said.get("tokens_evaluated")), output_tokens=count(said.get("tokens_predicted"))
            )
        return delta


class LlamaCompletionUser(LLMUser):
    dialect = LlamaCompletion.name
    path = LlamaCompletion.path

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        return {"prompt": prompt.text, "n_predict": prompt.max_tokens, "stream": True, "temperature": 0.0}


register_dialect(LlamaCompletion())
