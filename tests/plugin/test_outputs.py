"""The options of what a master tells beside the terminal: wrong values are refused before load, and nothing runs unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from locust.argument_parser import get_empty_argument_parser

from llm_locust.live.run import LiveRun
from llm_locust.plugin.option_table import add_options
from llm_locust.plugin.outputs import OutputOptions, Outputs, read_output_options
from llm_locust.records import Clock, UsageError


def options(**given: str) -> OutputOptions:
    return read_output_options(Namespace(**given))


def test_nothing_is_served_or_written_unless_asked_for() -> None:
    assert options() == OutputOptions(prometheus_host="127.0.0.1", prometheus_port=None, json_lines=None)


def test_metrics_are_served_on_loopback_unless_told_otherwise() -> None:
    assert options(prometheus_port="9646").prometheus_host == "127.0.0.1"
    assert options(prometheus_port="9646", prometheus_host="0.0.0.0").prometheus_host == "0.0.0.0"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"prometheus_port": "no"}, "--prometheus-port 'no': must be a whole number"),
        ({"prometheus_port": "-1"}, "--prometheus-port -1: must be at least 0"),
        ({"prometheus_port": "96460"}, "--prometheus-port 96460: a port is at most 65535; 9646 is the custom"),
        ({"prometheus_host": "0.0.0.0"}, "--prometheus-host 0.0.0.0 .* add --prometheus-port 9646"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_do(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        options(**given)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [([], None), (["--json-lines"], "-"), (["--json-lines", "-"], "-"), (["--json-lines", "run.jsonl"], "run.jsonl")],
)
def test_json_lines_go_to_standard_output_unless_a_file_is_named(arguments: list[str], file: str | None) -> None:
    parser = get_empty_argument_parser()
    add_options(parser)
    assert read_output_options(parser.parse_args(arguments)).json_lines == file


def test_a_run_that_could_not_begin_leaves_its_line(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    live = LiveRun(Clock().now_ns)
    outputs = Outputs(OutputOptions(prometheus_host="", prometheus_port=None, json_lines=str(file)), live, lambda: 2)
    outputs.waits("nothing is sent for 300 s")
    live.failed("no worker answers")
    outputs.close()
    first, last = map(json.loads, file.read_text().splitlines())
    assert (first["event"], first["what"]) == ("waiting", "nothing is sent for 300 s")
    assert (last["event"], last["reason"], last["exit_code"]) == ("failed", "no worker answers", 2)


def test_standard_output_is_kept_for_lines_alone() -> None:
    code = (
        "import os\n"
        "from llm_locust.plugin.line_writer import open_lines\n"
        "lines = open_lines('-')\n"
        "print('a table')\n"
        "os.system('echo another program')\n"
        "os.write(lines, b'{}\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
    assert sorted(done.stderr.split("\n")) == ["", "a table", "another program"]
