"""Ollama's own chat API: one streamed reply per arrival, with the load, prefill and generation times that it reports.

    locust -f locustfiles/ollama_chat.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:11434 --rates 0.5,1,2

Copy this file and change the options. Ollama cuts a prompt short that does not fit into its ``num_ctx``.
"""

from typing import Any, ClassVar

from llm_locust import OllamaChatUser


class ChatUser(OllamaChatUser):
    options: ClassVar[dict[str, Any]] = {"temperature": 0.0}
