"""Security settings of external clusters, from the file to the daemons, without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from aggregator.settings import parse_settings
from local_cluster.client.auth.security import ClientSecurity, KerberosLogin, OauthLogin, Secret
from mirror_maker.settings import load_settings
from spark_global.addresses import decode_security, encode_security
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


TOKENS = """\
name: tokens
clusters:
  - name: far
    external: "far:9093"
    security:
      protocol: SASL_SSL
      mechanism: OAUTHBEARER
      oauth:
        token_url: https://issuer.example/token
        client_id: admin
        client_secret: {file: secrets/admin}
        token_ca_file: issuer.pem
        scope: kafka
        extensions: {logicalCluster: lkc-1}
    principals:
      spark: {oauth: {token_file: spark.jwt}}
  - name: near
    external: "near:9093"
    aggregator: {}
    security: {protocol: SASL_SSL, mechanism: PLAIN, username: u, password: {env: P}}
    principals:
      mirror: {oauth: {token_url: "http://127.0.0.1/token", assertion_file: mirror.jwt}}
      aggregator: {mechanism: SCRAM-SHA-256, username: a, password: {env: A}}
links:
  - {source: far, target: near, topics: [t]}
"""


TICKETS = """\
name: tickets
clusters:
  - name: far
    external: "far:9093"
    security:
      protocol: SASL_SSL
      mechanism: GSSAPI
      kerberos: {principal: admin@EXAMPLE.COM, keytab_file: admin.keytab, service_name: brokers}
    principals:
      spark: {kerberos: {principal: spark, keytab_file: /etc/spark.keytab}}
      aggregator: {mechanism: SCRAM-SHA-256, username: a, password: {env: A}}
  - name: near
    external: "near:9093"
    aggregator: {}
    security: {protocol: SASL_SSL, mechanism: PLAIN, username: u, password: {env: P}}
    principals:
      mirror: {kerberos: {principal: mirror, keytab_file: mirror.keytab}}
links:
  - {source: far, target: near, topics: [t]}
