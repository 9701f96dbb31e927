"""Tenants that share a server but no cached prefixes: each request carries the salt of its tenant (vLLM's cache_salt).

locust -f docs/examples/tenants.py,shapes/rate_ladder.py --headless --host http://127.0.0.1:8000 --rates 1 \
    --input-tokens 2048 --shared-prefix share=0.9,groups=4
"""

from typing import Any

from llm_locust import OpenAIChatUser, Prompt

TENANTS = ("blue", "green", "red")


class TenantUser(OpenAIChatUser):
    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        return {**super().build_body(prompt), "cache_salt": TENANTS[prompt.index % len(TENANTS)]}
