"""Text from elsewhere (servers, users, file names) changes nothing in a report or in a terminal but the words themselves."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt  # what rich renders Markdown with
from rich.console import Console

from llm_locust.records import WorkloadFacts
from llm_locust.report import Reported, merge_run, print_reported
from llm_locust.report.inert import LONGEST, LONGEST_NAME, LONGEST_SENTENCE, escape, one_line, shell_word
from llm_locust.report.preview import preview_text
from tests.analysis.run_builder import RunBuilder
from tests.sizing.runs import CountingPrompts, look_ahead, open_stage

HOSTILE = {
    "pipes": "a|b \\| c \\\\| d |",
    "backticks": "`a` ``b`` ```c\n```\n# out of the fence",
    "lines": "a\r\nb\rc\n\n# h\n- x\n1. y\n> q\n---\n===\n    code",
    "escapes": "\x1b[31mred\x1b[2J \x1b]8;;http://x\x07link\x1b]8;;\x07 \x9b31m \x1b]0;title\x07",
    "rich markup": "[bold red]x[/] [link=http://x]y[/link] [/] :smile:",
    "html": "<script>alert(1)</script> <img src=x onerror=y> <!-- c </td></table> &lt;b&gt; &#60;",
    "markdown": "**b** __i__ ~~s~~ ![i](u) [l](u) [r][r] <http://a> $x$ \\* \\",
    "a list": "- item",
    "a numbered list": "1. item",
    "a quotation": "> quote",
    "code by indentation": "\t    code",
    "a rule": "***",
    "a link's target": "[r]: http://x",
    "a table": "| a | b |\n|---|---|\n| c | d |",
    "reversed": "\u202efail\u2066\u200b\ufeff\u2028x\u2029y\x85z\xa0w\x7f",
    "a backslash at the end": "end\\",
}


def of_run(parent: Path, text: str) -> Reported:
    """A run that has this text wherever a server or a user can put it."""
    run = RunBuilder(
        parent,
        slo={"ttft": 500},
        model=text,
        host=text,
        state="interrupted",
        state_reason=text,
        command=["locust", "-f", text],
        workload=WorkloadFacts(name=text, kind="representative", source=text, sha256="ab" * 32),
    )
    stage = run.stage(rate=2, interrupted=text)
    stage.requests(30, ttft=300, user=text, slice=text, session=text, prefix_group=text)
    stage.requests(30, outcome="http_error", status=500, error=text, finish_reason=text)
    return merge_run(run.write())


def printed(reported: Reported) -> str:
    out = io.StringIO()
    print_reported(reported, Console(file=out, width=80, color_system=None))
    return out.getvalue()


def printed_in_colour(reported: Reported) -> str:
    """... without the escape sequences of the colours, which are all that may be there."""
    out = io.StringIO()
    print_reported(reported, Console(file=out, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[33m" in out.getvalue()
    return re.sub(r"\x1b\[(?:0|1|33)m", "", out.getvalue())


def structure(markdown: str) -> list[str]:
    """What a renderer that allows HTML and tables makes of it, but for the words."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    found = []
    for token in parser.parse(markdown):
        found.append(token.type)
        found += [child.type for child in token.children or []]
    return found


def unprintable(text: str) -> set[str]:
    return {char for char in text if not char.isprintable() and char != "\n"}


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return structure(of_run(tmp_path_factory.mktemp("harmless"), "harmless").report.read_text())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_changes_the_structure_of_the_report_or_reaches_a_terminal_as_anything_but_text(
    text: str, harmless: list[str], tmp_path: Path
) -> None:
    reported = of_run(tmp_path, text)
    report = reported.report.read_text()
    assert structure(report) == harmless
    assert unprintable(report) == set()
    for shown in (printed(reported), printed_in_colour(reported)):
        assert unprintable(shown) == set()
        assert "".join(one_line(text).split()) in "".join(shown.split())


def test_ten_thousand_characters_leave_the_verdict_on_the_screen(tmp_path: Path) -> None:
    reported = of_run(tmp_path, "x" * 10_000)
    report, shown = reported.report.read_text(), printed(reported)
    longest = [max(map(len, re.findall("x+[.]*", line)), default=0) for line in report.splitlines()]
    facts = [line for line in report.splitlines() if line.startswith(("- Target", "- Workload", "- Started"))]
    assert [max(map(len, re.findall(r"x+\.\.\.", line))) for line in facts] == [LONGEST_NAME] * 3
    assert f"| http\\_error | 500 | {'x' * (LONGEST_NAME - 3)}... | 30 |" in report
    # Only the command is whole: it is for running it again.
    assert sorted(longest)[-1] == 10_000
    assert sorted(longest)[-2] < LONGEST
    assert shown.count("x") < LONGEST + LONGEST_SENTENCE + LONGEST_NAME


def test_the_dry_run_shows_a_hostile_name_as_text() -> None:
    for text in HOSTILE.values():
        workload = CountingPrompts()
        workload.facts.name = text
        shown = preview_text(look_ahead(open_stage(7), workload=workload), width=1000)
        assert unprintable(shown) == set()
        assert f"Workload: {one_line(text)} (representative)" in shown


@given(st.text())
@example("\\|")
@example("\\")
@example("a  b")
@example("&amp;")
@example("\x1b[0m")
def test_an_escaped_text_in_a_table_is_one_cell_with_just_that_text(text: str) -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    tokens = parser.parse(f"| a | b |\n|:--|:--|\n| {escape(text)} | end |")
    cells = [token for token in tokens if token.type == "inline"]
    assert [cell.content for cell in cells[:2] + cells[3:]] == ["a", "b", "end"]
    children = cells[2].children or []
    assert {child.type for child in children} <= {"text"}
    assert "".join(child.content for child in children) == one_line(text)


@given(st.text(), st.integers(min_value=3, max_value=40))
def test_a_line_is_printable_and_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert line.isprintable()
    assert len(line) <= limit


def test_a_cut_shows() -> None:
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abc..."


def test_an_ordinary_argument_is_quoted_as_everywhere() -> None:
    assert [shell_word(argument) for argument in ("-f", "my chat.py", "it's", "")] == [
        "-f",
        "'my chat.py'",
        "'it'\"'\"'s'",
        "''",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash to read the words")
def test_a_shell_reads_back_the_arguments_that_were_given() -> None:
    arguments = [*HOSTILE.values(), "it's\na \\n \U000e0001 tag", "my chat.py"]
    command = " ".join(map(shell_word, arguments))
    assert command.isprintable()
    read = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
        timeout=30,
    )
    assert read.stdout.decode().split("\0")[:-1] == arguments
