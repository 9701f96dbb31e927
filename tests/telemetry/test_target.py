"""What a server says of itself, engine by engine."""

from __future__ import annotations

import pytest

from llm_locust.records import UsageError
from llm_locust.simulator.process import running
from llm_locust.telemetry.target import TargetFacts, ask_target

from .server import Pages, free_port, http, models, never, serving


def test_the_synthetic_engine_says_what_it_is() -> None:
    with running(model="small") as (base_url, _):
        facts = ask_target(base_url, {})
    assert (facts.engine, facts.models, facts.synthetic) == ("llm-locust-simulator", ["small"], True)
    assert facts.version is not None


def test_vllm_is_known_by_the_owner_of_its_models() -> None:
    pages = {"/v1/models": models("base", "adapter", owner="vllm"), "/version": http(200, {"version": "0.32.0"})}
    with serving(pages) as server:
        facts = ask_target(server.url, {})
    assert facts == TargetFacts(engine="vLLM", version="0.32.0", models=["base", "adapter"])


def test_llama_cpp_is_known_by_its_server_header_and_tells_its_build() -> None:
    pages = {
        "/v1/models": http(401, {"error": {"message": "Invalid API Key"}}, Server="llama.cpp"),
        "/props": http(200, {"build_info": "b1-7e4c0a9", "total_slots": 4}),
    }
    with serving(pages) as server:
        assert ask_target(server.url, {}) == TargetFacts(engine="llama.cpp", version="b1-7e4c0a9")


def test_ollama_is_known_by_its_version_page() -> None:
    pages = {"/v1/models": models("llama3.2:latest", owner="library"), "/api/version": http(200, {"version": "0.12.6"})}
    with serving(pages) as server:
        facts = ask_target(server.url, {})
    assert facts == TargetFacts(engine="Ollama", version="0.12.6", models=["llama3.2:latest"])


def test_a_version_alone_names_no_engine() -> None:
    with serving({"/version": http(200, {"version": "1.2"})}) as server:
        assert ask_target(server.url, {}) == TargetFacts(version="1.2")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", {"data": None}, {"data": ["name"]}, {"data": [{"id": 7}, {"owned_by": []}]}],
    ids=["empty", "page", "list", "null", "strings", "numbers"],
)
def test_a_page_of_another_form_tells_nothing_wrong(body: object) -> None:
    with serving({"/v1/models": http(200, body), "/version": http(200, body)}) as server:
        facts = ask_target(server.url, {})
    assert (facts.engine, facts.version, facts.synthetic) == (None, None, False)
    assert not facts.models


def test_no_server_tells_nothing() -> None:
    assert ask_target(f"http://127.0.0.1:{free_port()}", {}) == TargetFacts()


def test_a_page_that_never_comes_is_given_up() -> None:
    with serving({"/v1/models": never}) as server:
        assert ask_target(server.url, {}, timeout_s=0.05).models is None


def test_the_key_goes_along_and_a_v1_is_not_doubled() -> None:
    with serving({"/v1/models": models("m")}) as server:
        assert ask_target(f"{server.url}/v1/", {"Authorization": "Bearer abcd-1234"}).models == ["m"]
    assert server.asked == ["/v1/models", "/version", "/api/version"]
    assert all("Authorization: Bearer abcd-1234" in head for head in server.heads)


def test_a_path_in_the_base_url_is_kept() -> None:
    with serving({"/gateway/v1/models": models("m")}) as server:
        assert ask_target(f"{server.url}/gateway", {}).models == ["m"]


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with serving({"/v1/models": models("m")}) as server:
        assert ask_target(server.url, {}).models == ["m"]


def test_redirects_are_not_followed() -> None:
    elsewhere = Pages({"/v1/models": models("other")})
    try:
        with serving({"/v1/models": http(302, Location=f"{elsewhere.url}/v1/models")}) as server:
            assert ask_target(server.url, {}).models is None
        assert elsewhere.asked == []
    finally:
        elsewhere.stop()


def test_a_header_with_a_line_break_is_refused() -> None:
    with pytest.raises(UsageError, match=r"header 'Authorization': .* line break"):
        ask_target("http://127.0.0.1:1", {"Authorization": "Bearer a\r\nX: y"})
