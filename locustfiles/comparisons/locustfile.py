"""The locustfile of the comparisons beside it: chat completions, at each concurrency or each arrival rate that is asked for.

locust -f locustfile.py --config batching-short.conf --host http://127.0.0.1:8000
"""

from collections.abc import Iterator
from typing import Any

from llm_locust import OpenAIChatUser, Prompt, RunOptions, StageShape, StageSpec, UsageError


class ChatUser(OpenAIChatUser):
    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        return {**super().build_body(prompt), "temperature": 0.0}


class Comparison(StageShape):
    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if bool(options.concurrencies) == bool(options.rates_rps):
            raise UsageError("a comparison is run at --concurrency 1,8 or at --rates 0.5,4: give one of them")
        for number, concurrency in options.in_rounds(options.concurrencies):
            yield options.closed_stage(concurrency, round=number)
        for number, rate_rps in options.in_rounds(options.rates_rps):
            yield options.open_stage(rate_rps, round=number)
