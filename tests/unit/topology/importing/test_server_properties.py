"""A broker's server.properties."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from topology.file.load import parse_topology
from topology.importing.server_properties import read_server_properties
from topology.importing.topology_text import topology_text
from topology.main import app

PLAIN = """\
broker.id=3
listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://kafka1.example:9092
num.network.threads=8
log.dirs=/disk1,/disk2
num.partitions=6
log.retention.hours=72
zookeeper.connect=zk1:2181,zk2:2181/kafka
zookeeper.connection.timeout.ms=18000
broker.rack=r1
my.own.plugin=x
"""

SECURED = """\
process.roles=broker
node.id=1
controller.listener.names=CONTROLLER
listeners=CLIENT://0.0.0.0:9092,INTERNAL://10.0.0.1:9192,CONTROLLER://:9093
advertised.listeners=CLIENT://kafka1:9092
listener.security.protocol.map=CLIENT:SASL_SSL,INTERNAL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
ssl.keystore.location=/etc/kafka/broker.p12
ssl.keystore.type=PKCS12
ssl.keystore.password=store-pw
ssl.truststore.location=/etc/kafka/ca.pem
ssl.truststore.type=PEM
listener.name.internal.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN
listener.name.client.plain.sasl.jaas.config=a.b.plain.PlainLoginModule required \\
  user_alice="alice-pw" user_bob="bob-pw";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:alice
"""


def test_a_broker_becomes_a_cluster_of_its_own() -> None:
    reading = read_server_properties(PLAIN, "ewr")
    assert reading.topology is not None, reading.remarks
    (cluster,) = reading.topology.clusters
    (broker,) = cluster.broker_list
    assert (broker.id, broker.host, broker.rack) == (3, "kafka1.example", "r1")
    assert broker.ports == {"PLAINTEXT": 9092}
    assert broker.log_dirs == ("/disk1", "/disk2")
    assert cluster.listeners[0].bind == "0.0.0.0"
    assert cluster.config == {"num.partitions": "6", "log.retention.hours": "72"}
    assert cluster.zookeeper == "zk1:2181,zk2:2181/heliograph-ewr", "it never joins Kafka's cluster"


def test_every_key_that_does_not_carry_over_has_its_line() -> None:
    remarks = [(each.line, each.key) for each in read_server_properties(PLAIN).remarks]
    assert remarks == [
        (4, "num.network.threads"),
        (5, "log.dirs"),
        (8, "zookeeper.connect"),
        (9, "zookeeper.connection.timeout.ms"),
        (11, "my.own.plugin"),
    ]


def test_security_of_listeners_and_secrets() -> None:
    reading = read_server_properties(SECURED)
    assert reading.topology is not None, reading.remarks
    (cluster,) = reading.topology.clusters
    client, internal = cluster.listeners
    assert (client.security_protocol, internal.security_protocol) == ("SASL_SSL", "SSL")
    assert (client.inter_broker, internal.inter_broker) == (False, True)
    assert client.tls is not None and internal.tls is not None
    assert (client.tls.client_auth, internal.tls.client_auth) == ("none", "required")
    assert client.sasl is not None
    assert set(client.sasl.users) == {"alice", "bob"}
    assert sorted(reading.secrets.values()) == ["alice-pw", "bob-pw", "store-pw"]
    assert (cluster.security.username, cluster.security.protocol) == ("alice", "SASL_SSL")
    assert cluster.inter_broker_security.protocol == "SSL"
    assert cluster.authorizer is not None
    assert cluster.authorizer.super_users == ["User:admin", "User:alice"]
    text = topology_text(reading.topology, reading.remarks, "server.properties")
    assert not any(secret in text for secret in reading.secrets.values())
    assert parse_topology(text) == reading.topology


TICKETS = """\
node.id=1
listeners=CLIENT://kafka1:9092
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT
inter.broker.listener.name=CLIENT
sasl.enabled.mechanisms=GSSAPI
sasl.mechanism.inter.broker.protocol=GSSAPI
sasl.kerberos.service.name=kafka
sasl.kerberos.principal.to.local.rules=RULE:[1:$1@$0](.*@OTHER)s/@.*/-other/,DEFAULT
listener.name.client.gssapi.sasl.jaas.config=a.b.Krb5LoginModule required \\
  useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/kafka1@EXAMPLE";
