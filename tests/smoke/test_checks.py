"""Each promise of a server: kept by one that keeps them all, and seen broken by one that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from llm_locust.simulator.process import running
from llm_locust.smoke.checks import CHECKS, run_check
from llm_locust.smoke.checks.clock import step_since
from llm_locust.smoke.server import USERS, SmokedServer
from llm_locust.streaming import DIALECTS
from llm_locust.telemetry.target import TargetFacts
from llm_locust.telemetry.tokenizing import CannotCount
from tests.smoke.promising_server import PromisingServer, smoked

NO_DATE = "carry no Date header"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_locust.smoke.checks.metrics_page.PATIENCE_S", 0.0)


def test_a_server_that_keeps_its_promises_passes_every_check() -> None:
    with smoked(PromisingServer()) as server:
        checks = [run_check(name, server) for name in CHECKS]
    assert {check.name: (check.result, check.reason) for check in checks} == dict.fromkeys(CHECKS, ("pass", None))
    assert all(check.seen for check in checks)


@pytest.mark.parametrize(
    ("name", "broken", "reason", "seen"),
    [
        (
            "chat template",
            {"template": 0},
            "no chat template was applied",
            "5 prompt tokens for a message whose bare text has 5",
        ),
        ("end token", {"ended_text": "OK <|im_end|> user"}, "the end mark '<|im_end|>'", "OK <|im_end|>"),
        ("end token", {"ended_text": "OK </s>"}, "the end mark '</s>'", "OK </s>"),
        ("end token", {"ended_reason": "eos"}, "finish_reason 'eos', not 'stop'", "'OK'"),
        ("output limit", {"beyond_limit": 1}, "more was generated than the limit allows", "17 output tokens by usage"),
        ("output limit", {"beyond_limit": 1, "usage": False}, "more was generated", "17 output events"),
        ("output limit", {"limit_reason": "stop"}, "finish_reason at the limit is 'stop'", "16 output tokens"),
        ("output limit", {"beyond_limit": -3}, "counts 13 of 16 tokens", "13 output tokens by usage"),
        ("structured output", {"formatted": "Yes, it is."}, "json_schema: the reply does not have the form", "Yes, it"),
        ("structured output", {"formatted": '{"answer": "perhaps"}'}, "json_schema: ", "json_object: '{"),
        ("streaming", {"streams": "lump"}, "one lump", "24 output events"),
        ("streaming", {"streams": "fours"}, "events come several at a time (24 at ", "24 output events"),
        ("streaming", {"streams": "whole"}, "as one piece, not as a stream", ""),
        ("usage", {"usage": False}, "include_usage is not answered", "stream: None prompt and no output tokens"),
        ("usage", {"whole_prompt_tokens": 3}, "counts the same prompt otherwise", "whole reply: 3 prompt"),
        ("metrics", {"metrics": "still"}, "do not show what was sent", "16 output tokens were received"),
        ("metrics", {"metrics": "broken"}, "recognised and cannot be read", "line 1"),
        ("metrics", {"metrics": "error"}, "HTTP 500", "no"),
        ("token counts", {"tokenizer": "prompts"}, "5 tokens apart", "17 by usage, 12 by the server's /tokenize"),
        ("token counts", {"usage_error": 3}, "3 tokens apart", "20 by usage"),
        ("clock", {"date_offset_s": 9.0}, "seconds apart", "s from ours by its Date header"),
        ("clock", {"date_offset_s": -9.0}, "seconds apart", "the local wall clock stepped by 0.0"),
    ],
)
def test_a_broken_promise_is_seen(name: str, broken: dict[str, Any], reason: str, seen: str) -> None:
    with smoked(PromisingServer(**broken)) as server:
        check = run_check(name, server)
    assert (check.result, check.name) == ("fail", name), check
    assert reason in (check.reason or "")
    assert seen in check.seen


@pytest.mark.parametrize(
    ("name", "without", "reason"),
    [
        ("chat template", {"tokenizer": "none", "completions": "none"}, "cannot tell how long the bare text is"),
        ("structured output", {"refused_formats": ("json_schema", "json_object")}, "takes no response_format"),
        ("metrics", {"metrics": "closed"}, "no open /metrics"),
        ("token counts", {"tokenizer": "none"}, "no tokenizer to ask"),
        ("clock", {"date_offset_s": None}, NO_DATE),
    ],
)
def test_what_a_server_does_not_have_is_not_applicable(name: str, without: dict[str, Any], reason: str) -> None:
    with smoked(PromisingServer(**without)) as server:
        check = run_check(name, server)
    assert check.result == "not_applicable"
    assert reason in (check.reason or "")


@pytest.mark.parametrize(
    ("name", "doubtful", "reason"),
    [
        (
            "chat template",
            {"tokenizer": "none", "completions": "templated"},
            "neither request is templated, or both are",
        ),
        ("chat template", {"usage": False}, "names no prompt tokens"),
        ("end token", {"ends": False, "gap_s": 0.0}, "no reply to 3 short questions ended"),
        ("output limit", {"usage": False}, "does not count its output tokens"),
        ("output limit", {"early": True}, "ended by itself before the limit"),
        ("streaming", {"early": True}, "too few tokens to see a stream"),
        ("metrics", {"metrics": "unknown"}, "no engine that there is a mapping for"),
    ],
)
def test_what_cannot_be_told_is_undecided(name: str, doubtful: dict[str, Any], reason: str) -> None:
    with smoked(PromisingServer(**doubtful)) as server:
        check = run_check(name, server)
    assert check.result == "undecided"
    assert reason in (check.reason or "")


def test_a_template_shows_against_completions_where_there_is_no_tokenizer() -> None:
    with smoked(PromisingServer(tokenizer="none")) as server:
        check = run_check("chat template", server)
    assert (check.result, check.reason) == ("pass", None)
    assert check.seen == "10 prompt tokens for a message whose bare text has 5 (by /v1/completions)"


def test_ollama_is_asked_for_a_raw_completion_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_tokenizer(server: SmokedServer) -> None:
        raise CannotCount("/tokenize: HTTP 404")

    monkeypatch.setattr(SmokedServer, "tokenizer", no_tokenizer)
    with running() as (url, _):
        server = SmokedServer(url, "synthetic", {}, TargetFacts(engine="Ollama"))
        check = run_check("chat template", server)
        server.close()
    assert (check.result, check.reason) == ("pass", None)
    assert check.seen.endswith("(by /api/generate)")


def test_one_form_of_two_is_enough_and_the_refused_one_is_named() -> None:
    with smoked(PromisingServer(refused_formats=("json_schema",))) as server:
        check = run_check("structured output", server)
    assert check.result == "pass"
    assert "json_schema: refused with HTTP 400" in check.seen


def test_a_begin_mark_that_only_the_tokenizer_counts_is_no_difference() -> None:
    with smoked(PromisingServer(usage_error=1)) as server:
        check = run_check("token counts", server)
    assert check.result == "pass"
    assert check.seen.endswith("(a begin or end mark apart)")


def test_counters_that_move_by_more_are_of_others_too() -> None:
    with smoked(PromisingServer(metrics="double")) as server:
        check = run_check("metrics", server)
    assert check.result == "pass"
    assert check.seen.endswith("the counter moved by 32: somebody else is using the server as well")


def test_a_synthetic_engine_is_not_asked_for_json() -> None:
    with smoked(PromisingServer(formatted=None), TargetFacts(synthetic=True)) as server:
        check = run_check("structured output", server)
    assert (check.result, check.reason) == ("not_applicable", "a synthetic engine writes words, never JSON")


def test_a_request_that_fails_fails_the_check_that_needs_it() -> None:
    with smoked(PromisingServer(fails="max_tokens")) as server:
        check = run_check("output limit", server)
    assert check.result == "fail"
    assert check.reason == "a request that it needs failed: /v1/chat/completions: http_error: HTTP 500: it fell over"


def test_a_page_that_does_not_come_fails_the_check_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with smoked(PromisingServer()) as server:
        pass
    check = run_check("clock", server)
    assert check.result == "fail"
    assert "a page that it needs did not come" in (check.reason or "")


def test_a_key_that_a_server_repeats_is_not_printed() -> None:
    with smoked(PromisingServer(ended_text="sk-abcdefgh12345678", ended_reason="eos")) as server:
        check = run_check("end token", server)
    assert "abcdefgh" not in check.seen + (check.reason or "")


def test_a_local_clock_that_is_stepped_meanwhile_fails_whatever_the_server_says() -> None:
    with smoked(PromisingServer(date_offset_s=None)) as server:
        server.clock.anchor_ns -= 50_000_000  # as if the wall clock had jumped ahead by 50 ms
        check = run_check("clock", server)
        assert step_since(server.clock) == pytest.approx(50, abs=5)
    assert check.result == "fail"
    assert "was stepped meanwhile" in (check.reason or "")


def test_an_extra_field_goes_into_every_request() -> None:
    with smoked(PromisingServer(fails="thinking"), extra_body={"thinking": False}) as server:
        assert run_check("usage", server).result == "fail"


def test_a_user_is_there_for_every_dialect() -> None:
    assert set(USERS) == set(DIALECTS)
