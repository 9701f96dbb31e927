"""What good output costs."""

from __future__ import annotations

from llm_locust.records.summary import Figure


def cost_per_million_good_tokens(price_per_hour: float | None, good_tokens_per_s: float | None) -> Figure:
    """Hourly price / (good output tokens per hour, inside the window) x 1,000,000, in the currency of the price.

    Failed requests and idle time cost their share of the hour, and their tokens do not count. Infinite (``"inf"``) when no
    good token came out, ``None`` without a price or without goodput.
    """
    if price_per_hour is None or good_tokens_per_s is None:
        return None
    if good_tokens_per_s == 0:
        return "inf"
    return price_per_hour / (good_tokens_per_s * 3600) * 1_000_000
