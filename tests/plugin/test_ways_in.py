"""Options that say how the server is reached: a proxy, a password; none of them holds a secret."""

from __future__ import annotations

from argparse import Namespace

import pytest

from llm_locust.plugin.before_load import connect, wait_for_server
from llm_locust.plugin.options import RunOptions, given_options, read_options
from llm_locust.plugin.server_telemetry import ServerTelemetry
from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.records.run import RunSpec, WorkloadSpec
from llm_locust.streaming import StreamRequest
from tests.streaming.forward_proxy import proxying
from tests.streaming.responses import CHAT, PLAIN, response, whole
from tests.streaming.server import Peer, serving


def options(**given: object) -> RunOptions:
    return read_options(Namespace(**given))


def test_a_proxy_is_used_when_it_is_named_and_written_down_as_it_is_used() -> None:
    assert options().proxy is None
    assert options(proxy="HTTP://Proxy:3128/").proxy == "http://proxy:3128"
    assert given_options(Namespace(proxy="http://proxy:3128")) == {"proxy": "http://proxy:3128"}


def test_a_password_for_a_proxy_is_not_taken_from_its_url() -> None:
    with pytest.raises(UsageError, match="LLM_LOCUST_PROXY_AUTH") as refused:
        options(proxy="http://me:hunter2@proxy:3128")
    assert "hunter2" not in str(refused.value)


def test_a_password_is_named_by_its_variable() -> None:
    assert options().basic_auth_env is None
    assert options(basic_auth_env="LOGIN").basic_auth_env == "LOGIN"


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"api_key_env": "MINE"}, "--api-key-env MINE"),
        ({"header": ["Authorization: @env:T"]}, "--header Authorization"),
    ],
)
def test_a_password_and_a_key_are_refused_before_anybody_looks_into_an_environment(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, object], named: str
) -> None:
    with pytest.raises(UsageError, match=f"--basic-auth-env LOGIN and {named} are both set"):
        options(basic_auth_env="LOGIN", **other)
    monkeypatch.setenv("OPENAI_API_KEY", "k")  # of a master, which may not be what sends
    assert options(basic_auth_env="LOGIN").basic_auth_env == "LOGIN"


def test_load_and_all_that_asks_beside_it_go_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_LOCUST_PROXY_AUTH", "me:let me in")

    def engine(peer: Peer) -> None:
        while asked := peer.sock.recv(65536):
            peer.send(response(*PLAIN) if asked.startswith(b"POST") else whole("{}"))

    with serving(engine) as server, proxying() as proxy:
        host = f"http://nowhere.invalid:{server.port}"  # a name that the proxy alone can make something of
        chosen = options(proxy=proxy.way.url, ready_timeout="5")
        wait_for_server(host, {}, chosen)
        ready = len(proxy.heads)
        page = ServerTelemetry(host, {}, chosen, "m", Clock())._probe(host, {}).get("/metrics", timeout_s=5)
        run = RunSpec(
            run_id="run",
            folder="/nonexistent",
            host=host,
            model="m",
            deadline_s=5,
            max_in_flight=None,
            users=[],
            workload=WorkloadSpec(seed=1, max_tokens=8),
            proxy=chosen.proxy,
        )
        client = connect(run, Clock())
        reply = client.stream(StreamRequest(path="/v1/x", body=b"{}", headers=[], dialect=CHAT), deadline_s=5)
        client.close()
    assert ready >= 2
    assert (page.status, reply.outcome, len(proxy.heads)) == (200, Outcome.OK, ready + 2)
    assert all(b"\r\nProxy-Authorization: Basic bWU6bGV0IG1lIGlu" in head for head in proxy.heads)
