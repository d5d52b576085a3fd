"""Which ACLs of groups and transactional ids follow, and which the link may delete."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.formats.written_rights import WrittenRights, acl_record
from mirror_maker.rights_sync.acl_rules import needs_groups, plan_acls
from mirror_maker.rights_sync.rights_plan import MirroredRights, RightsPlan
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import ChangeKind

GROUPS = ["billing", "billing-2", "heliograph-mirror-b"]
PREFIXED, LITERAL = PatternType.PREFIXED, PatternType.LITERAL


def link(**changes: Any) -> LinkSettings:
    options: dict[str, Any] = {"sync_group_acls": True, "sync_transactional_id_acls": True}
    return LinkSettings(name="x", source_alias="a", source_bootstrap="-", **options | changes)


def acl(
    name: str,
    pattern: PatternType = LITERAL,
    operation: AclOperation = AclOperation.READ,
    permission: Permission = Permission.ALLOW,
    resource: ResourceType = ResourceType.GROUP,
    principal: str = "User:u",
) -> Acl:
    return Acl(resource, name, pattern, principal, "*", operation, permission)


def written(*acls: Acl) -> WrittenRights:
    state = WrittenRights()
    for each in acls:
        state.replay(*acl_record(each))
    return state


def plan(
    source: Iterable[Acl],
    target: Iterable[Acl] = (),
    own: Collection[Acl] = (),
    *,
    mirrored: Iterable[Acl] = (),
    groups: Collection[str] = GROUPS,
    **changes: Any,
) -> RightsPlan:
    at_source = MirroredRights(frozenset(mirrored), {})
    return plan_acls(source, target, written(*own), at_source, groups, link(**changes))


def created(found: RightsPlan) -> set[Acl | None]:
    return {each.acl for each in found.changes if each.kind is ChangeKind.CREATE_ACL}


def deleted(found: RightsPlan) -> dict[Acl | None, bool]:
    """Return the deletions, and whether each is withheld."""
    return {each.acl: each.withheld for each in found.changes if each.kind is ChangeKind.DELETE_ACL}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (acl("billing"), [acl("billing")]),
        (acl("unknown"), [acl("unknown")]),  # a group may come later
        (acl("billing", operation=AclOperation.ALL), [acl("billing", operation=AclOperation.ALL)]),
        (
            acl("billing", permission=Permission.DENY),
            [acl("billing", permission=Permission.DENY)],
        ),
        (acl("heliograph-mirror-b"), []),
        (acl("connect-x"), []),
        (acl("bill", PREFIXED), [acl("bill", PREFIXED)]),
        (acl("helio", PREFIXED), []),
        (acl("c", PREFIXED), []),  # `connect-` begins with it, and no group of the source does
        (acl("*"), [acl("billing"), acl("billing-2")]),
        (acl("", PREFIXED), [acl("billing"), acl("billing-2")]),
        (acl("t", resource=ResourceType.TOPIC), []),
        (acl("kafka-cluster", resource=ResourceType.CLUSTER), []),
    ],
)
def test_acls_of_groups_follow_only_for_selected_groups(source: Acl, expected: list[Acl]) -> None:
    assert created(plan([source])) == set(expected)


@pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])
@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.DESCRIBE])
def test_acls_of_transactional_ids_follow_as_they_are(
    pattern: PatternType, operation: AclOperation
) -> None:
    for name in ("etl", "*"):
        each = acl(name, pattern, operation, resource=ResourceType.TRANSACTIONAL_ID)
        assert created(plan([each])) == {each}


def test_only_the_types_of_the_settings_follow() -> None:
    of_id = acl("etl", operation=AclOperation.WRITE, resource=ResourceType.TRANSACTIONAL_ID)
    source = [acl("billing"), of_id]
    assert created(plan(source, sync_group_acls=False)) == {of_id}
    assert created(plan(source, sync_transactional_id_acls=False)) == {acl("billing")}
    # What the link wrote under an option that is off now stays.
    found = plan([], source, source, sync_group_acls=False, deletions="mirror")
    assert deleted(found) == {of_id: False}


def test_patterns_of_a_chosen_group_become_that_group() -> None:
    pattern = acl("bill", PREFIXED)
    only = link(groups=("billing",))
    found = plan_acls([pattern], [], written(), MirroredRights(frozenset(), {}), GROUPS, only)
    assert created(found) == {acl("billing")}
    assert needs_groups([pattern], only)
    assert not needs_groups([pattern, acl("x")], link())


def test_the_groups_of_mirrors_are_left_out_whatever_the_patterns() -> None:
    every = link(groups_exclude=())
    source = [acl(name, permission=Permission.DENY) for name in ("*", "heliograph-mirror-b")]
    found = plan_acls(source, [], written(), MirroredRights(frozenset(), {}), GROUPS, every)
    denied = {acl(name, permission=Permission.DENY) for name in ("billing", "billing-2")}
    assert created(found) == denied


def test_a_record_is_written_for_what_the_link_creates_and_for_nothing_else() -> None:
    found = plan([acl("billing"), acl("etl")], [acl("etl")], [acl("gone")])
    assert found.noted == [acl_record(acl("billing"))]
    assert found.forgotten == [acl_record(acl("gone"), is_deleted=True)]
    again = plan([acl("billing")], [], [acl("billing")])
    assert (created(again), again.noted) == ({acl("billing")}, [])


@pytest.mark.parametrize(("deletions", "withheld"), [("mirror", False), ("report", True)])
def test_only_what_the_link_wrote_is_deleted(deletions: str, withheld: bool) -> None:
    mine, theirs = acl("billing"), acl("etl")
    found = plan([], [mine, theirs], [mine], deletions=deletions)
    assert deleted(found) == {mine: withheld}
    assert found.forgotten == [], "its record goes when the target does not have it any more"


def test_an_acl_of_a_pattern_stays_while_the_source_has_the_pattern() -> None:
    mine = [acl("billing"), acl("billing-2")]
    found = plan([acl("*")], mine, mine, groups=[], deletions="mirror")
    assert found.changes == []
    other = acl("*", operation=AclOperation.DELETE)
    found = plan([other], mine, mine, groups=[], deletions="mirror")
    assert deleted(found) == dict.fromkeys(mine, False)


def test_what_the_filter_no_longer_selects_stays() -> None:
    mine = [acl("billing"), acl("bill", PREFIXED)]
    found = plan([], mine, mine, deletions="mirror", groups_exclude=("bill.*",))
    assert (found.changes, found.forgotten) == ([], [])


def test_what_a_mirror_wrote_at_the_source_is_not_carried_on() -> None:
    assert created(plan([acl("billing")], mirrored=[acl("billing")])) == set()
    # It was native when the link wrote it, and is a mirror's by now.
    mine = acl("billing")
    found = plan([mine], [mine], [mine], mirrored=[mine], deletions="mirror")
    assert deleted(found) == {mine: False}
