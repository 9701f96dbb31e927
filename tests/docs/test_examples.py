"""The examples on the pages work, and stand there as they are in their files."""

from __future__ import annotations

import importlib.util
import re
from argparse import Namespace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest

import llm_locust.plugin  # noqa: F401 - users and shapes work only with its listeners registered
from docs.generate.include import pages_with_files, with_files
from llm_locust import LLMUser, Prompt, Reply, UsageError
from llm_locust.plugin.option_table import DEFAULTS
from llm_locust.plugin.options import read_options
from llm_locust.records import Outcome
from llm_locust.streaming import Dialect, ReplyDecoder, get_dialect
from llm_locust.telemetry.metrics import load_mapping, read_page, server_sample
from tests.docs.pages import DOCS, ROOT

EXAMPLES = DOCS / "examples"


@pytest.mark.parametrize("page", pages_with_files(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_its_files_as_they_are(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == with_files(page.read_text(encoding="utf-8")), "run make docs"


def example(name: str) -> ModuleType:
    """The file as Locust imports it."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def user_of(kind: type[LLMUser]) -> LLMUser:
    session = SimpleNamespace(model="m", headers={}, streaming=True, extra_body={}, quality=None)
    return kind(SimpleNamespace(llm_locust=session))


def test_the_user_of_ones_own_puts_the_system_message_first_and_checks_the_reply() -> None:
    module = example("support_user")
    user = user_of(module.SupportUser)
    prompt = Prompt(index=0, prompt="How?", max_tokens=5)
    body = user.whole_body(prompt)
    assert body["messages"] == [{"role": "system", "content": module.SYSTEM}, {"role": "user", "content": "How?"}]
    assert body["temperature"] == 0.2
    assert user.check(prompt, Reply(outcome=Outcome.OK, text="Open the settings.")) is True
    assert user.check(prompt, Reply(outcome=Outcome.OK, text="Sorry, as an AI I cannot.")) is False


def test_tenants_take_turns_with_their_salts() -> None:
    user = user_of(example("tenants").TenantUser)
    salts = [user.whole_body(Prompt(index=n, prompt="a", max_tokens=1))["cache_salt"] for n in range(4)]
    assert salts == ["blue", "green", "red", "blue"]


def test_the_shape_of_ones_own_goes_up_and_back() -> None:
    shape = example("step_shape").StepUpAndBack()
    stages = list(shape.stages(read_options(Namespace(rates="1,4", rounds="2"))))
    assert [(stage.round, stage.rate_rps) for stage in stages] == [(0, 1), (0, 4), (0, 1), (1, 1), (1, 4), (1, 1)]
    with pytest.raises(UsageError, match="two rates"):
        list(shape.stages(read_options(Namespace(rates="1"))))


# --- the dialect ----------------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
FIRST = b'data: {"index":0,"content":" A","tokens":[330],"stop":false,"tokens_predicted":1,"tokens_evaluated":7}\n\n'
SECOND = b'data: {"index":0,"content":" word","tokens":[2],"stop":false,"tokens_predicted":2,"tokens_evaluated":7}\n\n'
LAST = b'data: {"content":"","stop":true,"stop_type":"limit","tokens_predicted":2,"tokens_evaluated":7}\n\n'


@pytest.fixture
def dialect(own_dialects: None) -> Dialect:
    example("llama_completion")
    return get_dialect("llama-completion")


def read(dialect: Dialect, *reads: bytes, streamed: bool = True) -> Reply:
    """A reply that came in these reads, one a millisecond."""
    decoder = ReplyDecoder(dialect, streamed=streamed, keep_text=True)
    for place, data in enumerate(reads):
        decoder.feed(data, place * 1_000_000)
    decoder.close(len(reads) * 1_000_000)
    return decoder.finish(len(reads) * 1_000_000)


def test_the_dialect_of_ones_own_reads_a_whole_reply(dialect: Dialect) -> None:
    reply = read(dialect, HEAD, FIRST, SECOND, LAST)
    assert reply.outcome is Outcome.OK
    assert reply.text == " A word"
    assert (reply.prompt_tokens, reply.output_tokens, reply.finish_reason) == (7, 2, "limit")
    assert (reply.first_output_ns, reply.last_output_ns) == (1_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("reads", "outcome"),
    [
        ((HEAD, FIRST, SECOND), Outcome.TRUNCATED),
        ((HEAD, LAST), Outcome.EMPTY),
        ((HEAD, FIRST, b'data: {"error":{"code":500,"message":"lost its slot"}}\n\n'), Outcome.STREAM_ERROR),
        ((HEAD, b"data: not json\n\n"), Outcome.PROTOCOL_ERROR),
    ],
)
def test_the_dialect_of_ones_own_tells_failures_apart(
    dialect: Dialect, reads: tuple[bytes, ...], outcome: Outcome
) -> None:
    assert read(dialect, *reads).outcome is outcome


def test_the_dialect_of_ones_own_reads_a_reply_without_a_stream(dialect: Dialect) -> None:
    body = b'{"content":" A word","stop":true,"stop_type":"eos","tokens_predicted":2,"tokens_evaluated":7}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    reply = read(dialect, head + body, streamed=False)
    assert (reply.outcome, reply.output_tokens) == (Outcome.OK, 2)


def test_the_user_of_the_dialect_asks_as_llama_cpp_wants_it(dialect: Dialect) -> None:
    user = user_of(example("llama_completion").LlamaCompletionUser)
    request = user.build_request(Prompt(index=0, prompt="Hi", max_tokens=5), "r.0")
    assert (request.path, request.dialect) == ("/completion", "llama-completion")
    assert msgspec.json.decode(request.body) == {"prompt": "Hi", "n_predict": 5, "stream": True, "temperature": 0.0}


# --- the engine -----------------------------------------------------------------------------------------------------

PAGE = b"""\
# TYPE mine_active_requests gauge
mine_active_requests{replica="0"} 3
mine_active_requests{replica="1"} 2
# TYPE mine_queued_requests gauge
mine_queued_requests{replica="0"} 1
mine_queued_requests{replica="1"} 0
# TYPE mine_cache_used_percent gauge
mine_cache_used_percent{replica="0"} 80
mine_cache_used_percent{replica="1"} 40
# TYPE mine_finished_total counter
mine_finished_total{replica="0"} 90
# TYPE mine_failed_total counter
mine_failed_total{replica="0"} 10
# TYPE mine_queue_ms histogram
mine_queue_ms_bucket{le="100"} 5
mine_queue_ms_bucket{le="+Inf"} 6
mine_queue_ms_sum 700
mine_queue_ms_count 6
"""


def test_the_mapping_of_ones_own_reads_a_page() -> None:
    mapping = load_mapping(EXAMPLES / "engine.toml")
    sample = server_sample(read_page(PAGE, mapping), at_ns=1, target="http://server/metrics")
    assert (sample.running, sample.waiting, sample.requests) == (5, 1, 100)
    assert sample.kv_usage == {"0": pytest.approx(0.8), "1": pytest.approx(0.4)}
    assert sample.queue_time is not None
    assert (sample.queue_time.le, sample.queue_time.n, sample.queue_time.count) == ((0.1,), (5,), 6)
    assert sample.preemptions is None


# --- the gateway ----------------------------------------------------------------------------------------------------


def test_the_gateway_lets_two_paths_through_and_streams() -> None:
    text = re.sub(r"#.*", "", (EXAMPLES / "nginx.conf").read_text(encoding="utf-8"))
    assert text.count("{") == text.count("}")
    locations = re.findall(r"location\s+([^{]+?)\s*\{", text)
    assert locations == ["/", "= /v1/models", "= /v1/chat/completions"]
    for said in (
        "return 404",
        "proxy_buffering off",
        "limit_req zone=per_tenant",
        "client_max_body_size",
        "$the_request_id",
    ):
        assert said in text
    timeout = re.search(r"proxy_read_timeout (\d+)s", text)
    assert timeout is not None
    assert int(timeout[1]) > float(DEFAULTS["deadline"] or 0)
