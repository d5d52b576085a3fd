"""Filters and transforms of records in a topology file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_maker.rules.rule_settings import (
    Condition,
    HeaderValue,
    JsonTest,
    KeyTest,
    RecordFilter,
    Transform,
)
from mirror_maker.settings import parse_settings
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.problems import InvalidTopology

LINK = """\
name: shop
clusters:
  - {name: a, external: "h:1"}
  - {name: b, external: "h:2"}
links:
  - source: a
    target: b
    topics: [orders]
"""
RULES = """\
    filter:
      keep:
        - {header: kind, equals: order}
        - {key: {matches: "eu-.*"}}
      drop:
        - {value: {json: /test, equals: true}}
    transform:
      - {set_header: {name: from, value: a}}
      - {mask_field: /card/number}
"""


def test_a_worker_is_told_the_rules_as_they_are_written(tmp_path: Path) -> None:
    topology = parse_topology(LINK + RULES, file="t.yaml")
    deployment = render(topology, StateDir(tmp_path / "state"), topology_file=Path("t.yaml"))
    daemon = deployment.daemon("mirror-b")
    (link,) = parse_settings(daemon.files[daemon.argv[-1]]).links
    assert link.filter == RecordFilter(
        keep=(
            Condition(header="kind", equals="order"),
            Condition(key=KeyTest(matches="eu-.*")),
        ),
        drop=(Condition(value=JsonTest(json="/test", equals=True)),),
    )
    assert link.transform == (
        Transform(set_header=HeaderValue(name="from", value="a")),
        Transform(mask_field="/card/number"),
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            "    filter: {keep: [{headr: x}]}\n",
            "t.yaml:9:22: links[0].filter.keep[0].headr: unknown key; expected one of equals, "
            "header, key, matches, value; did you mean 'header'?",
        ),
        (
            "    filter: {drop: [{header: x, key: {}}]}\n",
            "t.yaml:9:21: links[0].filter.drop[0]: one of `header`, `key` and `value`",
        ),
        (
            "    transform: [{mask_field: card}]\n",
            "t.yaml:9:17: links[0].transform[0]: 'card' is not a JSON pointer such as "
            "/customer/name",
        ),
    ],
)
def test_wrong_rules_are_problems_with_their_position(rules: str, expected: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(LINK + rules, file="t.yaml")
    assert caught.value.lines() == [expected]


def test_a_worker_is_told_which_rights_follow(tmp_path: Path) -> None:
    options = """\
    acls: {sync: true, groups: true, transactional_ids: true}
    quotas: {sync: true, users: [alice, "eu-.*"], client_ids: [], defaults: true}
    users: {include: ["eu-.*"], exclude: [eu-x]}
"""
    topology = parse_topology(LINK + options, file="t.yaml")
    deployment = render(topology, StateDir(tmp_path / "state"), topology_file=Path("t.yaml"))
    daemon = deployment.daemon("mirror-b")
    (link,) = parse_settings(daemon.files[daemon.argv[-1]]).links
    assert (link.sync_acls, link.sync_group_acls, link.sync_transactional_id_acls) == (True,) * 3
    assert (link.sync_quotas, link.quota_defaults, link.syncs_rights) == (True,) * 3
    assert (link.quota_users, link.quota_client_ids) == (("alice", "eu-.*"), ())
    assert link.quota_ips == (".*",)
    assert (link.sync_users, link.users, link.users_exclude) == (False, ("eu-.*",), ("eu-x",))


SECURE = """\
    listeners:
      - name: S
        security_protocol: SASL_SSL
        tls: {keystore_file: k}
        sasl: {mechanisms: [SCRAM-SHA-512], users: {broker: {file: b}, admin: {file: a}}}
    inter_broker_security:
      protocol: SASL_SSL
      mechanism: SCRAM-SHA-512
      username: broker
      password: {file: b}
      ca_file: c
    security:
      protocol: SASL_SSL
      mechanism: SCRAM-SHA-512
      username: admin
      password: {file: a}
      ca_file: c
    authorizer: {super_users: ["User:admin"]READERS}
    brokers: [{id: 1, port: PORT}]
"""
READERS = ', credential_readers: ["User:mirror"]'


def secured_link(a: str, b: str, users: str) -> str:
    """Return a file with a link from a to b."""
    sides = f"name: d\nclusters:\n  - name: a\n{a}  - name: b\n{b}"
    return f"{sides}links:\n  - source: a\n    target: b\n    topics: [t]\n    users: {users}\n"


PLAIN = "    brokers: [{id: 1, port: PORT}]\n"
OUTSIDE = "    external: h:1\n"


@pytest.mark.parametrize(
    ("a", "b", "users", "expected"),
    [
        (SECURE.replace("READERS", READERS), SECURE, "{sync: true, include: [app]}", []),
        (PLAIN, PLAIN, "{include: [app]}", []),
        (
            SECURE.replace("READERS", READERS),
            SECURE,
            "{sync: true}",
            ["`include` with the users that follow"],
        ),
        (
            SECURE,
            SECURE,
            "{sync: true, include: [app]}",
            [
                "`credential_readers` in the `authorizer` of cluster a, with the principal of the "
                "mirror"
            ],
        ),
        (
            OUTSIDE,
            PLAIN,
            "{sync: true, include: [app]}",
            [
                "absent: cluster a is external, and only brokers of ours take part",
                "`authorizer` in cluster b",
            ],
        ),
    ],
)
def test_users_follow_between_secured_clusters_of_ours(
    a: str, b: str, users: str, expected: list[str]
) -> None:
    sides = [
        side.replace("READERS", "").replace("PORT", port) for side, port in ((a, "1"), (b, "2"))
    ]
    text = secured_link(sides[0], sides[1], users)
    try:
        parse_topology(text, file="t.yaml")
        found = []
    except InvalidTopology as error:
        found = [line.partition(": links[0].users: ")[2] or line for line in error.lines()]
    assert sorted(found) == sorted(expected)


def test_users_need_tls_on_the_listener_that_links_use() -> None:
    plain = SECURE.replace("READERS", READERS).replace("SASL_SSL", "SASL_PLAINTEXT")
    plain = plain.replace("        tls: {keystore_file: k}\n", "").replace("      ca_file: c\n", "")
    text = secured_link(
        plain.replace("PORT", "1"), plain.replace("PORT", "2"), "{sync: true, include: [app]}"
    )
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    assert [line.partition(": links[0].users: ")[2] or line for line in caught.value.lines()] == [
        f"TLS on the first listener of cluster {name}, which links use" for name in ("a", "b")
    ]


def test_acls_of_groups_need_the_sync_of_acls() -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(LINK + "    acls: {groups: true}\n", file="t.yaml")
    assert caught.value.lines() == ["t.yaml:9:12: links[0].acls.groups: `sync: true` beside it"]
