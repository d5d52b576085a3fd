"""Dashboards, alerts and targets: what Grafana and Prometheus are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support import promql
from topology.dashboards.alerts import ALERTS
from topology.dashboards.boards import BOARDS
from topology.dashboards.files import DOCUMENTS, monitoring_files, write_files
from topology.dashboards.panels import Board, board_json
from topology.dashboards.targets import Process, processes_elsewhere
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

STATUS: dict[str, Any] = {
    "supervisor": {"pid": 7, "url": "http://10.0.0.1:9990"},
    "name": "d",
    "clusters": [
        {
            "name": "ewr",
            "datacenter": "Newark",
            "brokers": [
                {"id": 1, "url": "http://127.0.0.1:9404"},
                {"id": 2, "url": None},
            ],
        },
        {"name": "theirs", "datacenter": "theirs", "brokers": None},
    ],
    "mirrors": [{"cluster": "ewr", "url": "http://[::1]:8083"}],
    "aggregators": [{"cluster": "ewr", "url": "http://127.0.0.1:8080"}],
}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_a_board_is_what_grafana_imports(board: Board) -> None:
    document = json.loads(json.dumps(board_json(board)))
    places: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        at = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not covered & places, f"{panel['title']} covers another panel"
        assert at["x"] + at["w"] <= 24
        places |= covered
        assert panel["description"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${DS_PROMETHEUS}"
            assert promql.parse(target["expr"]).selectors
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    names = {each["name"] for each in document["templating"]["list"]}
    assert names == {"DS_PROMETHEUS", *(each.name for each in board.variables)}


def test_each_variable_is_used_and_each_used_one_exists() -> None:
    for board in BOARDS:
        exprs = " ".join(query.expr for panel in board.panels for query in panel.queries)
        for variable in board.variables:
            assert f"${variable.name}" in exprs, f"{board.uid}: {variable.name} is not used"


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    assert {each.runbook for each in ALERTS} == {
        path.name for path in DOCUMENTS.glob("*.md") if path.name != "README.md"
    }
    for each in ALERTS:
        text = (DOCUMENTS / each.runbook).read_text()
        assert text.startswith(f"# Heliograph{each.name}\n")
        assert promql.parse(each.expr).selectors


def test_targets_carry_our_labels_and_those_that_strimzi_chooses_by() -> None:
    files = monitoring_files(STATUS, "https://docs.example/runbooks/", {})
    broker, supervisor, mirror, aggregator = json.loads(files["heliograph-targets.json"])
    assert broker == {
        "targets": ["127.0.0.1:9404"],
        "labels": {
            "deployment": "d",
            "role": "broker",
            "cluster": "ewr",
            "datacenter": "Newark",
            "broker": "1",
            "namespace": "d",
            "strimzi_io_cluster": "ewr",
            "kubernetes_pod_name": "ewr-kafka-1",
            "container": "kafka",
        },
    }
    assert supervisor == {
        "targets": ["10.0.0.1:9990"],
        "labels": {"deployment": "d", "role": "supervisor"},
    }
    assert mirror["targets"] == ["[::1]:8083"]
    chosen_by = {
        "namespace": "d",
        "strimzi_io_kind": "KafkaMirrorMaker2",
        "strimzi_io_cluster": "ewr",
        "kubernetes_pod_name": "ewr-mirrormaker2-0",
    }
    assert chosen_by.items() <= mirror["labels"].items()
    assert (mirror["labels"]["role"], aggregator["labels"]["role"]) == ("mirror", "aggregator")


def test_rules_link_to_their_runbooks(tmp_path: Path) -> None:
    write_files(tmp_path / "new", monitoring_files(STATUS, "https://docs.example/runbooks/", {}))
    yaml = YAML(typ="safe", pure=True)
    (group,) = yaml.load(tmp_path / "new" / "heliograph-rules.yml")["groups"]
    rule = next(each for each in group["rules"] if each["alert"] == "HeliographUnderMinIsr")
    assert rule["annotations"]["runbook_url"] == "https://docs.example/runbooks/under-min-isr.md"
    assert rule["labels"] == {"severity": "critical"}
    prometheus = yaml.load(tmp_path / "new" / "prometheus.yml")
    assert prometheus["rule_files"] == ["heliograph-rules.yml"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        [
            *(f"{board.uid}.json" for board in BOARDS),
            "heliograph-rules.yml",
            "heliograph-targets.json",
            "prometheus.yml",
        ]
    )


SERIES = {"m_total": [{"cluster": "ewr", "topic": "t"}], "up": [{"role": "broker"}]}


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ('sum by (topic) (rate(m_total{cluster=~"$cluster"}[5m]))', []),
        ('1 - m_total{topic!="u"} > 0.5', []),
        ("sum(n_total)", ["there is no metric n_total"]),
        (
            'm_total{region="x"}',
            [
                "m_total has no label region",
                "no sample of m_total matches (('region', '=', 'x'),)",
            ],
        ),
        ("sum by (broker) (m_total)", ["m_total has no label broker to group by"]),
        ('m_total{topic=~"u.*"}', ["no sample of m_total matches (('topic', '=~', 'u.*'),)"]),
    ],
)
def test_an_expression_without_data_is_found(expr: str, expected: list[str]) -> None:
    assert promql.problems(expr, SERIES, {"cluster": ".*"}) == expected


TEN = """\
name: d
http_security: {token: {file: t}, allow_insecure: true}
supervisors: {port: 9990}
zookeepers: [{name: z, host: 10.0.0.1, port: 2181, allow_insecure: true}]
clusters:
  - name: ewr
    datacenter: Newark
    zookeeper: {embedded: z}
    http: {host: 0.0.0.0, base_port: 9404}
    mirror: {hosts: [10.0.0.1, 10.0.0.2], host: 0.0.0.0, port: 8083}
    brokers: [{id: 1, host: 10.0.0.1, port: 9092}, {id: 2, host: 10.0.0.2, port: 9092}]
  - name: jfk
    zookeeper: {embedded: z}
    brokers: [{id: 7, host: 10.0.0.3, port: 9092}]
links: [{source: jfk, target: ewr, topics: [t]}]
"""


def test_processes_of_other_hosts_with_fixed_addresses_are_targets(tmp_path: Path) -> None:
    topology = parse_topology(TEN)
    whole = render(topology, StateDir(tmp_path), topology_file=tmp_path / "t.yaml")
    here = part_here(whole, None, lambda host: host == "10.0.0.1")
    found = list(processes_elsewhere(here))
    assert found == [
        Process("http://10.0.0.2:9405", "broker", "ewr", 2),
        Process("http://10.0.0.2:8083", "mirror", "ewr"),
        Process("http://10.0.0.2:9990", "supervisor"),
        Process("http://10.0.0.3:9990", "supervisor"),
    ]
    files = monitoring_files(STATUS, "r", {}, found)
    *_, broker, mirror, _, _ = json.loads(files["heliograph-targets.json"])
    assert (broker["labels"]["kubernetes_pod_name"], broker["labels"]["broker"]) == (
        "ewr-kafka-2",
        "2",
    )
    assert mirror["labels"]["kubernetes_pod_name"] == "ewr-mirrormaker2-1"
