"""Which configs and ACLs change on the target, and which only would."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.client.acls import Acl, Operation, PatternType, Permission, ResourceType
from mirror_maker.formats.naming import TopicNames
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync import ChangeKind, acl_changes, config_changes, wanted_acls

TOPICS = ["orders", "returns"]


def link(**changes: Any) -> LinkSettings:
    return LinkSettings(name="x", source_alias="a", source_bootstrap="-", **changes)


def acl(
    name: str,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, "User:u", "*", operation, permission)


def test_configs_that_were_set_are_carried_over() -> None:
    source: dict[str, tuple[str | None, bool]] = {
        "retention.ms": ("1", False),
        "segment.bytes": ("2", False),
        "cleanup.policy": ("delete", True),
        "min.insync.replicas": ("2", False),  # excluded as in MirrorMaker 2
        "compression.type": ("lz4", False),  # bytes stay as they are
        "secret": (None, False),
    }
    target: dict[str, tuple[str | None, bool]] = {
        "retention.ms": ("5", False),
        "segment.bytes": ("2", False),
        "max.message.bytes": ("9", False),
        "compression.type": ("producer", False),
        "min.insync.replicas": ("1", False),
    }
    changes = list(config_changes("a.t", source, target, link()))
    assert [(each.kind, each.name, each.before, each.after, each.withheld) for each in changes] == [
        (ChangeKind.SET_CONFIG, "retention.ms", "5", "1", False),
        (ChangeKind.RESET_CONFIG, "max.message.bytes", "9", None, True),
    ]
    mirrored = list(config_changes("a.t", source, target, link(deletions="mirror")))
    assert [each.withheld for each in mirrored] == [False, False]
    only = link(configs=("segment.*",))
    assert list(config_changes("a.t", source, target, only)) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (acl("orders"), [acl("a.orders")]),
        (acl("orders", Operation.WRITE), []),
        (acl("orders", Operation.ALL), [acl("a.orders")]),
        (
            acl("orders", Operation.WRITE, Permission.DENY),
            [acl("a.orders", Operation.WRITE, Permission.DENY)],
        ),
        (
            acl("orders", Operation.ALL, Permission.DENY),
            [acl("a.orders", Operation.ALL, Permission.DENY)],
        ),
        (acl("payments"), []),
        (acl("ord", pattern=PatternType.PREFIXED), [acl("a.ord", pattern=PatternType.PREFIXED)]),
        (acl("b.ord", pattern=PatternType.PREFIXED), []),  # of no topic that is copied
        (acl("*"), [acl("a.", pattern=PatternType.PREFIXED)]),
        (acl("orders", resource=ResourceType.GROUP), []),
    ],
)
def test_acls_of_prefixed_copies(source: Acl, expected: list[Acl]) -> None:
    assert wanted_acls([source], TOPICS, link()) == set(expected)


def test_patterns_become_literals_where_copies_have_names_of_their_own() -> None:
    for names, copies in (
        (TopicNames(map={"orders": "eu-orders"}), ["eu-orders", "a.returns"]),
        (TopicNames(otherwise="identity"), TOPICS),
    ):
        for pattern in (acl("*"), acl("", pattern=PatternType.PREFIXED)):
            found = wanted_acls([pattern], TOPICS, link(names=names))
            assert found == {acl(copy) for copy in copies}
        # Of topics whose copies are not led nothing is said.
        assert wanted_acls([acl("*")], [], link(names=names)) == set()


@pytest.mark.parametrize(
    "writes",
    [
        acl("a.orders", Operation.WRITE),
        acl("a.", Operation.WRITE, pattern=PatternType.PREFIXED),
        acl("*", Operation.ALL),
    ],
)
def test_who_may_write_into_a_copy_keeps_every_right_there(writes: Acl) -> None:
    """The mirror, or it would lock itself out."""
    mirrors = {each._replace(principal="User:mirror") for each in (writes, acl("a.orders"))}
    others = [acl("a.orders"), acl("local", Operation.WRITE)]
    changes = list(acl_changes(set(), [*mirrors, *others], TOPICS, link(deletions="mirror")))
    assert [each.acl for each in changes if not each.withheld] == [acl("a.orders")]
    assert {each.acl for each in changes if each.withheld} <= mirrors


def test_only_acls_on_copies_are_ever_taken_away() -> None:
    wanted = {acl("a.orders"), acl("a.returns")}
    target = [
        acl("a.orders"),
        acl("a.orders", Operation.DESCRIBE),
        acl("a.gone"),
        acl("a.x", pattern=PatternType.PREFIXED),
        acl("local"),
        acl("a.orders", resource=ResourceType.GROUP),
    ]
    changes = list(acl_changes(wanted, target, TOPICS, link()))
    assert [(each.kind, each.acl, each.withheld) for each in changes] == [
        (ChangeKind.CREATE_ACL, acl("a.returns"), False),
        (ChangeKind.DELETE_ACL, acl("a.orders", Operation.DESCRIBE), True),
        (ChangeKind.DELETE_ACL, acl("a.x", pattern=PatternType.PREFIXED), True),
    ]
    assert changes[0].as_json()["name"] == "ALLOW User:u from * READ TOPIC 'a.returns' LITERAL"
