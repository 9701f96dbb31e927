"""What a run costs at the user's prices: machine time and tokens."""

from __future__ import annotations

from llm_locust.records import Prices
from llm_locust.sizing.contracts import RunCost, Tokens


def cost_ahead(prices: Prices, at_least_s: float, at_most_s: float | None, tokens: Tokens | None) -> RunCost:
    """The cost of a run of this length and of these tokens.

    Args:
        prices: In any one currency.
        at_least_s: The shortest the run can be.
        at_most_s: The longest; ``None``: until it is stopped.
        tokens: Of the whole run; ``None`` when they are not known.
    """

    def times(size: float | None, per: float, price: float | None) -> float | None:
        return None if size is None or price is None else size / per * price

    return RunCost(
        machine_at_least=times(at_least_s, 3600, prices.per_hour),
        machine_at_most=times(at_most_s, 3600, prices.per_hour),
        input_estimated=times(tokens.input_estimated if tokens else None, 1e6, prices.input_per_million),
        output_at_most=times(tokens.output_at_most if tokens else None, 1e6, prices.output_per_million),
    )
