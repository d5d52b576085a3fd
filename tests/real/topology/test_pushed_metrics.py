"""Brokers, mirror workers and aggregators push metrics if the environment of `up` asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually
from topology.deployment.state_dir import StateDir

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: pushed
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - {{name: jfk, brokers: [{{id: 1, port: {1}}}]}}
  - name: nyc
    kind: aggregate
    config: {{group.initial.rebalance.delay.ms: 0}}
    brokers: [{{id: 1, port: {2}}}]
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
"""
PUSHED = {
    "broker-jfk-1": ("heliograph-broker", "kafka_server_replicamanager_partitioncount"),
    "mirror-nyc": ("heliograph-mirror", "heliograph_mirror_link_state"),
    "aggregator-nyc": ("heliograph-aggregator", "heliograph_probe_received_records_total"),
}
"""Key of a process -> its service, and a metric that it pushes."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeliographCommand]:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "console")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
    command = HeliographCommand(tmp_path)
    command.file.write_text(TOPOLOGY.format(*quiet_ports(3)))
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


def pushes(log: Path) -> Iterator[Any]:
    """What the console's exporter wrote between the lines of a log."""
    decoder, text = json.JSONDecoder(), log.read_text()
    at = text.find('{\n    "resource_metrics"')
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except ValueError:
            return  # it is being written
        yield found
        at = text.find('{\n    "resource_metrics"', end)


def pushed(log: Path, service: str) -> dict[str, list[dict[str, str]]]:
    """The labels of each point of a metric, by its name."""
    found: dict[str, list[dict[str, str]]] = {}
    for push in pushes(log):
        (of_resource,) = push["resource_metrics"]
        assert of_resource["resource"]["attributes"]["service.name"] == service
        for each in (metric for of in of_resource["scope_metrics"] for metric in of["metrics"]):
            found[each["name"]] = [point["attributes"] for point in each["data"]["data_points"]]
    return found


async def test_every_process_of_ours_pushes_its_metrics(command: HeliographCommand) -> None:
    command.up()
    state = StateDir(command.state_dir)

    async def all_are_pushed() -> bool:
        return all(
            pushed(state.log_file(key), service).get(metric)
            for key, (service, metric) in PUSHED.items()
        )

    await eventually(all_are_pushed)
    for key, (service, _) in PUSHED.items():
        points = [each for found in pushed(state.log_file(key), service).values() for each in found]
        labels = {name for each in points for name in each}
        assert labels.isdisjoint({"topic", "partition", "group"}), key
