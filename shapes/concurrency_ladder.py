"""A ladder of closed loops, so many requests in flight: ``--concurrency 1,2,4,8 --stage-time 60``.

``--repeats N`` measures N requests for each one in flight instead. A closed loop waits for the server: it finds how much
comes out, never what arrival rate is sustained.
"""

from collections.abc import Iterator

from llm_locust import RunOptions, StageShape, StageSpec, UsageError


class ConcurrencyLadder(StageShape):
    takes = frozenset({"concurrency", "repeats", "trace"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if not options.concurrencies:
            raise UsageError("--concurrency is missing: the requests in flight to try, e.g. --concurrency 1,2,4,8")
        for number, concurrency in options.in_rounds(options.concurrencies):
            yield options.closed_stage(concurrency, round=number)
