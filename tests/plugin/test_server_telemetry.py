"""What a run notes of its server: facts before and after, pages found by trying, a person told in a line each."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from llm_locust.plugin.options import read_options
from llm_locust.plugin.server_telemetry import ServerTelemetry
from llm_locust.records import NS_PER_S, Clock, Manifest, RunFolder, UsageError, WorkloadFacts
from llm_locust.records.server_sample import decode_server_rows
from tests.telemetry.server import Answer, Pages, http, models, serving

KEY = {"Authorization": "Bearer abcd-1234"}
VLLM: dict[str, Answer] = {
    "/v1/models": models("m", owner="vllm"),
    "/version": http(200, {"version": "0.32.0"}),
    "/metrics": http(200, b'vllm:num_requests_waiting{engine="0"} 4\n'),
}


def manifest() -> Manifest:
    workload = WorkloadFacts(name="w", kind="synthetic", source="s", sha256="0" * 64)
    found = Manifest(run_id="r", state="running", started_at="", host="h", seed=1, deadline_s=1, workload=workload)
    found.versions = {"engine": "vLLM", "engine_version": "0.32.0"}
    return found


def telemetry(url: str, **given: Any) -> ServerTelemetry:
    return ServerTelemetry(url, KEY, read_options(Namespace(**given)), "m", Clock())


def run_through(found: ServerTelemetry, noted: Manifest, folder: Path) -> list[Any]:
    found.ask(noted)
    found.start(RunFolder(folder), pytest.fail)
    found.between_stages()
    found.finish(noted, folder / "manifest.json")
    assert Manifest.load(folder / "manifest.json") == noted
    path = RunFolder(folder).server_csv
    return decode_server_rows(path.read_text(), "server.csv") if path.exists() else []


def test_facts_and_rows_around_every_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noted = manifest()
    with serving(VLLM) as server:
        rows = run_through(telemetry(server.url), noted, tmp_path)
        assert all("Authorization: Bearer abcd-1234" in head for head in server.heads)
    assert [row.waiting for row in rows] == [4, 4, 4]  # before the first stage, after it, after the last
    assert noted.metrics_targets == [f"{server.url}/metrics"]
    assert noted.metrics_interval_s == 1.0
    assert noted.server_facts_start == noted.server_facts_end
    assert noted.facts == {"engine": "vLLM", "engine_version": "0.32.0"}
    assert capsys.readouterr().err == f"server metrics: vLLM at {server.url}/metrics, read every 1 s\n"


def test_a_server_without_metrics_is_told_in_one_line_and_asked_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = manifest()
    with serving({"/v1/models": models("m", owner="vllm")}) as server:
        assert run_through(telemetry(server.url), noted, tmp_path) == []
        asked = server.asked.count("/metrics")
    assert capsys.readouterr().err.splitlines() == [
        f"no server metrics: {server.url}/metrics: HTTP 404: Not Found; "
        "--metrics names another page, --metrics-map another engine"
    ]
    assert asked == 3  # once for rows, and for facts before and after
    assert (noted.metrics_targets, noted.metrics_interval_s) == ([], None)
    assert not RunFolder(tmp_path).raw_metrics_dir.exists()


def test_the_model_of_ollama_before_and_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_NUM_PARALLEL", "2")
    card = {"name": "m:latest", "size": 4_000, "size_vram": 1_000, "digest": "a0", "context_length": 2048}
    pages: dict[str, Answer] = {
        "/v1/models": models("m:latest", owner="library"),
        "/api/version": http(200, {"version": "0.12.6"}),
        "/api/ps": http(200, {"models": [card]}),
    }
    noted = manifest()
    noted.versions = {"engine": "Ollama", "engine_version": "0.12.6"}
    with serving(pages) as server:
        found = telemetry(server.url)
        found.ask(noted)
        found.start(RunFolder(tmp_path), pytest.fail)
        pages["/api/ps"] = http(200, {"models": []})
        found.finish(noted, tmp_path / "manifest.json")
    held = {"name": "m:latest", "digest": "a0", "size": 4_000, "size_vram": 1_000, "context_length": 2048}
    assert noted.ollama == {
        "start": {**held, "residency": 0.25},
        "end": None,
        "as_given": {"OLLAMA_NUM_PARALLEL": "2"},
    }
    assert noted.server_facts_start["context_limit_tokens"] == 2048
    assert "context_limit_tokens" not in noted.server_facts_end
    rows = decode_server_rows(RunFolder(tmp_path).server_csv.read_text(), "server.csv")
    assert [(row.target, row.engine, row.residency) for row in rows] == [
        (f"{server.url}/api/ps", "ollama", 0.25),
        (f"{server.url}/api/ps", "ollama", None),
    ]
    assert capsys.readouterr().err == f"no server metrics: Ollama has none; {server.url}/api/ps is read every 1 s\n"


def test_what_a_person_wrote_and_the_server_denies_is_refused_before_load(tmp_path: Path) -> None:
    card = {"id": "m", "owned_by": "vllm", "max_model_len": 4096}
    facts = tmp_path / "facts.toml"
    facts.write_text("context_limit_tokens = 8192\n")
    with (
        serving(VLLM | {"/v1/models": http(200, {"data": [card]})}) as server,
        pytest.raises(UsageError, match=r"facts\.toml, line 1: context_limit_tokens is 8192, but the server said 4096"),
    ):
        telemetry(server.url, facts=str(facts)).ask(manifest())


def test_another_origin_gets_no_key_and_is_asked_on_though_it_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = manifest()
    other = Pages({"/metrics": http(200, b"llamacpp:requests_deferred 5\n")})
    gone = Pages({})
    gone.stop()
    with serving(VLLM) as server:
        rows = run_through(telemetry(server.url, metrics=["host", other.url, gone.url]), noted, tmp_path)
    other.stop()
    assert all("Authorization" not in head for head in other.heads)
    assert len(noted.metrics_targets) == 3
    assert {(row.engine, row.waiting) for row in rows} == {("vllm", 4), ("llamacpp", 5), (None, None)}
    warning = capsys.readouterr().err.splitlines()[-1]
    assert warning.startswith(f"WARNING: --metrics {gone.url}/metrics: no connection")


def test_a_mapping_of_ones_own_goes_before_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapping = tmp_path / "mine.toml"
    mapping.write_text(
        'engine = "mine"\ntitle = "Mine"\nprefix = ["vllm:"]\n[gauges]\nrunning = "vllm:num_requests_waiting"\n'
    )
    with serving(VLLM) as server:
        rows = run_through(telemetry(server.url, metrics_map=str(mapping)), manifest(), tmp_path)
        assert {(row.engine, row.running, row.waiting) for row in rows} == {("mine", 4, None)}
        assert "server metrics: Mine at" in capsys.readouterr().err
        mapping.write_text(mapping.read_text().replace('prefix = ["vllm:"]', 'prefix = ["mine:"]'))
        telemetry(server.url, metrics_map=str(mapping)).ask(manifest())
    assert "WARNING: --metrics-map" in capsys.readouterr().err


def test_a_run_that_was_never_begun_is_abandoned_without_a_word(tmp_path: Path) -> None:
    with serving(VLLM) as server:
        found = telemetry(server.url)
        found.abandon()
        found.ask(manifest())
        found.start(RunFolder(tmp_path), pytest.fail)
        asked = len(server.asked)
        found.abandon()
        found.abandon()
        assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"metrics": ["off", "host"]}, "--metrics off reads no page at all"),
        ({"metrics": ["9400"]}, "--metrics '9400': write an address with http://, host or off"),
        ({"metrics_interval": "0.01"}, "--metrics-interval 0.01: at least 0.1 s"),
        ({"metrics_map": "missing.toml"}, "mapping file missing.toml: No such file"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_asked(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_options(Namespace(**given))


def test_a_short_stage_is_read_more_often_unless_told_otherwise() -> None:
    assert read_options(Namespace()).metrics_interval_s == 1.0
    assert read_options(Namespace(stage_time="4")).metrics_interval_s == 0.2
    assert read_options(Namespace(stage_time="1")).metrics_interval_s == 0.1
    assert read_options(Namespace(stage_time="4", metrics_interval="2")).metrics_interval_s == 2.0


def test_the_clock_of_a_sampler_is_measured_by_its_pages_and_noted(tmp_path: Path) -> None:
    clock, ahead_ns = Clock(), 7200 * NS_PER_S

    def page() -> bytes:
        seconds = (clock.now_ns() + ahead_ns) / NS_PER_S
        return http(
            200,
            f'llm_locust_telemetry_info{{session="s1",run_id=""}} 1.0\nllm_locust_telemetry_clock_seconds {seconds!r}\n'
            'llm_locust_process_resident_memory_bytes{pid="7"} 4096.0\n'.encode(),
        )

    noted = manifest()
    with serving(VLLM) as server, serving({"/metrics": page}) as sampler:
        options = read_options(Namespace(metrics=["host", f"{sampler.url}/metrics"]))
        run_through(ServerTelemetry(server.url, KEY, options, "m", clock), noted, tmp_path)
    assert set(noted.telemetry_clocks) == {"s1"}
    seen = noted.telemetry_clocks["s1"]
    # Pages hold floating point numbers: half a microsecond at this date, and rounding the midpoint another nanosecond.
    assert abs(seen.offset_ns - ahead_ns) <= seen.uncertainty_ns + 1_000
    assert 0 < seen.uncertainty_ns < NS_PER_S
