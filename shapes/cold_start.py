"""The first request after the model was unloaded or the server idle, apart from the warm state that follows it.

--idle 300 --rates 1            nothing for five minutes, one request, then a warm stage
--unload --rates 1              (Ollama) the model is unloaded first
--unload --rates 1 --cold-share 0.1   ... and a tenth of the warm stage's requests find it unloaded again
"""

from collections.abc import Iterator

import msgspec

from llm_locust import RunOptions, StageShape, StageSpec, UsageError


class ColdStart(StageShape):
    takes = frozenset({"rates", "requests", "arrivals", "idle", "unload", "cold_share", "trace"})

    def stages(self, options: RunOptions) -> Iterator[StageSpec]:
        if not options.rates_rps:
            raise UsageError(
                "--rates is missing: the arrival rate of the warm stage, e.g. --rates 1 (requests per second)"
            )
        if not options.unload and not options.idle_s and options.cold_share is None:
            raise UsageError(
                "what makes the first request cold? --idle SECONDS without load before it, --unload to have the model "
                "unloaded (Ollama), or --cold-share for requests in the middle of load (Ollama)"
            )
        for number, rate_rps in options.in_rounds(options.rates_rps):
            if options.unload or options.idle_s:
                first = options.closed_stage(1, round=number, requests=1, warmup_s=0.0)
                yield msgspec.structs.replace(first, idle_before_s=options.idle_s, unload_before=options.unload)
            yield options.open_stage(rate_rps, round=number, cold_share=options.cold_share)
