"""The start form of Locust's UI: what is in it, what is taken from it, and what is refused before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from locust.argument_parser import get_parser

from llm_locust.plugin.option_table import OF_THE_PROCESS, OPTIONS, REACHES_IN
from tests.web.locust_ui import UI, Ladder, locust_ui

HOST = "http://127.0.0.1:8000"
USERS = {"user_count": "2", "spawn_rate": "2"}

Open = Callable[..., UI]


@pytest.fixture
def ui(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    for name in ("LLM_LOCUST_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        yield lambda *arguments, **more: stack.enter_context(locust_ui(monkeypatch, *arguments, **more))


def fields(ui: UI) -> dict[str, dict[str, Any]]:
    page = ui.client.get("/").get_data(as_text=True)
    found = re.search(r"window\.templateArgs = (.*)\n", page)
    assert found is not None
    options: dict[str, dict[str, Any]] = json.loads(found[1])["extra_options"]
    return options


# --- what is in the form -----------------------------------------------------------------------------------------------


def test_options_of_a_run_are_in_the_form_with_help_and_default(ui: Open) -> None:
    shown = fields(ui("--host", HOST, shape=Ladder()))
    assert shown["max_tokens"]["default_value"] == "128"
    assert "Output limit of requests" in shown["max_tokens"]["help_text"]
    assert shown["rates"]["default_value"] is None
    assert shown["stop_on_fail"]["default_value"] is False


def test_words_are_offered_as_a_list_with_what_the_command_line_said_first(ui: Open) -> None:
    shown = fields(ui("--host", HOST, "--tokenizer", "estimate"))
    assert shown["tokenizer"]["choices"] == ["estimate", "auto", "server"]


def test_nothing_that_reaches_into_the_machine_is_in_the_form(ui: Open) -> None:
    assert not fields(ui("--host", HOST)).keys() & (REACHES_IN | OF_THE_PROCESS)


def test_a_trusted_page_has_files_and_variables_too_but_nothing_of_the_process(ui: Open) -> None:
    shown = fields(ui("--host", HOST, "--web-trusted"))
    assert shown.keys() >= REACHES_IN - {"trace"}
    assert not shown.keys() & OF_THE_PROCESS
    assert shown["workload_kind"]["choices"] == ["", "synthetic", "representative"]


def test_options_that_the_shape_does_not_read_are_left_out(ui: Open) -> None:
    of_shape, of_users = fields(ui("--host", HOST, shape=Ladder())), fields(ui("--host", HOST))
    assert "rates" in of_shape
    assert not {"concurrency", "unload", "idle"} & of_shape.keys()
    assert not {"rates", "stage_time", "cooldown", "rounds"} & of_users.keys()
    assert {"warmup_time", "seed", "max_requests"} <= of_users.keys()


def test_what_a_run_needs_stands_first_in_the_form(ui: Open) -> None:
    of_shape, of_users = list(fields(ui("--host", HOST, shape=Ladder()))), list(fields(ui("--host", HOST)))
    assert of_shape[:6] == ["rates", "stage_time", "slo", "model", "gate", "warmup_time"]
    assert of_users[:4] == ["slo", "model", "gate", "warmup_time"]


def test_every_option_is_either_shown_or_kept_from_pages_on_purpose() -> None:
    names = {option.name for option in OPTIONS}
    assert names >= REACHES_IN | OF_THE_PROCESS
    files = {option.name for option in OPTIONS if option.metavar in ("FILE", "DIR", "NAME", "'NAME: VALUE'", "URL")}
    assert files - {"model"} <= REACHES_IN | OF_THE_PROCESS


# --- what is taken -----------------------------------------------------------------------------------------------------


def test_values_of_the_form_are_the_options_of_the_run(ui: Open) -> None:
    page = ui(shape=Ladder())
    answer = page.start(host=HOST, rates="1,2", slo="ttft=500", no_stream="false", stop="END, or so")
    assert answer["success"], answer
    assert page.started == [("shape",)]
    assert page.environment.host == HOST
    assert (page.option("rates"), page.option("slo"), page.option("no_stream")) == ("1,2", "ttft=500", False)
    assert page.option("stop") == ["END, or so"]


def test_users_without_a_shape_start_with_the_number_that_was_typed(ui: Open) -> None:
    page = ui("--host", HOST)
    assert page.start(**USERS, max_tokens="8")["success"]
    assert page.started == [(2, 2.0)]
    assert page.option("max_tokens") == "8"


def test_an_emptied_field_is_its_default_again_and_an_emptied_list_no_error(ui: Open) -> None:
    page = ui("--host", HOST, "--gate", "ttft_p95<=100", shape=Ladder())
    assert page.start(rates="1", gate="", max_tokens="")["success"]
    assert page.option("gate") is None
    assert page.start(rates="1", gate="ttft_p95<=1000, attainment>=0.9")["success"]
    assert page.start(rates="1", gate="")["success"]


def test_an_emptied_host_is_the_command_lines_again(ui: Open) -> None:
    page = ui("--host", HOST, shape=Ladder())
    assert page.start(rates="1", host="http://127.0.0.1:9000")["success"]
    assert page.start(rates="1", host="")["success"]
    assert page.environment.host == HOST


def test_while_a_run_goes_on_only_the_number_of_users_is_taken(ui: Open) -> None:
    page = ui("--host", HOST)
    page.runner.state = "running"
    assert page.start(user_count="5", spawn_rate="5", max_tokens="9", prompts="/etc/passwd")["success"]
    assert page.started == [(5, 5.0)]
    assert page.option("max_tokens") == "128"
    assert page.option("prompts") is None


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"rates": "1,x"}, "--rates 'x': write requests per second"),
        ({"rates": ""}, "the shape Ladder has no stages"),
        ({"rates": "1", "max_in_flight": "none"}, "--max-in-flight 'none': must be a whole number"),
        ({"rates": "1", "slo": "tftt=5"}, "tftt"),
        ({"rates": "1", "host": "localhost"}, "--host 'localhost': write a base URL"),
        ({"rates": "1", "no_stream": "perhaps"}, "--no-stream 'perhaps': true or false"),
        ({"rates": "1", "model": "m" * 10_001}, "--model: longer than 10000 characters"),
        ({"rates": "1", "profile": "p" * 10_001}, "--profile: longer than 10000 characters"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason_and_nothing_starts_or_changes(
    ui: Open, form: dict[str, str], said: str
) -> None:
    page = ui("--host", HOST, shape=Ladder())
    before = dict(vars(page.environment.parsed_options))
    answer = page.start(**form)
    assert not answer["success"]
    assert said in answer["message"]
    assert page.started == []
    assert vars(page.environment.parsed_options) == before
    assert page.environment.host == HOST


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"user_count": "two", "spawn_rate": "1"}, "Number of users 'two': must be a whole number"),
        ({"user_count": "0", "spawn_rate": "1"}, "Number of users 0: from 1"),
        ({"spawn_rate": "1"}, "Number of users '': must be a whole number"),
        ({"user_count": "1", "spawn_rate": "fast"}, "Ramp up (users started/second) 'fast': must be a number"),
        ({"user_count": "1", "spawn_rate": "nan"}, "Ramp up (users started/second) nan: must be greater than 0"),
        ({**USERS, "run_time": "soon"}, "Run time 'soon': write 20, 20s"),
        ({**USERS, "max_in_flight": "1"}, "--max-in-flight 1 is less than the 2 requests"),
    ],
)
def test_users_that_cannot_be_started_are_refused_in_words(ui: Open, form: dict[str, str], said: str) -> None:
    page = ui("--host", HOST)
    answer = page.start(**form)
    assert not answer["success"]
    assert said in answer["message"]
    assert page.started == []


def test_letters_in_a_number_of_the_persons_own_option_are_a_sentence_and_no_crash(ui: Open) -> None:
    import locust

    own = Path(__file__).name

    def add(parser: Any, **_: Any) -> None:
        parser.add_argument("--how-many", type=int, default=3, help=own)

    page = ui()  # keeps Locust's events to be restored
    locust.events.init_command_line_parser.add_listener(add)
    page = ui("--host", HOST)
    answer = page.start(**USERS, how_many="some")
    assert not answer["success"]
    assert answer["message"] == "--how-many 'some': must be of the kind of 3"
    assert page.start(**USERS, how_many="4")["success"]
    assert page.option("how_many") == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompts", "/etc/passwd"), ("mix", "/etc/passwd"), ("trace", "/etc/passwd"), ("facts", "/etc/passwd"),
        ("metrics_map", "/etc/passwd"), ("ca_file", "/tmp/ca.pem"), ("run_dir", "/tmp"), ("proxy", "http://10.0.0.1:1"),
        ("api_key_env", "HOME"), ("basic_auth_env", "HOME"), ("header", "X-Home: @env:HOME"), ("insecure", "true"),
        ("metrics", "http://169.254.169.254/latest"), ("tokenizer", "/etc/passwd"), ("gate", "attainment>=0.5,/tmp/x.toml"),
        ("gate", "a<=1\n /tmp/x.toml "), ("quality", " json-schema:/etc/passwd"), ("json_lines", "/tmp/out"),
        ("prometheus_port", "1"), ("web_trusted", "true"), ("csv_prefix", "/tmp/x"), ("loglevel", "DEBUG"),
        ("headless", "true"), ("config_users", "[]"),
    ],
)  # fmt: skip
def test_a_visitor_reads_no_file_writes_nowhere_and_names_no_variable(ui: Open, name: str, value: str) -> None:
    page = ui("--host", HOST, shape=Ladder())
    answer = page.start(rates="1", **{name: value})
    assert not answer["success"]
    assert "when Locust is started" in answer["message"]
    assert page.started == []


def test_what_the_command_line_gave_may_come_back_from_the_form(ui: Open, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "hello"}\n')
    given = ["--prompts", str(prompts), "--header", "X-Team: search", "--insecure", "--quality", "json"]
    page = ui("--host", HOST, *given, shape=Ladder())
    answer = page.start(
        rates="1",
        prompts=str(prompts),
        header="X-Team: search",
        insecure="true",
        run_dir="runs",
        api_key_env="",
        mix="",
    )
    assert answer["success"], answer
    assert page.option("header") == ["X-Team: search"]


def test_a_trusted_page_may_name_a_file(ui: Open, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "hello"}\n')
    page = ui("--host", HOST, "--web-trusted", shape=Ladder())
    assert page.start(rates="1", prompts=str(prompts))["success"]
    assert page.option("prompts") == str(prompts)


@pytest.mark.parametrize("given", [["--host", HOST], []])
def test_a_key_is_not_sent_to_a_host_that_only_a_page_named(
    ui: Open, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    page = ui(*given, shape=Ladder())
    monkeypatch.setenv("LLM_LOCUST_API_KEY", "sk-very-secret")
    answer = page.start(rates="1", host="http://evil.example")
    assert not answer["success"]
    assert "is not sent to a host that was typed on a web page" in answer["message"]
    assert page.plugin.host_from_page is False


def test_a_key_is_sent_to_the_command_lines_host_wherever_its_path_leads(
    ui: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ui("--host", HOST, shape=Ladder())
    monkeypatch.setenv("LLM_LOCUST_API_KEY", "sk-very-secret")
    assert page.start(rates="1", host=f"{HOST}/v1")["success"]
    assert page.plugin.host_from_page is False


def test_without_a_key_the_host_of_the_form_counts_and_workers_are_told_to_send_it_none(ui: Open) -> None:
    page = ui("--host", HOST, shape=Ladder())
    assert page.start(rates="1", host="http://127.0.0.1:9000")["success"]
    assert page.environment.host == "http://127.0.0.1:9000"
    assert page.plugin.host_from_page is True


def test_a_start_while_the_run_before_is_ending_is_refused(ui: Open) -> None:
    page = ui("--host", HOST, shape=Ladder())
    for state, said in (("stopping", "is ending"), ("running", "stop it first")):
        page.runner.state = state
        answer = page.start(rates="1")
        assert not answer["success"]
        assert said in answer["message"]


# --- where the UI listens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "host"),
    [([], "127.0.0.1"), (["--web-host", "0.0.0.0"], "0.0.0.0"), (["--web-host", "*"], "*"), (["--web-host", ""], "")],
)
def test_the_ui_is_for_this_machine_alone_unless_it_is_told_otherwise(arguments: list[str], host: str) -> None:
    import llm_locust

    parser = get_parser(default_config_files=[])
    assert llm_locust.__file__
    assert parser.parse_args(arguments).web_host == host
    assert "(default: 127.0.0.1)" in " ".join(parser.format_help().split())
