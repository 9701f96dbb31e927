"""One rate for hours: ``--rates 1.5 --stage-time 4h``. The report shows how every figure drifts from first span to last."""

from collections.abc import Iterator

from llm_locust import RunOptions, StageShape, StageSpec, UsageError


class Soak(StageShape):
    takes = frozenset({"rates", "requests", "arrivals", "trace"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if len(options.rates_rps) != 1:
            raise UsageError("--rates takes the one arrival rate of a soak, e.g. --rates 1.5 --stage-time 4h")
        for number in range(options.rounds):
            yield options.open_stage(options.rates_rps[0], round=number)
