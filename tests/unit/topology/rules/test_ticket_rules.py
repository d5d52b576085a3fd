"""Rules on Kerberos: services without GSSAPI, and one principal per host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.operate.preflight import login_notes
from topology.problems import InvalidTopology

TICKETS = """\
name: tickets
clusters:
  - &secured
    name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_PLAINTEXT
        sasl:
          mechanisms: [GSSAPI, SCRAM-SHA-512]
          kerberos: {keytab_file: kafka.keytab, principal: kafka/_HOST@EXAMPLE.COM}
    inter_broker_security:
      protocol: SASL_PLAINTEXT
      mechanism: GSSAPI
      kerberos: {principal: kafka/_HOST@EXAMPLE.COM, keytab_file: kafka.keytab}
    broker_principals: ["User:kafka"]
    security:
      protocol: SASL_PLAINTEXT
      mechanism: GSSAPI
      kerberos: {principal: admin@EXAMPLE.COM, keytab_file: admin.keytab}
    principals:
      mirror: {kerberos: {principal: mirror/_HOST@EXAMPLE.COM, keytab_file: mirror.keytab}}
      aggregator: {mechanism: SCRAM-SHA-512, username: a, password: {env: A}}
    brokers: [{id: 1, host: Broker-1.example, port: 9092}]
  - <<: *secured
    name: nyc
    kind: aggregate
    brokers: [{id: 1, host: broker-2.example, port: 9092}]
    mirror: {hosts: [worker-1.example, worker-2.example]}
links:
  - {source: jfk, target: nyc, topics: [t]}
"""
AGGREGATOR = "      aggregator: {mechanism: SCRAM-SHA-512, username: a, password: {env: A}}\n"
TICKET = "{kerberos: {principal: aggregator@EXAMPLE.COM, keytab_file: a.keytab}}"


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    return caught.value.lines()


def test_each_host_has_its_principal(tmp_path: Path) -> None:
    deployment = render(
        parse_topology(TICKETS), StateDir(tmp_path / "state"), topology_file=tmp_path / "t.yaml"
    )

    def settings(key: str) -> dict[str, object]:
        (text,) = deployment.daemon(key).files.values()
        found: dict[str, object] = json.loads(text)
        return found

    broker = json.dumps(settings("broker-jfk-1"))
    assert broker.count('"principal": "kafka/broker-1.example@EXAMPLE.COM"') == 2
    for host in ("worker-1.example", "worker-2.example"):
        mirror = json.dumps(settings(f"mirror-nyc.{host}"))
        assert mirror.count(f'"principal": "mirror/{host}@EXAMPLE.COM"') == 2, "on both sides"
    rendered = [text for each in deployment.daemons for text in each.files.values()]
    assert not [text for text in rendered if "_HOST" in text]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "principal: admin@",
            "principal: admin/_HOST@",
            "19:29: clusters[0].security.kerberos.principal: a principal without _HOST, as commands"
            " may run on any host",
        ),
        (
            AGGREGATOR,
            AGGREGATOR
            + "      spark: {kerberos: {principal: spark/_HOST, keytab_file: spark.keytab}}\n",
            "23:37: clusters[0].principals.spark.kerberos.principal: a principal without _HOST, as"
            " Spark may run on any host",
        ),
        (
            "host: Broker-1.example",
            "host: 10.0.0.1",
            "10:60: clusters[0].listeners[0].sasl.kerberos.principal: host names in place of"
            " 10.0.0.1, which _HOST stands for",
        ),
        (
            "host: Broker-1.example",
            "host: 10.0.0.1",
            "14:29: clusters[0].inter_broker_security.kerberos.principal: host names in place of"
            " 10.0.0.1, which _HOST stands for",
        ),
        (
            "worker-1.example, worker-2.example",
            "10.0.0.8, worker-2.example",
            "21:38: clusters[0].principals.mirror.kerberos.principal: host names in place of"
            " 10.0.0.8, which _HOST stands for",
        ),
        (
            "{mechanism: SCRAM-SHA-512, username: a, password: {env: A}}",
            TICKET,
            "22:7: clusters[0].principals.aggregator: another mechanism in `principals.aggregator`,"
            " or `probe: false` in jfk-nyc: aiokafka, by which the aggregator probes jfk-nyc,"
            " cannot log in by GSSAPI",
        ),
        (
            AGGREGATOR,
            "",
            "16:5: clusters[0].security: another mechanism in `principals.aggregator`, or"
            " `probe: false` in jfk-nyc: aiokafka, by which the aggregator probes jfk-nyc, cannot"
            " log in by GSSAPI",
        ),
    ],
)
def test_a_problem_has_its_line(old: str, new: str, expected: str) -> None:
    assert f"t.yaml:{expected}" in problems(TICKETS.replace(old, new))


def test_a_listener_with_gssapi_alone_is_named() -> None:
    text = TICKETS.replace(AGGREGATOR, "").replace("[GSSAPI, SCRAM-SHA-512]", "[GSSAPI]")
    end = "cannot log in by GSSAPI; listener SECURE has no other mechanism yet"
    assert [each.endswith(end) for each in problems(text)] == [True, True], "on both sides"


def test_what_is_not_probed_may_use_tickets() -> None:
    text = TICKETS.replace(AGGREGATOR, "").replace("topics: [t]}", "topics: [t], probe: false}")
    assert parse_topology(text).name == "tickets"


def test_a_mark_within_a_name_is_no_host() -> None:
    text = TICKETS.replace("principal: admin@", "principal: admin_HOST/x@")
    assert parse_topology(text).name == "tickets"


def test_plan_says_what_commands_cannot_do(tmp_path: Path) -> None:
    deployment = render(
        parse_topology(TICKETS), StateDir(tmp_path / "state"), topology_file=tmp_path / "t.yaml"
    )
    of_jfk, of_nyc, served = login_notes(deployment)
    assert of_jfk.startswith("jfk: `heliograph produce` and `consume` (aiokafka) cannot")
    assert of_nyc.startswith("nyc: `heliograph produce`")
    assert served.startswith("nyc: `heliograph spark serve` (librdkafka) cannot log in by GSSAPI")
