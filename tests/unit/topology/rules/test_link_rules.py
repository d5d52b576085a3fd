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
"""
    topology = parse_topology(LINK + options, file="t.yaml")
    deployment = render(topology, StateDir(tmp_path / "state"), topology_file=Path("t.yaml"))
    daemon = deployment.daemon("mirror-b")
    (link,) = parse_settings(daemon.files[daemon.argv[-1]]).links
    assert (link.sync_acls, link.sync_group_acls, link.sync_transactional_id_acls) == (True,) * 3
    assert (link.sync_quotas, link.quota_defaults, link.syncs_rights) == (True,) * 3
    assert (link.quota_users, link.quota_client_ids) == (("alice", "eu-.*"), ())
    assert link.quota_ips == (".*",)


def test_acls_of_groups_need_the_sync_of_acls() -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(LINK + "    acls: {groups: true}\n", file="t.yaml")
    assert caught.value.lines() == ["t.yaml:9:12: links[0].acls.groups: `sync: true` beside it"]
