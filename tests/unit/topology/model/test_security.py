"""Security settings of external clusters, from the file to the daemons, without secrets."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from aggregator.settings import parse_settings
from local_cluster.client.auth.security import ClientSecurity, Secret
from mirror_maker.settings import load_settings
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import decode_deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import load_security, parse_topology
from topology.problems import InvalidTopology

TOPOLOGY = """\
name: secured
clusters:
  - name: far
    external: "far:9093"
    security:
      protocol: SASL_SSL
      mechanism: SCRAM-SHA-512
      username: mirror
      password: {file: secrets/far}
      ca_file: /etc/ca.pem
  - name: near
    external: "near:9093"
    aggregator: {}
    security: {protocol: SSL, check_hostname: false}
links:
  - {source: far, target: near, topics: [t]}
"""


def test_every_daemon_is_told_where_secrets_are(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    file = tmp_path / "conf" / "t.yaml"
    deployment = render(parse_topology(TOPOLOGY), state, topology_file=file)
    far = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username="mirror",
        password=Secret(file=str(tmp_path / "conf" / "secrets" / "far")),
        ca_file="/etc/ca.pem",
    )
    near = ClientSecurity(protocol="SSL", check_hostname=False)
    (mirror_text,) = deployment.daemon("mirror-near").files.values()
    settings = tmp_path / "mirror.json"
    settings.write_text(mirror_text)
    mirror = load_settings(settings)
    assert (mirror.target_security, mirror.links[0].source_security) == (near, far)
    (aggregator_text,) = deployment.daemon("aggregator-near").files.values()
    aggregator = parse_settings(aggregator_text)
    assert (aggregator.security, aggregator.links[0].source_security) == (near, far)
    again = decode_deployment(encode_deployment(deployment))
    assert [each.security for each in again.clusters] == [far, near]


def test_spark_is_told_the_same(tmp_path: Path) -> None:
    topology = parse_topology(TOPOLOGY)
    file = tmp_path / "t.yaml"
    deployment = render(topology, StateDir(tmp_path / "state"), topology_file=file)
    aggregate = aggregate_view(deployment, "near")
    (link,) = aggregate.links
    assert aggregate.security == ClientSecurity(protocol="SSL", check_hostname=False)
    assert (link.bootstrap, link.security) == ("far:9093", deployment.cluster("far").security)


def test_a_file_of_its_own_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "far.yaml"
    _, _, behind = TOPOLOGY.partition("security:\n")
    file.write_text(dedent(behind.partition("  - name")[0]))
    assert load_security(file) == parse_topology(TOPOLOGY).clusters[0].security.client(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "protocol: TLS",
            "1:11: security.protocol: one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ("protocol: SASL_SSL", "1:1: security: SASL_SSL needs `mechanism`, `username` and"),
        ("protocl: SSL", "1:1: security.protocl: unknown key; expected one of ca_file, cert"),
        ("hunter2", "1:1: security: a mapping"),
        ("a: [1", "1:6: security: valid YAML"),
    ],
)
def test_what_such_a_file_cannot_say(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "far.yaml"
    file.write_text(text)
    with pytest.raises(InvalidTopology) as caught:
        load_security(file)
    (line,) = caught.value.lines()
    assert line.startswith(f"{file}:{problem}")
    assert "hunter2" not in line, "a secret is shown"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("      username: mirror\n", ""), "needs `mechanism`, `username` and `password`"),
        (("{file: secrets/far}", "far-secret"), "clusters[0].security.password: a mapping"),
        (("{file: secrets/far}", "271828"), "clusters[0].security.password: a mapping"),
        (("{file: secrets/far}", "{}"), "either in `file` or in `env`"),
        (
            ('external: "near:9093"', "brokers: {count: 1, base_port: 9092}"),
            "PLAINTEXT has, not SSL",
        ),
    ],
)
def test_what_cannot_be_is_refused(change: tuple[str, str], problem: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(TOPOLOGY.replace(*change), file="t.yaml")
    lines = caught.value.lines()
    assert any(problem in line for line in lines), lines
    assert not any("far-secret" in line or "271828" in line for line in lines), "a secret is shown"
