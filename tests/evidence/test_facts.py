"""Facts from TOML: the template, what is refused and where, and what the server said beside them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.records import UsageError
from llm_locust.records.evidence import FIELD_TYPES
from llm_locust.records.facts import FACT_NAMES, GROUPS, Facts, combine, parse_facts, read_facts, template


def test_the_template_holds_every_fact_and_all_of_them_blank() -> None:
    assert tuple(tomllib.loads(template())) == FACT_NAMES
    assert parse_facts(template(), "facts.toml").values == {}


def test_the_examples_of_the_template_filled_in_are_facts() -> None:
    filled = re.sub(r'e\.g\. (.*)\n(\w+) = ""', r"\n\2 = \1", template())
    expected = {name: value for examples in GROUPS.values() for name, value in examples.items()}
    assert parse_facts(filled, "facts.toml").values == expected


@pytest.mark.parametrize("name", FACT_NAMES)
def test_a_fact_is_a_field_of_the_record(name: str) -> None:
    assert name in FIELD_TYPES


def test_the_template_says_what_a_fact_is_of_what_type_with_an_example() -> None:
    assert (
        "# Accelerators that serve the model; 0: none, it runs on CPU. Whole number, e.g. 2\n"
        'accelerator_count = ""\n' in template()
    )
    assert "null" not in template()


def test_facts_are_read_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_text('# ours\nowner = "Inference team"\ncuda = ""\n\naccelerator_count = 0\n"ram_gb" = 64\n')
    facts = read_facts(path)
    assert facts.values == {"owner": "Inference team", "accelerator_count": 0, "ram_gb": 64}
    assert facts.where("ram_gb") == f"{path}, line 6"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\nmodel_revison = "a"', "f.toml, line 2: model_revison is not a fact; did you mean model_revision?"),
        ("weather = 1", "f.toml, line 1: weather is not a fact; llm-locust facts --template lists them all"),
        ("replicas = 0", "f.toml, line 1: replicas is 0, which it cannot be: leave it blank if it is not known"),
        (
            'replicas = "two"',
            "f.toml, line 1: replicas = 'two': write whole number, e.g. 1 "
            "(Independent copies of the server behind the address)",
        ),
        (
            'weights_sha256 = "abc"',
            "f.toml, line 1: weights_sha256 = 'abc': write text, e.g. "
            '"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" '
            "(SHA-256 of the weights file, 64 hexadecimal digits)",
        ),
        (
            "[accelerator]\nname = 'H100'",
            "f.toml, line 1: accelerator = {'name': 'H100'}: write text, e.g. "
            '"NVIDIA H100 80GB HBM3" (Accelerator as its tool names it)',
        ),
        (
            'environment = "staging, 500 users"',
            "f.toml, line 1: environment states a number of users ('500 users'), which no figure here is: leave it out",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_facts(text, "f.toml")
    assert str(caught.value) == message


@pytest.mark.parametrize("line", ["owner = Jane", "driver_version = 550.1.2", "# a\nowner =Jane # b"])
def test_text_without_quotes_is_told_so(line: str) -> None:
    with pytest.raises(UsageError, match=r"not TOML: .*; text wants quotes$"):
        parse_facts(line, "f.toml")


@pytest.mark.parametrize("line", ["owner", "gpu_count = 1\nx = [", 'owner = "Jane'])
def test_other_mistakes_are_not_called_missing_quotes(line: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_facts(line, "f.toml")
    assert "text wants quotes" not in str(error.value)


def test_what_is_not_toml_is_named_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"^f\.toml: not TOML: .*line 2"):
        parse_facts("owner = 'a'\ncuda = ?\n", "f.toml")


def test_every_wrong_line_is_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_facts("ram_gb = 0\nowner = 'a'\ncuda = 12", "f.toml")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["f.toml, line 1", "f.toml, line 3"]


@pytest.mark.parametrize(
    ("raw", "message"),
    [(None, "cannot be read: No such file or directory"), (b"owner = '\xff'", "not UTF-8 text (byte 9)")],
)
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, raw: bytes | None, message: str) -> None:
    path = tmp_path / "facts.toml"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(UsageError, match=re.escape(message)):
        read_facts(path)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_bytes(b"\xef\xbb\xbfowner = 'a'\n")
    assert read_facts(path).values == {"owner": "a"}


def test_what_the_server_says_fills_blanks_and_what_nobody_knows_is_left_out() -> None:
    facts = parse_facts('owner = "a"\nengine = ""\n', "f.toml")
    said: dict[str, Any] = {"engine": "vLLM", "engine_version": None, "model_id": ""}
    assert combine(facts, said) == {"owner": "a", "engine": "vLLM"}


def test_the_same_said_twice_is_no_contradiction_and_the_server_spells_it() -> None:
    facts = Facts({"engine": "vllm ", "available_memory_gb": 80})
    assert combine(facts, {"engine": "vLLM", "available_memory_gb": 80.0}) == {
        "engine": "vLLM",
        "available_memory_gb": 80.0,
    }


def test_a_contradiction_names_both_and_the_line() -> None:
    facts = parse_facts('\nengine_version = "0.10.0"\n', "f.toml")
    with pytest.raises(UsageError) as caught:
        combine(facts, {"engine_version": "0.11.0"})
    assert str(caught.value) == (
        "f.toml, line 2: engine_version is '0.10.0', but the server said '0.11.0': correct the file, or leave it blank"
    )


def test_facts_can_be_kept_as_json() -> None:
    values = parse_facts('owner = "a"\nretest_when = ["b"]\nprefix_caching = true', "f.toml").values
    assert msgspec.json.decode(msgspec.json.encode(dict(values))) == values
