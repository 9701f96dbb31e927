"""What Ollama's ``/api/ps`` says, as a row and for the manifest."""

from __future__ import annotations

from typing import Any

import pytest

from llm_locust.records import Clock
from llm_locust.records.server_sample import ServerSample, decode_server_rows, encode_server_rows, server_header_line
from llm_locust.simulator.process import running
from llm_locust.telemetry.ollama import LoadedModel, as_given, loaded_model, ollama_sample
from llm_locust.telemetry.page_reading import OllamaReading
from llm_locust.telemetry.probe import Probe
from llm_locust.telemetry.scraper import Scraped

from .server import http, serving


def card(name: str = "llama3.2:latest", **changed: Any) -> dict[str, Any]:
    known = {"name": name, "model": name, "size": 8_000, "size_vram": 6_000, "digest": "a0", "context_length": 4096}
    return {**known, **changed}


def test_a_loaded_model_says_its_context_its_size_and_where_it_lies() -> None:
    found = loaded_model({"models": [card("other"), card()]}, "llama3.2")
    assert found == LoadedModel(
        name="llama3.2:latest", digest="a0", size_bytes=8_000, size_vram_bytes=6_000, context_tokens=4096
    )
    assert found.residency == 0.75
    assert found.plain() == {
        "name": "llama3.2:latest",
        "digest": "a0",
        "size": 8_000,
        "size_vram": 6_000,
        "context_length": 4096,
        "residency": 0.75,
    }


def test_the_row_holds_residency_and_no_usage_of_a_cache() -> None:
    row = ollama_sample({"models": [card()]}, "llama3.2", at_ns=5, target="http://a/api/ps", scrape_ms=1.5)
    assert row == ServerSample(
        at_ns=5,
        target="http://a/api/ps",
        engine="ollama",
        verified=False,
        scrape_ms=1.5,
        context_tokens=4096,
        model_bytes=8_000,
        model_accelerator_bytes=6_000,
        residency=0.75,
    )
    assert decode_server_rows(server_header_line() + encode_server_rows([row]), "server.csv") == [row]


@pytest.mark.parametrize("page", [{"models": []}, {"models": [card("other")]}, {"models": [card(), card()]}])
def test_a_model_that_is_not_loaded_is_nothing_measured_and_no_error(page: dict[str, Any]) -> None:
    assert loaded_model(page, "llama3.2") is None
    row = ollama_sample(page, "llama3.2", at_ns=1, target="a")
    assert (row.error, row.engine, row.context_tokens, row.residency) == (None, "ollama", None, None)


def test_without_a_name_the_only_loaded_model_is_meant() -> None:
    assert loaded_model({"models": [card()]}, None) is not None
    assert loaded_model({"models": [card(), card("other")]}, None) is None


@pytest.mark.parametrize(
    ("changed", "residency"),
    [
        ({"size": 0, "size_vram": 0}, None),
        ({"size_vram": 0}, 0.0),
        ({"size_vram": None}, None),
        ({"size": "8000"}, None),
        ({"size": True}, None),
        ({"size_vram": -1}, None),
    ],
)
def test_sizes_that_are_none_make_no_residency(changed: dict[str, Any], residency: float | None) -> None:
    found = loaded_model({"models": [card(**changed)]}, "llama3.2")
    assert found is not None
    assert found.residency == residency


@pytest.mark.parametrize("page", [{}, {"models": None}, {"error": "no"}])
def test_another_page_is_an_error_in_words(page: dict[str, Any]) -> None:
    assert loaded_model(page, "m") is None
    assert ollama_sample(page, "m", at_ns=1, target="a").error == "not an answer of Ollama's /api/ps"


def test_settings_are_recorded_as_given_and_only_those() -> None:
    environment = {"OLLAMA_NUM_PARALLEL": "4", "OLLAMA_MAX_QUEUE": "", "OLLAMA_HOST": "x", "HOME": "/"}
    assert as_given(environment) == {"OLLAMA_NUM_PARALLEL": "4"}


def test_the_page_is_scraped_like_metrics() -> None:
    pages = {"/api/ps": http(200, {"models": [card()]})}
    clock = Clock()
    with serving(pages) as server:
        url = f"{server.url}/api/ps"
        target = Scraped(url, Probe(server.url, {}, clock=clock), "/api/ps", OllamaReading(url, "llama3.2"))
        rows, raw = target.scrape(clock)
        assert [(row.residency, row.error) for row in rows.server] == [(0.75, None)]
        assert raw is not None
        assert raw.body.startswith(b'{"models":')
        pages["/api/ps"] = http(500, {"error": "out of sorts"})
        assert [row.error for row in target.scrape(clock)[0].server] == ["HTTP 500: out of sorts"]


def test_the_synthetic_servers_page_reads_too() -> None:
    with running(model="small") as (base_url, _):
        page = Probe(base_url, {}).get("/api/ps", timeout_s=5).json()
    found = loaded_model(page, "small")
    assert found is not None
    assert found.context_tokens is not None
    assert found.residency is None or 0 <= found.residency <= 1
