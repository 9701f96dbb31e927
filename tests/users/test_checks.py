"""Shipped quality checks: what passes, what does not, and what is not checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import Outcome, UsageError
from llm_locust.records.quality import QualitySpec
from llm_locust.streaming import Reply
from llm_locust.users.checks import CHECKS, make_check, parse_quality
from llm_locust.workload import Prompt


def verdict(quality: str, text: str | None, expected: Any = None) -> bool | None:
    prompt = Prompt(index=0, prompt="ask", max_tokens=8, expected=expected)
    return make_check(parse_quality(quality))(prompt, Reply(outcome=Outcome.OK, text=text))


@pytest.mark.parametrize(
    ("pattern", "text", "passes"),
    [("^yes", "yes, of course", True), ("^yes", "oh yes", False), ("a:b", "a:b", True), (".", None, False)],
)
def test_regex_is_searched_in_the_text(pattern: str, text: str | None, passes: bool) -> None:
    assert verdict(f"regex:{pattern}", text) is passes


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ('{"a": [1, 2]}', True),
        (" 7 ", True),
        ('```json\n{"a": 1}\n```', True),
        ('Here it is: {"a": 1}', False),
        ('{"a": 1', False),
        ('{"a": 1} {"b": 2}', False),
        ("", False),
        (None, False),
    ],
)
def test_json_is_the_whole_reply_bare_or_in_one_fence(text: str | None, passes: bool) -> None:
    assert verdict("json", text) is passes


@pytest.mark.parametrize(
    ("text", "passes"),
    [('{"city": "Bern"}', True), ('{"city": 3}', False), ('{"town": "Bern"}', False), ("Bern", False)],
)
def test_json_follows_the_schema_of_a_file(tmp_path: Path, text: str, passes: bool) -> None:
    schema = tmp_path / "city.json"
    schema.write_text('{"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}')
    assert verdict(f"json-schema:{schema}", text) is passes


def test_a_worker_needs_no_schema_file_since_its_content_travels(tmp_path: Path) -> None:
    schema = tmp_path / "number.json"
    schema.write_text('{"type": "number"}')
    spec = parse_quality(f"json-schema:{schema}")
    schema.unlink()
    prompt = Prompt(index=0, prompt="ask", max_tokens=8)
    assert make_check(spec)(prompt, Reply(outcome=Outcome.OK, text="7")) is True
    assert make_check(spec)(prompt, Reply(outcome=Outcome.OK, text='"7"')) is False


def test_a_schema_is_never_fetched_from_anywhere(tmp_path: Path) -> None:
    schema = tmp_path / "far.json"
    schema.write_text('{"$ref": "http://127.0.0.1:9/schema.json"}')
    with pytest.raises(Exception, match="Unresolvable"):
        verdict(f"json-schema:{schema}", "7")


@pytest.mark.parametrize(
    ("expected", "text", "passes"),
    [
        ("Paris", "paris", True),
        ("Paris.", "It is  PARIS, as you know.", True),
        ("new york", "New\nYork", True),
        ("4", "The answer is 42.", False),
        ("4", "The answer is 4.", True),
        ("Paris", "Lyon", False),
        (None, "Lyon", None),
        ("", "Lyon", None),
        (42, "It is 42.", True),
        (4, "It is 42.", False),
        (True, "TRUE", True),
        (["Paris", "Lyon"], "lyon!", True),
        (["Paris", "Lyon"], "Nice", False),
        ([], "Lyon", None),
        ({"city": "Bern"}, '{ "city": "Bern" }', True),
        ({"city": "Bern"}, '{"city": "Basel"}', False),
        ({"city": "Bern"}, "Bern", False),
    ],
)
def test_the_expected_answer_is_found_as_whole_words_however_written(
    expected: Any, text: str, passes: bool | None
) -> None:
    assert verdict("expected", text, expected) is passes


@pytest.mark.parametrize(
    ("quality", "says"),
    [
        ("grammar", "write one of regex:PATTERN, json, json-schema:FILE, expected"),
        ("regex", "which pattern"),
        ("regex:(", "regex:("),
        ("json:x", "takes nothing after it"),
        ("json-schema", "which schema"),
        ("json-schema:/nowhere.json", "No such file"),
    ],
)
def test_a_check_that_cannot_be_is_refused_before_load(quality: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_quality(quality)
    assert says in str(refused.value)


@pytest.mark.parametrize(("content", "says"), [("{", "not JSON"), ('{"type": "nothing"}', "not a JSON Schema")])
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "schema.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=says):
        parse_quality(f"json-schema:{path}")


def test_a_machine_without_the_schema_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(UsageError, match="pip install jsonschema"):
        make_check(QualitySpec(check="json-schema", argument="x.json", content={"type": "number"}))


def test_every_check_is_registered_under_the_name_it_is_written_with() -> None:
    assert {name: kind.form.partition(":")[0] for name, kind in CHECKS.items()} == {name: name for name in CHECKS}
