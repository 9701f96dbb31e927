"""A shape of one's own: a rate, then a step up, then the first rate again: does the server come back?

locust -f locustfiles/chat.py,docs/examples/step_shape.py --headless --host http://127.0.0.1:8000 --rates 1,4
"""

from collections.abc import Iterator

from llm_locust import RunOptions, StageShape, StageSpec, UsageError


class StepUpAndBack(StageShape):
    takes = frozenset({"rates", "arrivals"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if len(options.rates_rps) != 2:
            raise UsageError("--rates takes two rates here, the usual one and the step: write for example --rates 1,4")
        usual, step = options.rates_rps
        for number, rate_rps in options.in_rounds([usual, step, usual]):
            yield options.open_stage(rate_rps, round=number)
