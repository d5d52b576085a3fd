"""Which configs and ACLs change on the target, and which changes are withheld."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.backoff import Backoff
from mirror_maker.formats.naming import TopicNames
from mirror_maker.ports import SystemClock
from mirror_maker.settings import Limits, LinkSettings
from mirror_maker.topic_sync.sync_plan import ChangeKind, acl_changes, config_changes, wanted_acls
from mirror_maker.topic_sync.topic_syncer import TopicSyncer

TOPICS = ["orders", "returns"]


def link(**changes: Any) -> LinkSettings:
    return LinkSettings(name="x", source_alias="a", source_bootstrap="-", **changes)


def acl(
    name: str,
    operation: AclOperation = AclOperation.READ,
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
        (acl("orders", AclOperation.WRITE), []),
        (acl("orders", AclOperation.ALL), [acl("a.orders")]),
        (
            acl("orders", AclOperation.WRITE, Permission.DENY),
            [acl("a.orders", AclOperation.WRITE, Permission.DENY)],
        ),
        (
            acl("orders", AclOperation.ALL, Permission.DENY),
            [acl("a.orders", AclOperation.ALL, Permission.DENY)],
        ),
        (acl("payments"), []),
        (acl("ord", pattern=PatternType.PREFIXED), [acl("a.ord", pattern=PatternType.PREFIXED)]),
        (acl("b.ord", pattern=PatternType.PREFIXED), []),  # no copied topic matches it
        (acl("*"), [acl("a.", pattern=PatternType.PREFIXED)]),
        (acl("orders", resource=ResourceType.GROUP), []),
    ],
)
def test_acls_of_prefixed_copies(source: Acl, expected: list[Acl]) -> None:
    assert wanted_acls([source], TOPICS, link()) == set(expected)


def test_patterns_become_literals_if_copies_are_not_prefixed() -> None:
    for names, copies in (
        (TopicNames(map={"orders": "eu-orders"}), ["eu-orders", "a.returns"]),
        (TopicNames(otherwise="identity"), TOPICS),
    ):
        for pattern in (acl("*"), acl("", pattern=PatternType.PREFIXED)):
            found = wanted_acls([pattern], TOPICS, link(names=names))
            assert found == {acl(copy) for copy in copies}
        # Topics whose copies are not owned are left alone.
        assert wanted_acls([acl("*")], [], link(names=names)) == set()


@pytest.mark.parametrize(
    "writes",
    [
        acl("a.orders", AclOperation.WRITE),
        acl("a.", AclOperation.WRITE, pattern=PatternType.PREFIXED),
        acl("*", AclOperation.ALL),
    ],
)
def test_a_principal_that_may_write_into_a_copy_keeps_every_right(writes: Acl) -> None:
    """Otherwise the mirror would lock itself out."""
    mirrors = {each._replace(principal="User:mirror") for each in (writes, acl("a.orders"))}
    others = [acl("a.orders"), acl("local", AclOperation.WRITE)]
    changes = list(acl_changes([], [*mirrors, *others], TOPICS, link(deletions="mirror")))
    assert [each.acl for each in changes if not each.withheld] == [acl("a.orders")]
    assert {each.acl for each in changes if each.withheld} <= mirrors


@pytest.mark.parametrize(
    "writes",
    [
        acl("a.ord", AclOperation.WRITE, pattern=PatternType.PREFIXED),
        acl("a", AclOperation.ALL, pattern=PatternType.PREFIXED),
        acl("a.orders", AclOperation.WRITE),
        acl("*", AclOperation.WRITE),
    ],
)
@pytest.mark.parametrize("topics", [[], ["returns"]])
def test_the_mirror_is_not_locked_out_while_copies_are_unknown(
    writes: Acl, topics: list[str]
) -> None:
    reads = acl("a.", pattern=PatternType.PREFIXED)
    target = [each._replace(principal="User:mirror") for each in (writes, reads)]
    changes = acl_changes([], target, topics, link(deletions="mirror"))
    assert [each for each in changes if not each.withheld] == []


def test_a_pattern_that_the_source_still_has_stays() -> None:
    """Topics may be hidden or not known yet: no reason to remove a reader's right."""
    source = [
        acl("ord", AclOperation.ALL, pattern=PatternType.PREFIXED),
        acl("*"),
        acl("returns", AclOperation.WRITE, pattern=PatternType.PREFIXED),
    ]
    kept = [acl(name, pattern=PatternType.PREFIXED) for name in ("a.ord", "a.")]
    stale = [
        acl("a.ord", AclOperation.DESCRIBE, pattern=PatternType.PREFIXED),
        acl("a.returns", pattern=PatternType.PREFIXED),
    ]
    changes = list(acl_changes(source, kept + stale, [], link(deletions="mirror")))
    assert {(each.kind, each.acl, each.withheld) for each in changes} == {
        (ChangeKind.DELETE_ACL, each, False) for each in stale
    }
    # Without prefixed names every ACL is on a known copy.
    identity = link(deletions="mirror", names=TopicNames(otherwise="identity"))
    assert list(acl_changes(source, kept + stale, [], identity)) == []


