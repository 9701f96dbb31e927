"""The dashboard, the rules and Prometheus' configuration can be read, and every metric that they name is one that exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_locust.telemetry.metrics.mapping import known_engines, known_mapping
from llm_locust.web.exporter.metrics import METRICS, exported_series

DOCKER = Path(__file__).parents[2] / "docker"
DASHBOARD: dict[str, Any] = json.loads((DOCKER / "grafana" / "dashboards" / "llm_locust.json").read_text("utf-8"))
RULES: dict[str, Any] = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text("utf-8"))
CONFIG: dict[str, Any] = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text("utf-8"))

WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}


def metrics_in(query: str) -> set[str]:
    """The metrics that a query names: what is neither text, labels, a duration, a function nor a word of the language."""
    query = re.sub(r'"(?:\\.|[^"\\])*"', "", query)
    query = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", query)
    query = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", query)
    names = re.findall(r"[A-Za-z_:][\w:]*(?!\s*\()\b(?!\s*\()", query)
    return {name for name in names if name not in WORDS}


def labels_in(query: str) -> dict[str, set[str]]:
    """The labels by which a query selects, by metric."""
    found: dict[str, set[str]] = {}
    for name, inner in re.findall(r"([A-Za-z_:][\w:]*)\{([^}]*)\}", query):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", inner)))
    return found


def rules() -> Iterator[dict[str, Any]]:
    for group in RULES["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    """Of the dashboard."""
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    found += [one["expr"] for one in DASHBOARD["annotations"]["list"] if "expr" in one]
    return found


RECORDED = {rule["record"] for rule in rules() if "record" in rule}
OF_ENGINES = {name for engine in known_engines() for name in known_mapping(engine).wanted}
"""Written with an underscore for the colon."""


def unknown(query: str) -> set[str]:
    known = exported_series() | RECORDED
    return {name for name in metrics_in(query) if name not in known and name.replace(":", "_") not in OF_ENGINES}


def test_metrics_are_told_apart_from_the_rest_of_a_query() -> None:
    query = (
        'histogram_quantile(0.95, sum by (le, instance) (rate(vllm:x_bucket{a="b{c", instance=~"$instance"}[1m]))) '
        "/ on () group_left (stage) max(y_total) and on (stage) z == bool 1 offset 5m"
    )
    assert metrics_in(query) - {"m", "5m"} == {"vllm:x_bucket", "y_total", "z"}
    assert labels_in('x{a="b,c=d", e=~"f"} + y{g!="h"}') == {"x": {"a", "e"}, "y": {"g"}}


def test_every_metric_of_the_dashboard_exists() -> None:
    assert {query: names for query in queries() if (names := unknown(query))} == {}


def test_every_metric_of_the_rules_exists() -> None:
    assert {rule["expr"]: names for rule in rules() if (names := unknown(rule["expr"]))} == {}


def test_labels_that_are_selected_by_exist() -> None:
    of = {f"llm_locust_{name}": set(metric.labels) for name, metric in METRICS.items()}
    for query in [*queries(), *(rule["expr"] for rule in rules())]:
        for name, labels in labels_in(query).items():
            if name in of:
                assert labels <= of[name] | {"instance", "job"}, query


def test_client_and_engine_stand_in_one_panel() -> None:
    first_token = next(panel for panel in panels() if panel["title"] == "Time to first token")
    named = {name for target in first_token["targets"] for name in metrics_in(target["expr"])}
    assert named >= {
        "llm_locust_ttft_seconds_bucket",
        "vllm:time_to_first_token_seconds_bucket",
        "sglang:time_to_first_token_seconds_bucket",
        "llm_locust_slo_limit_seconds",
    }


def test_the_dashboard_takes_whichever_prometheus_is_chosen() -> None:
    (variable,) = [one for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource"]
    assert (variable["name"], variable["query"]) == ("datasource", "prometheus")
    uids = set(re.findall(r'"uid": "([^"]*)"', json.dumps(DASHBOARD)))
    assert uids == {"${datasource}", "-- Grafana --", DASHBOARD["uid"]}
    source = yaml.safe_load((DOCKER / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text("utf-8"))
    assert [one["type"] for one in source["datasources"]] == ["prometheus"]


def test_variables_that_queries_use_are_declared() -> None:
    declared = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval", "__all"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([panels(), DASHBOARD["annotations"], DASHBOARD["templating"]])))
    assert used <= declared


def test_panels_have_ids_and_places_of_their_own() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken: dict[tuple[int, int], str] = {}
    for panel in everything:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, (panel["title"], taken.get((x, y)))
                taken[x, y] = panel["title"]
    for panel in panels():
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_every_alert_says_what_to_make_of_it() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert {rule["alert"] for rule in alerts} >= {"LoadGeneratorFallsBehind", "ServerQueueRises", "RequestsFail"}
    for rule in alerts:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_prometheus_reads_the_master_and_the_engine() -> None:
    targets = {
        job["job_name"]: [target for one in job.get("static_configs", []) for target in one["targets"]]
        for job in CONFIG["scrape_configs"]
    }
    assert targets["llm-locust"] == ["master:9646"]
    assert targets["engine"] == ["server:8000"]
    for file in CONFIG["rule_files"]:
        assert (DOCKER / "prometheus" / file).is_file()


def test_grafana_finds_its_dashboards() -> None:
    provided = yaml.safe_load(
        (DOCKER / "grafana" / "provisioning" / "dashboards" / "llm_locust.yml").read_text("utf-8")
    )
    assert [one["options"]["path"] for one in provided["providers"]] == ["/var/lib/grafana/dashboards"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say_against_them() -> None:
    for what, name in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            ["promtool", "check", what, str(DOCKER / "prometheus" / name)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
