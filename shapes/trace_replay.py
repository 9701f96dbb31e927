"""Production arrivals played again: ``--trace FILE --trace-format azure --time-scale 0.1``.

Prompts get the trace's lengths, conversations and shared blocks, or are the trace's own where it holds them. A slice
(``--trace-from``, ``--trace-to``), a rate (``--rate-scale``) and jitter inside the trace's resolution (``--trace-jitter``)
can be chosen; ``llm-locust trace FILE`` shows what is in it.
"""

from collections.abc import Iterator

from llm_locust import RunOptions, StageShape, StageSpec


class TraceReplay(StageShape):
    takes = frozenset({"trace"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        for number in range(options.rounds):
            yield options.trace_stage(round=number)