"""


def test_tickets_of_listeners_and_brokers() -> None:
    reading = read_server_properties(TICKETS)
    assert reading.topology is not None, reading.remarks
    (cluster,) = reading.topology.clusters
    (listener,) = cluster.listeners
    assert listener.sasl is not None
    assert listener.sasl.mechanisms == ["GSSAPI"]
    assert listener.sasl.kerberos is not None
    assert listener.sasl.kerberos.keytab_file == "/etc/kafka.keytab"
    assert listener.sasl.kerberos.principal_to_local_rules == [
        "RULE:[1:$1@$0](.*@OTHER)s/@.*/-other/",
        "DEFAULT",
    ]
    assert cluster.broker_principals == ["User:kafka"]
    for security in (cluster.security, cluster.inter_broker_security):
        assert security.kerberos is not None
        assert security.kerberos.principal == "kafka/kafka1@EXAMPLE"
        assert security.kerberos.keytab_file == "/etc/kafka.keytab"
    assert not [each for each in reading.remarks if each.key.startswith("sasl")]
    text = topology_text(reading.topology, reading.remarks, "server.properties")
    assert parse_topology(text) == reading.topology


def test_tickets_by_a_file_of_java_are_refused() -> None:
    jaas = "listener.name.client.gssapi.sasl.jaas.config"
    text = TICKETS.replace("keyTab=", "ticketCache=")
    assert [key for _, key in refused(text)] == [jaas]
    rules = TICKETS.replace(",DEFAULT", "")
    assert [key for _, key in refused(rules)] == ["sasl.kerberos.principal.to.local.rules"]


def refused(text: str) -> list[tuple[int, str]]:
    reading = read_server_properties(text)
    assert reading.topology is None
    return [(each.line, each.key) for each in reading.remarks if each.is_problem]


def test_what_would_differ_is_refused() -> None:
    assert refused("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://h:19092\n") == [
        (2, "advertised.listeners")
    ]
    assert refused("listeners=SSL://:9092\nssl.keystore.location=/a.jks\n") == [
        (2, "ssl.keystore.location")
    ]
    assert refused("listeners=nonsense\n")[0] == (1, "listeners")


def test_the_command_writes_a_file_once(tmp_path: Path) -> None:
    source, target = tmp_path / "server.properties", tmp_path / "t.yaml"
    source.write_text(SECURED)
    arguments = ["import", "server-properties", str(source), "--to", str(target), "--name", "ewr"]
    done = CliRunner().invoke(app, [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.output
    assert parse_topology(target.read_text()).name == "ewr"
    document = json.loads(done.stdout)
    assert document["environment"] == [
        "HELIOGRAPH_ALICE_PASSWORD",
        "HELIOGRAPH_BOB_PASSWORD",
        "HELIOGRAPH_SSL_KEYSTORE_PASSWORD",
    ]
    assert "alice-pw" not in done.output
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 2
    assert "exists" in again.output


def test_the_command_refuses_a_file_with_its_lines(tmp_path: Path) -> None:
    source = tmp_path / "server.properties"
    source.write_text("listeners=SSL://:9092\nssl.keystore.location=/a.jks\n")
    done = CliRunner().invoke(app, ["import", "server-properties", str(source)])
    assert done.exit_code == 2
    assert "server.properties:2: ssl.keystore.location: JKS" in done.output


def test_mm2_properties_as_a_file(tmp_path: Path) -> None:
    source = tmp_path / "mm2.properties"
    source.write_text(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n"
        "a->b.enabled = true\ntasks.max = 3\n"
    )
    done = CliRunner().invoke(app, ["import", "mm2", str(source), "--name", "ours"])
    assert done.exit_code == 0, done.output
    topology = parse_topology(done.stdout)
    assert (topology.name, topology.links[0].effective_name) == ("ours", "a-b")
    assert "mm2.properties:5: tasks.max" in done.stderr
