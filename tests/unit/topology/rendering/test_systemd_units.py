"""Units of systemd: one unit word by word, the tree of files, and systemd's own parser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import local_cluster.settings
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.main import app
from topology.rendering.systemd import state_directory, systemd_files, topology_file

TOPOLOGY = """\
name: flights
zookeepers:
  - {name: main, port: 2181, hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3], allow_insecure: true}
clusters:
  - name: ewr
    zookeeper: {embedded: main}
    brokers:
      - {id: 1, host: 10.0.0.1, port: 9092, log_dirs: [., /disk1/kafka]}
      - {id: 2, host: 10.0.0.2, port: 9092}
  - name: nyc
    kind: aggregate
    zookeeper: {embedded: main}
    brokers: [{id: 1, host: 10.0.0.3, port: 9092}]
  - name: lga
    external: kafka1:9093
    security:
      {protocol: SASL_SSL, mechanism: PLAIN, username: m, password: {env: LGA}, ca_file: ca.pem}
links:
  - {source: ewr, target: nyc, topics: [".*"]}
  - {source: lga, target: nyc, topics: [".*"]}
"""

BROKER_UNIT = """\
[Unit]
Description=Heliograph flights: broker 1 of ewr
Wants=network-online.target
After=network-online.target
After=heliograph-flights-zookeeper-main.1.service
PartOf=heliograph-flights.target

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=30
ExecStart=/opt/h/bin/python -P -m local_cluster --settings \
/var/lib/heliograph/flights/settings/broker-ewr-1.json
User=heliograph
Group=heliograph
StateDirectory=heliograph/flights heliograph/flights/ready heliograph/flights/data
StateDirectoryMode=0700
WorkingDirectory=/var/lib/heliograph/flights
EnvironmentFile=-/etc/heliograph/flights/environment
Restart=always
RestartSec=1
TimeoutStartSec=infinity
TimeoutStopSec=60
LimitNOFILE=100000
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ReadWritePaths=/disk1/kafka

[Install]
WantedBy=heliograph-flights.target
"""

UNITS = "etc/systemd/system"


def files(python: str = "/opt/h/bin/python") -> dict[str, str]:
    topology = parse_topology(TOPOLOGY)
    state = StateDir(state_directory(topology.name))
    deployment = render(topology, state, topology_file=topology_file(topology.name))
    return systemd_files(deployment, python)


def test_a_unit_of_a_broker_word_by_word() -> None:
    unit = files()[f"10.0.0.1/{UNITS}/heliograph-flights-broker-ewr-1.service"]
    assert unit == BROKER_UNIT


def test_only_processes_that_reload_have_a_reload() -> None:
    reloading = {name for name, text in files().items() if "ExecReload=" in text}
    prefix = f"10.0.0.3/{UNITS}/heliograph-flights"
    assert reloading == {f"{prefix}-mirror-nyc.service", f"{prefix}-aggregator-nyc.service"}
    assert all("ExecReload=/bin/kill -HUP $MAINPID\n" in files()[name] for name in reloading)


def test_each_host_has_its_own_tree() -> None:
    units = {name for name in files() if name.endswith(".service")}
    prefix = f"{UNITS}/heliograph-flights"
    assert units == {
        f"10.0.0.1/{prefix}-zookeeper-main.1.service",
        f"10.0.0.1/{prefix}-broker-ewr-1.service",
        f"10.0.0.2/{prefix}-zookeeper-main.2.service",
        f"10.0.0.2/{prefix}-broker-ewr-2.service",
        f"10.0.0.3/{prefix}-zookeeper-main.3.service",
        f"10.0.0.3/{prefix}-broker-nyc-1.service",
        f"10.0.0.3/{prefix}-mirror-nyc.service",
        f"10.0.0.3/{prefix}-aggregator-nyc.service",
    }


def test_settings_are_read_by_the_daemons_own_parser(tmp_path: Path) -> None:
    text = files()["10.0.0.1/var/lib/heliograph/flights/settings/broker-ewr-1.json"]
    settings = tmp_path / "broker.json"
    settings.write_text(text)
    broker = local_cluster.settings.load_settings(settings)
    assert broker.log_dirs == (
        "/var/lib/heliograph/flights/data/ewr/broker-1",
        "/disk1/kafka/ewr/broker-1",
    )
    assert broker.ready_file == "/var/lib/heliograph/flights/ready/broker-ewr-1.json"


def test_names_of_certificates_start_at_the_configuration_of_the_host() -> None:
    text = files()["10.0.0.3/var/lib/heliograph/flights/settings/mirror-nyc.json"]
    (security,) = (
        each["source_security"]
        for each in json.loads(text)["links"]
        if each["source_alias"] == "lga"
    )
    assert security["ca_file"] == "/etc/heliograph/flights/ca.pem"
    assert security["password"] == {"file": None, "env": "LGA"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemds_own_parser_has_nothing_to_say(tmp_path: Path) -> None:
    written = files(python=sys.executable)
    units = []
    for name, text in written.items():
        if name.startswith(f"10.0.0.3/{UNITS}/"):
            units.append(tmp_path / Path(name).name)
            units[-1].write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    ours = [line for line in done.stderr.splitlines() if "heliograph" in line]
    assert (ours, done.returncode) == ([], 0), done.stderr


def test_the_command_writes_the_files_and_names_the_secrets(tmp_path: Path) -> None:
    file, directory = tmp_path / "t.yaml", tmp_path / "out"
    file.write_text(TOPOLOGY)
    arguments = ["render", "systemd", str(file), "-d", str(directory)]
    done = CliRunner().invoke(app, [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["environment"] == ["LGA"]
    assert sorted(document["files"]) == sorted(
        str(path) for path in directory.rglob("*") if path.is_file()
    )
    unit = directory / f"10.0.0.1/{UNITS}/heliograph-flights-broker-ewr-1.service"
    assert "ExecStart=/opt/heliograph/bin/python -P -m local_cluster" in unit.read_text()
