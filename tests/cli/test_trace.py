"""``llm-locust trace`` as a user meets it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llm_locust.arrivals.traces import FORMATS
from llm_locust.cli import llm_locust
from llm_locust.records import UsageError

SAMPLES = Path(__file__).parents[1] / "arrivals" / "traces" / "samples"
CODE = str(SAMPLES / "azure_code.csv")
BAILIAN = str(SAMPLES / "bailian_made_up.jsonl")


def trace(*arguments: str, width: int = 80) -> Result:
    return CliRunner().invoke(
        llm_locust, ["trace", *arguments], env={"COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}
    )


def lines(result: Result) -> dict[str, str]:
    """The printed figures by their names, each on one line."""
    assert result.exit_code == 0, result.output
    found: dict[str, str] = {}
    name = ""
    for line in result.stdout.split("\n\n")[0].splitlines():
        name = line[:13].strip() or name
        found[name] = f"{found.get(name, '')} {line[13:].strip()}".strip()
    return found


def test_every_figure_is_printed_by_name() -> None:
    found = lines(trace(BAILIAN))
    assert found["Format"] == "bailian (by its first line)"
    assert found["Rows"] == "7 read, 6 used, 1 dropped (no output tokens)"
    assert found["Times"] == "timestamp in s; resolution 1 ms"
    assert found["Span"] == "0 to 5.626 s: 5.626 s, 6 arrivals"
    assert found["Rate"] == "mean 1.066 a second, 63.99 a minute; peak 2 in a second, 6 in a minute"
    assert found["Burstiness"].endswith("index of dispersion 1 at 1 s, - at 10 s (Poisson: 1)")
    assert found["Input"] == "tokens: mean 48, P50 48, P95 80, P99 80, max 80"
    assert found["Sessions"] == "3 of 6 arrivals; turns: mean 2, P95 3, max 3"
    assert found["Prefixes"].startswith("38.88 % of 18 blocks of 16 tokens were seen before")
    assert found["Note"].startswith("Rows of conversations that began before the trace: 2.")


def test_a_format_that_was_asked_for_is_not_called_found() -> None:
    assert lines(trace(CODE, "--format", "azure"))["Format"] == "azure"


@pytest.mark.parametrize("width", [70, 80, 120, 200])
def test_the_plot_fits_its_terminal_and_shows_the_rate_over_time(width: int) -> None:
    result = trace(CODE, width=width)
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= width
    plot = result.stdout.split("\n\n")[1].splitlines()
    assert len(plot) == 10
    bars = plot[7].split("│")[1]
    assert 50 <= len(bars) <= 100
    assert plot[0].split("│")[0].strip() != ""
    assert "█" in plot[0]  # the busiest bar is full
    assert plot[8].split() == ["0", "s", "34.28444", "s"]
    assert "arrivals per second" in plot[9]


def test_bars_stand_where_arrivals_were(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    # 50 s of two a second, then 50 s of nothing but the last arrival.
    file.write_text("timestamp\n" + "".join(f"{n / 2}\n" for n in range(100)) + "99\n")
    bars = trace(str(file), width=200).stdout.split("\n\n")[1].splitlines()[7].split("│")[1]
    # 99.1 s in 100 bars, for times are told to 0.1 s (the rest is "0.0" or "0.5").
    assert set(bars[:50]) == {"█"}
    assert bars[51:99].strip() == ""
    assert bars[99] != " "


def test_json_has_the_same_figures_and_no_plot() -> None:
    found = json.loads(trace(CODE, "--json").stdout)
    assert (found["read"], found["used"], found["dropped"], found["format"]) == (40, 40, {}, "azure")
    assert found["arrivals"] == 40
    assert found["seconds"] == 34.2844391
    assert found["prefix"] is None


def test_a_slice_is_what_the_figures_are_of() -> None:
    found = json.loads(trace(CODE, "--json", "--from", "0.05", "--to", "0.45").stdout)
    # 52, 98.189, 140.684 and 444.994 ms.
    assert (found["arrivals"], found["from_s"], found["to_s"]) == (4, 0.05, 0.45)


def test_the_slice_is_written_in_the_words_of_the_replay() -> None:
    found = json.loads(trace(CODE, "--json", "--from", "0s", "--to", "0.5m").stdout)
    assert (found["from_s"], found["to_s"]) == (0.0, 30.0)


@pytest.mark.parametrize(("suffix", "begin"), [(".png", b"\x89PNG\r\n"), (".svg", b"<?xml")])
def test_a_picture_is_drawn_and_is_the_same_every_time(tmp_path: Path, suffix: str, begin: bytes) -> None:
    pytest.importorskip("matplotlib")
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for picture in (first, second):
        result = trace(CODE, "--plot", str(picture))
        assert result.exit_code == 0, result.output
        assert f"Plot: {picture}" in result.stdout
    assert first.read_bytes().startswith(begin)
    assert first.read_bytes() == second.read_bytes()


def test_a_picture_goes_with_json_and_does_not_disturb_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = trace(CODE, "--json", "--plot", str(tmp_path / "a.png"))
    assert json.loads(result.stdout)["arrivals"] == 40
    assert result.stderr == f"Plot: {tmp_path / 'a.png'}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-file"], "no-such-file: cannot be read"),
        ([CODE, "--format", "mooncake"], "it looks like --format azure"),
        ([CODE, "--from", "10x"], "--from '10x': write seconds, or a number with s, m or h (90, 90s, 5m)"),
        ([CODE, "--to", "-1"], "--to '-1': write seconds"),
        ([CODE, "--from", "99"], "the slice begins at 99 s"),
        ([CODE, "--plot", "a.pdf"], "--plot a.pdf: the name ends with .png or .svg"),
        ([CODE, "--plot", "no-such-folder/a.png"], "there is no folder no-such-folder"),
    ],
)
def test_wrong_usage_is_told_without_a_traceback(arguments: list[str], said: str) -> None:
    result = trace(*arguments)
    assert isinstance(result.exception, UsageError)  # the entry point prints it and exits with 2
    assert said in str(result.exception)


def test_the_help_lists_every_registered_format() -> None:
    said = " ".join(trace("--help").stdout.split())
    for of in FORMATS.values():
        assert f"{of.name} {of.about}" in said


def test_the_text_of_a_file_is_not_obeyed(tmp_path: Path) -> None:
    file = tmp_path / "[red]\x1b[31m.csv"
    file.write_text("timestamp\n1\n2\n")
    result = trace(str(file), width=300)
    assert "\x1b" not in result.stdout
    assert "[red]" in result.stdout


def test_a_terminal_without_block_characters_gets_plain_ones() -> None:
    from numpy.random import default_rng
    from rich.console import Console

    from llm_locust.analysis.trace_figures import trace_figures
    from llm_locust.arrivals.traces import read_trace, replay
    from llm_locust.cli.trace import print_figures

    played = replay(read_trace(CODE), random=default_rng(0))
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    print_figures(trace_figures(played), played, Console(file=out, width=80), found=True)
    out.flush()
    assert "#" in raw.getvalue().decode("ascii")