"""


def test_tickets_are_for_every_service(tmp_path: Path) -> None:
    deployment = render(
        parse_topology(TICKETS), StateDir(tmp_path / "state"), topology_file=tmp_path / "t.yaml"
    )
    admin = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="GSSAPI",
        kerberos=KerberosLogin(
            principal="admin@EXAMPLE.COM",
            keytab_file=str(tmp_path / "admin.keytab"),
            service_name="brokers",
        ),
    )
    by_mirror = KerberosLogin(principal="mirror", keytab_file=str(tmp_path / "mirror.keytab"))
    by_spark = KerberosLogin(principal="spark", keytab_file="/etc/spark.keytab")
    (mirror_text,) = deployment.daemon("mirror-near").files.values()
    settings = tmp_path / "mirror.json"
    settings.write_text(mirror_text)
    mirror = load_settings(settings)
    assert mirror.links[0].source_security == admin
    assert mirror.target_security == replace(admin, kerberos=by_mirror)
    again = decode_deployment(encode_deployment(deployment))
    assert again == deployment
    far, near = again.clusters
    assert (far.security, far.spark_security) == (admin, replace(admin, kerberos=by_spark))
    assert decode_security(encode_security(admin)) == admin
    assert far.key_files == ("/etc/spark.keytab", str(tmp_path / "admin.keytab"))
    assert near.key_files == (str(tmp_path / "mirror.keytab"),)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (
            ("mechanism: GSSAPI", "mechanism: PLAIN"),
            "5:5: clusters[0].security: `kerberos` is for `mechanism: GSSAPI`",
        ),
        (
            (", service_name: brokers", ", service_name: a/b"),
            "5:5: clusters[0].security: `service_name` is the part of a principal before the slash",
        ),
        (
            ("principal: spark,", "principle: spark,"),
            "10:26: clusters[0].principals.spark.kerberos.principle: unknown key; expected one of"
            " keytab_file, principal, service_name; did you mean 'principal'?",
        ),
        (
            (
                "spark: {kerberos: {principal: spark, keytab_file: /etc/spark.keytab}}",
                "spark: {kerberos: k}",
            ),
            "10:25: clusters[0].principals.spark.kerberos: a mapping with `principal` and"
            " `keytab_file`",
        ),
    ],
)
def test_tickets_that_cannot_be(changed: tuple[str, str], problem: str) -> None:
    text = TICKETS.replace(*changed)
    assert text != TICKETS
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text)
    assert problem in "\n".join(caught.value.lines())


def test_tokens_are_for_every_service(tmp_path: Path) -> None:
    deployment = render(
        parse_topology(TOKENS), StateDir(tmp_path / "state"), topology_file=tmp_path / "t.yaml"
    )
    admin = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        oauth=OauthLogin(
            token_url="https://issuer.example/token",
            client_id="admin",
            client_secret=Secret(file=str(tmp_path / "secrets" / "admin")),
            token_ca_file=str(tmp_path / "issuer.pem"),
            scope="kafka",
            extensions=(("logicalCluster", "lkc-1"),),
        ),
    )
    by_assertion = OauthLogin(
        token_url="http://127.0.0.1/token", assertion_file=str(tmp_path / "mirror.jwt")
    )
    by_file = OauthLogin(token_file=str(tmp_path / "spark.jwt"))
    (mirror_text,) = deployment.daemon("mirror-near").files.values()
    settings = tmp_path / "mirror.json"
    settings.write_text(mirror_text)
    mirror = load_settings(settings)
    assert mirror.links[0].source_security == admin
    assert mirror.target_security == replace(admin, oauth=by_assertion)
    (aggregator_text,) = deployment.daemon("aggregator-near").files.values()
    aggregator = parse_settings(aggregator_text)
    assert (aggregator.security.mechanism, aggregator.security.oauth) == ("SCRAM-SHA-256", None)
    again = decode_deployment(encode_deployment(deployment))
    assert again == deployment
    far, near = again.clusters
    assert (far.security, far.spark_security) == (admin, replace(admin, oauth=by_file))
    assert {each.file for each in far.secrets} == {
        str(tmp_path / "secrets" / "admin"),
        str(tmp_path / "spark.jwt"),
    }
    assert Secret(file=str(tmp_path / "mirror.jwt")) in near.secrets
    assert decode_security(encode_security(admin)) == admin


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ("client_id: admin", "token_file: t"),
            "8:7: clusters[0].security.oauth: tokens come either from `token_url` or from",
        ),
        (
            ("https://issuer.example/token", "http://issuer.example/token"),
            "8:7: clusters[0].security.oauth: `token_url` must be an https:// address, or http://",
        ),
        (
            ("https://issuer.example/token", "https://me:hunter2@issuer.example/token"),
            "9:20: clusters[0].security.oauth.token_url: an address such as https://issuer",
        ),
        (
            ("mechanism: OAUTHBEARER", "mechanism: PLAIN"),
            "5:5: clusters[0].security: `oauth` is for `mechanism: OAUTHBEARER`",
        ),
        (
            ("{file: secrets/admin}", "hunter2"),
            "11:24: clusters[0].security.oauth.client_secret: a mapping that says where the secret",
        ),
        (
            ("{token_file: spark.jwt}", "hunter2"),
            "16:22: clusters[0].principals.spark.oauth: a mapping with `token_url` or `token_file`",
        ),
        (
            ("scope: kafka", "scop: kafka"),
            "13:9: clusters[0].security.oauth.scop: unknown key; expected one of assertion_file,",
        ),
        (
            ("scope: kafka", "refresh_window_factor: 0.2"),
            "13:32: clusters[0].security.oauth.refresh_window_factor:",
        ),
        (
            ("{token_file: spark.jwt}", "{token_url: 'https://i/t', client_id: a}"),
            "16:15: clusters[0].principals.spark.oauth: `token_url` needs `client_id` and",
        ),
    ],
)
def test_what_is_wrong_with_tokens_is_named(change: tuple[str, str], problem: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(TOKENS.replace(*change), file="t.yaml")
    lines = caught.value.lines()
    assert any(line.startswith(f"t.yaml:{problem}") for line in lines), lines
    assert "hunter2" not in str(lines)


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
        (
            "protocol: SASL_SSL\nmechanism: OAUTHBEARER\noauth: {token_url: 'https://i/t'}",
            "3:1: security.oauth: `token_url` needs `client_id` and `client_secret`, or an",
        ),
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