def test_only_acls_on_copies_are_ever_taken_away() -> None:
    source = [acl("orders"), acl("returns")]
    target = [
        acl("a.orders"),
        acl("a.orders", AclOperation.DESCRIBE),
        acl("a.gone"),
        acl("a.x", pattern=PatternType.PREFIXED),
        acl("local"),
        acl("a.orders", resource=ResourceType.GROUP),
    ]
    changes = list(acl_changes(source, target, TOPICS, link()))
    assert [(each.kind, each.acl, each.withheld) for each in changes] == [
        (ChangeKind.CREATE_ACL, acl("a.returns"), False),
        (ChangeKind.DELETE_ACL, acl("a.orders", AclOperation.DESCRIBE), True),
        (ChangeKind.DELETE_ACL, acl("a.x", pattern=PatternType.PREFIXED), True),
    ]
    assert changes[0].as_json()["name"] == "ALLOW User:u from * READ TOPIC 'a.returns' LITERAL"


class AclsDouble:
    """A cluster that knows ACLs and nothing else, and counts what it is asked."""

    def __init__(self, *acls: Acl) -> None:
        self.acls = set(acls)
        self.calls = 0

    async def call(self, api: ApiKey, fields: dict[str, Any], *, node_id: int | None = None) -> Any:
        assert api is ApiKey.DESCRIBE_ACLS
        self.calls += 1
        resources = [
            SimpleNamespace(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                pattern_type=each.pattern_type,
                acls=[
                    SimpleNamespace(
                        principal=each.principal,
                        host=each.host,
                        operation=each.operation,
                        permission_type=each.permission,
                    )
                ],
            )
            for each in self.acls
        ]
        return SimpleNamespace(error_code=0, error_message=None, resources=resources)

    async def call_controller(self, api: ApiKey, fields: dict[str, Any]) -> Any:
        assert api is ApiKey.DELETE_ACLS
        self.calls += 1
        results = []
        for each in fields["filters"]:
            self.acls.remove(Acl(*each.values()))
            results.append(SimpleNamespace(error_code=0, error_message=None, matching_acls=[]))
        return SimpleNamespace(filter_results=results)


async def test_nothing_is_compared_before_discovery() -> None:
    source = AclsDouble()
    target = AclsDouble(acl("a.", pattern=PatternType.PREFIXED))
    store = SimpleNamespace(is_open=False)
    directory = SimpleNamespace(is_loaded=False, source={}, target={})
    worker = SimpleNamespace(
        name="x",
        flows={},
        known=frozenset(),
        is_first_worker=True,  # like each worker before discovery
        owned_copies=SimpleNamespace(not_owned={}, find=_owns_nothing),
        settings=link(sync_acls=True, deletions="mirror"),
        limits=Limits(),
        clock=SystemClock(),
        new_backoff=lambda: Backoff(1, 1, Random(1), SystemClock()),
        map_store=store,
        directory=directory,
    )
    sync = TopicSyncer(cast("Any", worker), cast("Any", source), cast("Any", target))
    await sync.sync()
    store.is_open = True
    await sync.sync()
    assert (source.calls, target.calls, len(target.acls)) == (0, 0, 1)
    directory.is_loaded = True
    await sync.sync()
    assert not target.acls, "the source has no such pattern"
    assert sync.status()["applied"] == 1


async def _owns_nothing(pairs: object) -> list[str]:
    return []
