"""Finds the rate that the service sustains: ``--rates 1,2,4 --slo ttft=500,tpot=100 --resolution 0.1``.

Up the ladder of ``--rates`` (doubling from a single one) until a rate fails, then between the last pass and the first fail
until they are as close as ``--resolution``, then bursts (``--burst``) of the same mean rate at the rate that passed. Every
stage is judged as ``llm-locust merge`` judges it afterwards.
"""

from collections.abc import Iterator

from llm_locust import BoundarySearch, RunOptions, StageShape, StageSpec, UsageError


class CapacitySearch(StageShape):
    takes = frozenset({"rates", "requests", "arrivals", "trace"})
    adaptive = True

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if not options.rates_rps:
            raise UsageError(
                "--rates is missing: where to begin, e.g. --rates 1 (doubled until it fails) or --rates 1,2,4"
            )
        search = BoundarySearch(options.rates_rps, resolution=options.resolution, most_stages=options.most_stages)
        while (rate_rps := search.next_rate()) is not None:
            if self.only_listed and rate_rps > max(options.rates_rps):
                break  # how far a single rate will be doubled nobody knows ahead
            for number in range(options.rounds):
                yield options.open_stage(rate_rps, round=number)
                result = self.last_result()
                search.tell(rate_rps, result)
                if result != "pass":
                    break
        if search.last_pass_rps is not None:
            for number in range(options.rounds):
                yield options.open_stage(search.last_pass_rps, round=number, arrivals=options.burst)
