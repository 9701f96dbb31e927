"""Ollama's own generate API, one text in place of messages: one streamed reply per arrival.

    locust -f locustfiles/ollama_generate.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:11434 --rates 1,2

With ``--extra-body '{"keep_alive": 0}'`` the model is unloaded whenever no request is in flight, so that the next is cold.
"""

from typing import Any, ClassVar

from llm_locust import OllamaGenerateUser


class GenerateUser(OllamaGenerateUser):
    options: ClassVar[dict[str, Any]] = {"temperature": 0.0}
