"""The decision table. `tests/compat/test_acl_oracle.py` compares random sets with Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.security.authorization.acl_image import AclImage, Entry, Resource, split
from local_cluster.security.authorization.decision import (
    Asking,
    Decision,
    Policy,
    Rule,
    decide,
    decide_by_resource_type,
)
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType

ALICE = Asking("User:alice", "10.1.2.3")
STRICT = Policy()
OPEN = Policy(allow_if_no_acl=True)
GROUP = ResourceType.GROUP
TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


def acl(
    permission: Permission,
    name: str,
    operation: AclOperation,
    *,
    principal: str = "User:alice",
) -> Acl:
    return Acl(TOPIC, name, PatternType.LITERAL, principal, "*", operation, permission)


def allow(name: str, operation: AclOperation, *, principal: str = "User:alice") -> Acl:
    return acl(Permission.ALLOW, name, operation, principal=principal)


def deny(name: str, operation: AclOperation) -> Acl:
    return acl(Permission.DENY, name, operation)


def prefixed(each: Acl) -> Acl:
    return each._replace(pattern_type=PatternType.PREFIXED)


def ask(policy: Policy, *acls: Acl, operation: AclOperation = READ, name: str = "t") -> Decision:
    return decide(policy, AclImage.of(acls), ALICE, operation, TOPIC, name)


def test_nothing_is_allowed_without_an_image() -> None:
    for policy in (STRICT, OPEN):
        assert decide(policy, None, ALICE, READ, TOPIC, "t") == (False, Rule.NO_IMAGE)
        assert decide_by_resource_type(policy, None, ALICE, READ, TOPIC) == (False, Rule.NO_IMAGE)
    boss = Policy(super_users=frozenset({"User:alice"}))
    assert decide(boss, None, ALICE, READ, TOPIC, "t") == (True, Rule.SUPER_USER)
    assert decide_by_resource_type(boss, None, ALICE, READ, TOPIC) == (True, Rule.SUPER_USER)


def test_a_denying_acl_wins_and_is_named() -> None:
    denying = deny("t", AclOperation.ALL)
    assert ask(OPEN, allow("*", READ), allow("t", READ), denying) == (False, denying)
    assert ask(STRICT, allow("t", READ)) == (True, allow("t", READ))


def test_everybody_is_allowed_only_where_no_acl_covers_the_resource() -> None:
    assert ask(OPEN) == (True, Rule.DEFAULT_ALLOW)
    assert ask(OPEN, allow("other", READ)) == (True, Rule.DEFAULT_ALLOW)
    assert ask(OPEN, allow("t", READ, principal="User:bob")) == (False, Rule.DEFAULT_DENY)
    assert ask(STRICT) == (False, Rule.DEFAULT_DENY)


@pytest.mark.parametrize("granted", ["READ", "WRITE", "DELETE", "ALTER", "ALL"])
def test_what_implies_describe(granted: str) -> None:
    operation = AclOperation[granted]
    assert ask(STRICT, allow("t", operation), operation=DESCRIBE).is_allowed
    denied = ask(STRICT, allow("t", DESCRIBE), deny("t", operation), operation=DESCRIBE)
    assert denied.is_allowed is (granted != "ALL")


def test_alter_configs_implies_describe_configs() -> None:
    acls = [allow("t", AclOperation.ALTER_CONFIGS)]
    assert ask(STRICT, *acls, operation=AclOperation.DESCRIBE_CONFIGS).is_allowed
    assert not ask(STRICT, *acls, operation=DESCRIBE).is_allowed


@pytest.mark.parametrize("name", ["*x", "$b", ""])
def test_a_wildcard_covers_every_name(name: str) -> None:
    assert not ask(OPEN, deny("*", READ), deny("$a", READ), name=name).is_allowed


def any_topic(*acls: Acl) -> bool:
    return decide_by_resource_type(STRICT, AclImage.of(acls), ALICE, WRITE, TOPIC).is_allowed


def test_any_resource_of_a_type() -> None:
    assert not any_topic()
    assert any_topic(allow("t", WRITE))
    assert not any_topic(allow("t", WRITE), deny("t", WRITE))
    assert not any_topic(allow("t", WRITE), deny("*", WRITE))
    assert any_topic(allow("t", WRITE), deny("t", READ))
    assert not any_topic(prefixed(allow("top", WRITE)), prefixed(deny("to", WRITE)))
    assert any_topic(prefixed(allow("to", WRITE)), prefixed(deny("top", WRITE)))
    assert any_topic(prefixed(allow("t", WRITE)), deny("t", WRITE))
    assert any_topic(allow("*", WRITE), prefixed(deny("t", WRITE)))


acls = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from(["a", "ab", "abc", "*"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:*", "User:bob"]),
    st.sampled_from(["*", "10.0.0.0/8", "10.9.9.9"]),
    st.sampled_from([READ, WRITE, DESCRIBE, AclOperation.ALL]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(st.lists(acls), st.lists(acls))
def test_an_image_is_its_set_of_acls(added: list[Acl], removed: list[Acl]) -> None:
    """Whatever is added and removed in whatever order, nothing is left over or lost."""
    image = AclImage({})
    for each in added:
        resource, entry = split(each)
        image = image.with_resources({resource: image.entries(resource) | {entry}})
    for each in removed:
        resource, entry = split(each)
        image = image.with_resources({resource: image.entries(resource) - {entry}})
    left = set(added) - set(removed)
    assert set(image) == left
    assert len(image) == len(left)
    for name in ("a", "abcd", "b", "*"):
        covering = {e.bind(r) for r, entries in image.covering(TOPIC, name) for e in entries}
        assert covering == {each for each in left if covers(each, name)}


def covers(each: Acl, name: str) -> bool:
    if each.resource_type != TOPIC:
        return False
    if each.pattern_type == PatternType.PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in (name, "*")


def test_a_resource_without_acls_is_none() -> None:
    resource = Resource(TOPIC, PatternType.LITERAL, "t")
    entry = Entry("User:alice", "*", READ, Permission.ALLOW)
    image = AclImage({resource: frozenset({entry})})
    assert len(image.with_resources({resource: frozenset()})) == 0
    assert len(image) == 1
