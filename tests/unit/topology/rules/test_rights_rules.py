"""Rules on declared users and ACLs: each names the line, the key and what was expected."""

from __future__ import annotations

import pytest

from local_cluster.wire.constants import AclOperation, PatternType, Permission, ResourceType
from topology.file.load import parse_topology
from topology.model.rights import RIGHTS_MAX
from topology.problems import InvalidTopology

DECLARED = """\
name: secured
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_PLAINTEXT
        sasl: {mechanisms: [SCRAM-SHA-512], users: {broker: {env: B}, admin: {file: a}}}
    inter_broker_security:
      {protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-512, username: broker, password: {env: B}}
    security:
      {protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-512, username: admin, password: {file: a}}
    authorizer: {super_users: ["User:admin"]}
    users: {alice: {file: secrets/alice}}
    acls:
      - {principal: "User:alice", operations: [READ, ALL], topics: [t], groups: ["*"]}
      - {principal: "User:bob", operations: [ALTER], on_cluster: true, deny: true, prefixed: true}
    brokers: [{id: 1, port: 9092}]
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    return caught.value.lines()


def test_each_entry_is_an_acl_per_operation_and_resource() -> None:
    (jfk,) = parse_topology(DECLARED).clusters
    assert jfk.scram_mechanisms == ["SCRAM-SHA-512"]
    alice, bob = (rule.acls() for rule in jfk.acls)
    assert [(each.resource_type, each.resource_name, each.operation) for each in alice] == [
        (ResourceType.TOPIC, "t", AclOperation.READ),
        (ResourceType.TOPIC, "t", AclOperation.ALL),
        (ResourceType.GROUP, "*", AclOperation.READ),
        (ResourceType.GROUP, "*", AclOperation.ALL),
    ]
    (denial,) = bob
    assert (denial.permission, denial.resource_name) == (Permission.DENY, "kafka-cluster")
    assert denial.pattern_type == PatternType.LITERAL, "the cluster has no prefix"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "operations: [READ, ALL]",
            "operations: [REED]",
            "15:48: clusters[0].acls[0].operations[0]: one of ALL, READ, WRITE, CREATE, DELETE,"
            " ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE,"
            " TWO_PHASE_COMMIT; did you mean 'READ'?",
        ),
        (
            "operations: [READ, ALL]",
            "operations: [READ, WRITE]",
            "15:54: clusters[0].acls[0].operations[1]: an operation of a group: ALTER_CONFIGS,"
            " DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, ALL",
        ),
        (
            ', topics: [t], groups: ["*"]',
            "",
            "15:9: clusters[0].acls[0]: a resource: topics, groups, transactional_ids or"
            " on_cluster",
        ),
        (
            "topics: [t]",
            'topics: [t], host: "10.0.0.0/33"',
            "15:9: clusters[0].acls[0]: Invalid CIDR notation '10.0.0.0/33': Value [33]"
            " not in range [0,32]",
        ),
        (
            '    authorizer: {super_users: ["User:admin"]}\n',
            "",
            "13:5: clusters[0].acls: absent, or with an `authorizer` that decides by them",
        ),
        (
            "users: {alice: {file: secrets/alice}}",
            "users: {admin: {file: secrets/admin}}",
            "13:13: clusters[0].users.admin: absent: listener SECURE has a user of this name",
        ),
        (
            "users: {alice: {file: secrets/alice}}",
            "users: {alice: {file: secrets/alice, env: ALICE}}",
            "13:13: clusters[0].users.alice: a secret is either in `file` or in `env`",
        ),
        (
            "admin: {file: a}}}",
            "boss: {file: a}}}",
            "13:13: clusters[0].users.admin: a user of the listener (`sasl.users`), as `up` creates"
            " the others as it",
        ),
        (
            "topics: [t]",
            f"topics: [{', '.join(f't{index}' for index in range(RIGHTS_MAX))}]",
            f"14:5: clusters[0].acls: at most {RIGHTS_MAX} users, ACLs and quotas of one cluster,"
            " not 4004",
        ),
    ],
)
def test_a_problem_has_its_line(old: str, new: str, expected: str) -> None:
    text = DECLARED.replace(old, new)
    if "boss" in new:
        text = text.replace("users: {alice: {file: secrets/alice}}", "users: {admin: {file: a}}")
    assert f"t.yaml:{expected}" in problems(text)


def test_only_scram_knows_declared_users() -> None:
    text = DECLARED.replace("SCRAM-SHA-512", "PLAIN")
    expected = "absent, or with a SCRAM mechanism of a listener; only SCRAM knows these users"
    assert f"t.yaml:13:5: clusters[0].users: {expected}" in problems(text)


def test_an_external_cluster_has_none() -> None:
    text = (
        "name: a\nclusters:\n  - {name: b, external: 'k:9092', users: {a: {file: a}}, acls: []}\n"
    )
    expected = "absent: nothing is started for an external cluster"
    assert [each.partition(": ")[2] for each in problems(text)] == [
        f"clusters[0].users: {expected}",
        f"clusters[0].acls: {expected}",
    ]
