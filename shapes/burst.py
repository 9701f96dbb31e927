"""The same mean rate and the very same requests, evenly and in bursts: ``--rates 2 --burst gamma:cv=3 --requests 200``.

Give it ``--requests``: by time, a short stage of bursts may have half or twice as many as the even one. What differs between
the two is when requests arrive, and nothing else. Where the server caches prefixes, it meets the second stage's prompts
again: turn that off, or repeat in rounds with ``--shuffle``.
"""

from collections.abc import Iterator

from llm_locust import RunOptions, StageShape, StageSpec, UsageError

PROMPTS = 1_000_000_000
"""The first of the prompts that the stages of a round share, out of the way of all others."""


class Burst(StageShape):
    takes = frozenset({"rates", "requests", "trace"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if not options.rates_rps:
            raise UsageError("--rates is missing: the mean arrival rates to try, e.g. --rates 2 (requests per second)")
        pairs = [(place, process) for place in range(len(options.rates_rps)) for process in ("constant", options.burst)]
        for number, (place, process) in options.in_rounds(pairs):
            prompts = PROMPTS * (1 + place + number * len(options.rates_rps))
            yield options.open_stage(options.rates_rps[place], round=number, arrivals=process, prompts_from=prompts)
