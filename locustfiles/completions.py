"""Text completions, without a chat template: one streamed reply per arrival.

locust -f locustfiles/completions.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:8000 --rates 0.5,1,2
"""

from typing import Any

from llm_locust import OpenAICompletionUser, Prompt


class CompletionUser(OpenAICompletionUser):
    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        return {**super().build_body(prompt), "temperature": 0.0}
