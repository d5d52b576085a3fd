"""KafkaMirrorMaker2 resources of Strimzi, in both forms."""

from __future__ import annotations

import pytest

from topology.file.load import parse_topology
from topology.importing.strimzi import read_strimzi
from topology.importing.topology_text import topology_text

CLUSTERS_FORM = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: my-mirror.maker
spec:
  replicas: 3
  connectCluster: "b"
  clusters:
  - alias: "a"
    bootstrapServers: a-bootstrap:9093
    tls:
      trustedCertificates:
        - secretName: a-ca-cert
          certificate: ca.crt
    authentication:
      type: scram-sha-512
      username: mirroring
      passwordSecret: {secretName: mirroring-user, password: password}
  - alias: "b"
    bootstrapServers: b-bootstrap:9092
    config:
      config.storage.replication.factor: -1
  mirrors:
  - sourceCluster: "a"
    targetCluster: "b"
    sourceConnector:
      tasksMax: 4
      config:
        replication.factor: -1
        sync.topic.acls.enabled: "false"
    checkpointConnector:
      config:
        sync.group.offsets.enabled: true
    topicsPattern: "orders|flights"
    groupsPattern: ".*"
"""

TARGET_FORM = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: dr}
spec:
  target:
    alias: b
    bootstrapServers: b:9092
    groupId: mm2
  mirrors:
    - source: {alias: a, bootstrapServers: "a:9092"}
      sourceConnector: {}
      topicsPattern: ".*"
"""


def lines_of(text: str, found: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if found in line]


def test_clusters_with_a_connect_cluster() -> None:
    reading = read_strimzi(CLUSTERS_FORM)
    topology = reading.topology
    assert topology is not None, reading.remarks
    assert topology.name == "my-mirror-maker"
    security = topology.cluster("a").security
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (security.username, security.ca_file) == ("mirroring", "a-ca.pem")
    assert security.password is not None
    assert security.password.env == "HELIOGRAPH_MM2_A_PASSWORD"
    assert reading.secrets == {}, "a Secret stays a reference"
    (link,) = topology.links
    assert (link.source, link.target) == ("a", "b")
    assert link.topic_filter.include == ["orders|flights"]
    assert (link.acls.sync, link.groups.sync) == (False, True)
    assert link.settings.replication_factor == -1


def test_every_key_that_does_not_carry_over_has_its_line() -> None:
    remarks = {each.key: each for each in read_strimzi(CLUSTERS_FORM).remarks}
    for key, text in {
        "spec.replicas": "replicas:",
        "spec.clusters[1].config.config.storage.replication.factor": "config.storage",
        "spec.mirrors[0].sourceConnector.tasksMax": "tasksMax",
        "spec.clusters[0].authentication.passwordSecret": "passwordSecret",
        "spec.clusters[0].tls.trustedCertificates": "trustedCertificates",
    }.items():
        assert [remarks[key].line] == lines_of(CLUSTERS_FORM, text), key
    assert "Secret mirroring-user" in remarks["spec.clusters[0].authentication.passwordSecret"].text


def test_a_target_with_sources() -> None:
    reading = read_strimzi(TARGET_FORM)
    assert reading.topology is not None, reading.remarks
    assert [each.external for each in reading.topology.clusters] == ["b:9092", "a:9092"]
    (link,) = reading.topology.links
    assert (link.source, link.target) == ("a", "b")
    assert link.settings.mm2_topics == "off", "neither checkpoints nor heartbeats are asked for"
    assert [each.key for each in reading.remarks] == ["spec.target.groupId"]


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("kind: Kafka\n", "kind", 1),
        ("a: [", "resource", 1),
        (CLUSTERS_FORM.replace("type: scram-sha-512", "type: oauth"), "authentication.type", 16),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, key: str, line: int) -> None:
    reading = read_strimzi(text)
    assert reading.topology is None
    (problem,) = [each for each in reading.remarks if each.is_problem]
    assert problem.key.endswith(key)
    assert problem.line == line


def test_the_written_file_is_the_same_topology() -> None:
    reading = read_strimzi(CLUSTERS_FORM)
    assert reading.topology is not None
    text = topology_text(reading.topology, reading.remarks, "mm2.yaml")
    assert parse_topology(text) == reading.topology
    assert "# Line 6, spec.replicas: has no effect" in text
