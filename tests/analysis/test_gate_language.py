"""Gates as they are written: what is allowed, and what is said of what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.records.gates import GATE_FIGURES, GateSpec, format_gate, parse_gate, parse_gates


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("ttft_p95<=1000", GateSpec(name="ttft_p95", relation="<=", limit=1000.0)),
        ("attainment>=0.99", GateSpec(name="attainment", relation=">=", limit=0.99)),
        ("queue_p95<=300", GateSpec(name="queue_p95", relation="<=", limit=300.0)),
        ("cap_wait_p95<=200", GateSpec(name="cap_wait_p95", relation="<=", limit=200.0)),
        ("http_503=0", GateSpec(name="http_503", relation="=", limit=0.0)),
        ("waiting_trend=flat", GateSpec(name="waiting_trend", relation="=", limit="flat")),
        ("oom=0", GateSpec(name="oom", relation="=", limit=0.0)),
        ("faq:ttft_p95<=800", GateSpec(slice="faq", name="ttft_p95", relation="<=", limit=800.0)),
        (" a: b : e2e_p99_all <= 0.1 ", GateSpec(slice="a: b", name="e2e_p99_all", relation="<=", limit=0.1)),
        ("*:error_rate<=0", GateSpec(slice="*", name="error_rate", relation="<=", limit=0.0)),
        ("timeout<=3", GateSpec(name="timeout", relation="<=", limit=3.0)),
        ("goodput>=1.5", GateSpec(name="goodput", relation=">=", limit=1.5)),
        ("kv_cache_peak_pct<=95", GateSpec(name="kv_cache_peak_pct", relation="<=", limit=95.0)),
        ("preemptions=0", GateSpec(name="preemptions", relation="=", limit=0.0)),
        ("waiting_peak<=12", GateSpec(name="waiting_peak", relation="<=", limit=12.0)),
        ("oom==0", GateSpec(name="oom", relation="=", limit=0.0)),
    ],
)
def test_a_gate_is_read_and_written(text: str, gate: GateSpec) -> None:
    assert parse_gate(text) == gate
    assert parse_gate(format_gate(gate)) == gate


@pytest.mark.parametrize("figure", GATE_FIGURES)
def test_every_figure_can_be_gated_by_its_name(figure: str) -> None:
    relation = GATE_FIGURES[figure].relations[0]
    limit = "flat" if GATE_FIGURES[figure].kind == "trend" else "1"
    assert parse_gate(f"{figure}{relation}{limit}").name == figure


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft_p96<=1000", "did you mean ttft_p99 or ttft_p95"),
        ("atainment>=0.9", "did you mean attainment"),
        ("xyzzy=0", r"there are attainment, .* http_NNN, every outcome .*ttft_p95"),
        ("http_799=0", "no figure is called 'http_799'"),
        ("ttft_p95", "write .*FIGURE<=LIMIT"),
        ("", "write .*FIGURE<=LIMIT"),
        ("attainment<=0.5", "attainment is not held by <=; write >=, for example attainment>=0.5"),
        ("attainment>=99", r"a share from 0 to 1 \(0.99 for 99 %\)"),
        ("ttft_p95<=1s", "a number of milliseconds, without a unit"),
        ("ttft_p95<=-1", "a number of milliseconds, without a unit"),
        ("ttft_p95<=inf", "a number of milliseconds, without a unit"),
        ("oom=0.5", "a whole number of requests"),
        ("waiting_trend=rising", "only be held to flat"),
        ("faq:waiting_trend=flat", "a figure of the whole server"),
        ("faq:queue_p95<=3", "a figure of the whole server"),
        ("faq:preemptions=0", "a figure of the whole server"),
        ("*:kv_cache_peak_pct<=95", "a figure of the whole server"),
        ("kv_cache_peak_pct<=101", "a number from 0 to 100"),
        ("waiting_peak<=0.5", "the limit must be a whole number$"),
        ("kv_cache_peak<=95", "did you mean kv_cache_peak_pct"),
    ],
)
def test_what_is_wrong_with_a_gate_is_said_with_what_is_right(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_gate(text)


def test_several_gates_may_stand_in_one_text() -> None:
    assert [format_gate(gate) for gate in parse_gates(["ttft_p95<=1000, oom=0\nhttp_503=0", "attainment>=0.9"])] == [
        "ttft_p95<=1000",
        "oom=0",
        "http_503=0",
        "attainment>=0.9",
    ]


def test_two_limits_for_one_figure_are_refused_and_the_same_gate_twice_is_one() -> None:
    assert len(parse_gates(["oom=0", "oom=0", "faq:oom=0"])) == 2
    with pytest.raises(UsageError, match="two gates for one figure: ttft_p95<=1000 and ttft_p95<=900"):
        parse_gates(["ttft_p95<=1000", "ttft_p95<=900"])


def test_gates_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_text('gates = ["ttft_p95<=1000", "oom=0"]\n\n[slices."long, documents"]\ngates = ["ttft_p95<=4000"]\n')
    assert parse_gates([str(path)]) == [
        GateSpec(name="ttft_p95", relation="<=", limit=1000.0),
        GateSpec(name="oom", relation="=", limit=0.0),
        GateSpec(slice="long, documents", name="ttft_p95", relation="<=", limit=4000.0),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("gates = [", "gates.toml"),
        ("gates = 'oom=0'", "gates must be a list of texts"),
        ("gate = ['oom=0']", "unknown gate; it holds"),
        ("slices = ['faq']", "write a table per slice"),
        ("", "holds no gate"),
        ("[slices.faq]\ngates = ['tfft_p95<=1']", "slices.faq.gates: gate .* did you mean ttft_p95"),
    ],
)
def test_what_is_wrong_with_a_gate_file_is_said(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "gates.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        parse_gates([str(path)])


def test_a_gate_file_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"gate file nowhere\.toml: there is no such file"):
        parse_gates(["nowhere.toml"])
