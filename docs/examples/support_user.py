"""A user of one's own: what a support desk sends, and how its answers are checked.

locust -f docs/examples/support_user.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:8000 --rates 0.5,1
"""

from typing import Any

from llm_locust import OpenAIChatUser, Prompt, Reply

SYSTEM = "You answer for the support desk. Say what to do in at most three sentences."


class SupportUser(OpenAIChatUser):
    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        body = super().build_body(prompt)
        body["messages"] = [{"role": "system", "content": SYSTEM}, *body["messages"]]
        return {**body, "temperature": 0.2}

    def check(self, prompt: Prompt, reply: Reply) -> bool:
        return "as an AI" not in (reply.text or "")
