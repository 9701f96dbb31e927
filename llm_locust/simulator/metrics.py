"""The ``/metrics`` page under vLLM's names, labels and buckets, from the engine's own counts and virtual times.

Two differences from vLLM are meant: a reply of one token has no time per output token (vLLM observes 0), and the engine's
own lateness against real time stands beside the rest as ``llm_locust_simulator_lateness_seconds``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llm_locust.simulator.engine import Engine, Token

_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_PER_REQUEST = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0,
    7680.0,
)  # fmt: skip
_LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_LATENESS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


class EngineMetrics:
    """The page of one engine."""

    def __init__(self, engine: Engine, model: str, max_model_len: int) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_EngineState(engine, model, max_model_len))

        def histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            family = Histogram(name, text, ("model_name", "engine"), registry=self._registry, buckets=buckets)
            return family.labels(model_name=model, engine="0")

        self._ttft = histogram("vllm:time_to_first_token_seconds", "Time to first token.", _TTFT)
        self._itl = histogram("vllm:inter_token_latency_seconds", "Gap between tokens.", _PER_TOKEN)
        self._tpot = histogram(
            "vllm:request_time_per_output_token_seconds", "Time per output token of each request.", _PER_TOKEN
        )
        self._e2e = histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", _PER_REQUEST)
        self._queue = histogram("vllm:request_queue_time_seconds", "Arrival to first admission.", _PER_REQUEST)
        self._inference = histogram("vllm:request_inference_time_seconds", "Admission to last token.", _PER_REQUEST)
        self._prefill = histogram("vllm:request_prefill_time_seconds", "Admission to first token.", _PER_REQUEST)
        self._decode = histogram("vllm:request_decode_time_seconds", "First to last token.", _PER_REQUEST)
        self._prompt = histogram("vllm:request_prompt_tokens", "Prompt tokens of each request.", _LENGTHS)
        self._generated = histogram("vllm:request_generation_tokens", "Reply tokens of each request.", _LENGTHS)
        self._preempted = histogram(
            "vllm:request_num_preemptions", "Preemptions of each request.", (1, 2, 3, 4, 5, 10, 20)
        )
        self._lateness = histogram(
            "llm_locust_simulator_lateness_seconds", "How late the tokens of a step were handed out.", _LATENESS
        )

    def observe(self, said: list[Token], now_ns: int) -> None:
        """Take the tokens that the engine said into account; ``now_ns`` is when they were handed out."""
        late_of = None
        for token in said:
            if token.at_ns != late_of:
                late_of = token.at_ns
                self._lateness.observe((now_ns - late_of) / 1e9)
            if token.gap_ns is None:
                self._ttft.observe((token.at_ns - token.job.arrived_ns) / 1e9)
            else:
                self._itl.observe(token.gap_ns / 1e9)
            if token.is_last:
                self._observe_finished(token)

    def page(self) -> bytes:
        """The page in Prometheus' text format."""
        return generate_latest(self._registry)

    def _observe_finished(self, last: Token) -> None:
        job = last.job
        assert job.admitted_ns is not None
        assert job.first_ns is not None
        self._e2e.observe((last.at_ns - job.arrived_ns) / 1e9)
        self._queue.observe((job.admitted_ns - job.arrived_ns) / 1e9)
        self._inference.observe((last.at_ns - job.admitted_ns) / 1e9)
        self._prefill.observe((job.first_ns - job.admitted_ns) / 1e9)
        self._decode.observe((last.at_ns - job.first_ns) / 1e9)
        if last.position > 0:
            self._tpot.observe((last.at_ns - job.first_ns) / last.position / 1e9)
        self._prompt.observe(len(job.prompt))
        self._generated.observe(last.position + 1)
        self._preempted.observe(job.preemptions)


class _EngineState(Collector):
    """Gauges and counters, read from the engine when the page is asked for."""

    def __init__(self, engine: Engine, model: str, max_model_len: int) -> None:
        self._engine = engine
        self._model = model
        self._max_model_len = max_model_len

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        engine, totals = self._engine, self._engine.totals
        labels, values = ("model_name", "engine"), (self._model, "0")

        def gauge(name: str, text: str, value: float) -> Metric:
            family = GaugeMetricFamily(name, text, labels=labels)
            family.add_metric(values, value)
            return family

        def counter(name: str, text: str, value: float) -> Metric:
            family = CounterMetricFamily(name, text, labels=labels)
            family.add_metric(values, value)
            return family

        yield gauge("vllm:num_requests_running", "Requests in the batch.", engine.running)
        yield gauge("vllm:num_requests_waiting", "Requests waiting to be processed.", engine.waiting)
        yield gauge("vllm:kv_cache_usage_perc", "Share of KV-cache blocks in use, 0 to 1.", engine.pool.usage)
        yield counter("vllm:prefix_cache_queries", "Prompt tokens looked up.", totals.prefix_queries)
        yield counter("vllm:prefix_cache_hits", "Prompt tokens found.", totals.prefix_hits)
        yield counter("vllm:num_preemptions", "Preemptions.", totals.preemptions)
        yield counter("vllm:prompt_tokens", "Prompt tokens processed.", totals.prompt_tokens)
        yield counter("vllm:prompt_tokens_cached", "Prompt tokens from the cache.", totals.cached_prompt_tokens)
        yield counter("vllm:generation_tokens", "Tokens generated.", totals.generation_tokens)
        finished = CounterMetricFamily(
            "vllm:request_success", "Requests by how they finished.", labels=(*labels, "finished_reason")
        )
        for reason in FINISH_REASONS:
            finished.add_metric((*values, reason), totals.finished[reason])
        yield finished
        rejected = CounterMetricFamily(
            "vllm:admission_rejections", "Requests refused by a queue limit.", labels=("model_name", "reason")
        )
        rejected.add_metric((self._model, "max_num_queued_reqs"), totals.rejections)
        yield rejected
        yield self._cache_config()

    def _cache_config(self) -> Metric:
        config = self._engine.config
        tokens = config.kv_blocks * config.block_size
        facts = {
            "block_size": str(config.block_size),
            "cache_dtype": "auto",
            "enable_prefix_caching": str(config.prefix_caching),
            "engine": "0",
            "kv_cache_max_concurrency": f"{tokens / self._max_model_len:.2f}",
            "kv_cache_size_tokens": str(tokens),
            "num_gpu_blocks": str(config.kv_blocks),
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "The KV cache.", labels=tuple(facts))
        family.add_metric(tuple(facts.values()), 1)
        return family
