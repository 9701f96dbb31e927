"""A ladder of arrival rates, one stage each: ``--rates 0.5,1,2 --stage-time 60 --rounds 3``.

``--requests N`` ends a stage after N measured requests instead, ``--shuffle`` gives every round an order of its own.
"""

from collections.abc import Iterator

from llm_locust import RunOptions, StageShape, StageSpec, UsageError


class RateLadder(StageShape):
    takes = frozenset({"rates", "requests", "arrivals", "trace"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if not options.rates_rps:
            raise UsageError("--rates is missing: the arrival rates to try, e.g. --rates 0.5,1,2 (requests per second)")
        for number, rate_rps in options.in_rounds(options.rates_rps):
            yield options.open_stage(rate_rps, round=number)
