"""Chat completions: one streamed reply per arrival.

    locust -f locustfiles/chat.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:8000 --rates 0.5,1,2

Copy this file and change the body to send what your users send.
"""

from typing import Any

from llm_locust import OpenAIChatUser, Prompt


class ChatUser(OpenAIChatUser):
    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        return {**super().build_body(prompt), "temperature": 0.0}
