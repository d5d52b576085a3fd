from __future__ import annotations

import pytest

from local_cluster.security.authorization import acl_znodes
from local_cluster.security.authorization.acl_image import Entry, Resource
from local_cluster.wire.constants import AclOperation, PatternType, Permission, ResourceType

READ = Entry("User:alice", "*", AclOperation.READ, Permission.ALLOW)
CONFIGS = Entry("User:alice", "*", AclOperation.ALTER_CONFIGS, Permission.DENY)
LITERAL = Resource(ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL, "tx:1")
PREFIXED = Resource(ResourceType.TOPIC, PatternType.PREFIXED, "or")


def test_paths_and_payloads() -> None:
    assert acl_znodes.resource_path(LITERAL) == "/kafka-acl/TransactionalId/tx:1"
    assert acl_znodes.resource_path(PREFIXED) == "/kafka-acl-extended/prefixed/Topic/or"
    assert acl_znodes.encode_entries(frozenset({CONFIGS})) == (
        b'{"acls":[{"principal":"User:alice","permissionType":"Deny","host":"*",'
        b'"operation":"AlterConfigs"}],"version":1}'
    )
    assert acl_znodes.encode_change(LITERAL) == (
        "/kafka-acl-changes/acl_changes_",
        b"TRANSACTIONAL_ID:tx:1",
    )


@pytest.mark.parametrize("entries", [frozenset(), {READ}, {READ, CONFIGS}])
def test_entries_come_back(entries: frozenset[Entry]) -> None:
    payload = acl_znodes.encode_entries(frozenset(entries))
    assert acl_znodes.decode_entries(payload) == entries


@pytest.mark.parametrize("resource", [LITERAL, PREFIXED])
def test_changes_come_back(resource: Resource) -> None:
    _, payload = acl_znodes.encode_change(resource)
    assert acl_znodes.decode_change(PatternType(resource.pattern_type), payload) == resource


def test_an_old_notification() -> None:
    """Releases before 2.0 wrote the type in mixed case."""
    found = acl_znodes.decode_change(PatternType.LITERAL, b"Topic:orders")
    assert found == Resource(ResourceType.TOPIC, PatternType.LITERAL, "orders")


@pytest.mark.parametrize(
    "payload",
    [
        b"?",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{}]}',
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","host":"*",'
        b'"operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","host":"*",'
        b'"operation":"Fly"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Any","host":"*",'
        b'"operation":"Read"}]}',
    ],
)
def test_payloads_that_are_none(payload: bytes) -> None:
    with pytest.raises(ValueError):
        acl_znodes.decode_entries(payload)


@pytest.mark.parametrize("payload", [b"orders", b"Moon:orders", b"TOPIC:a/b", b"\xff:x"])
def test_notifications_that_are_none(payload: bytes) -> None:
    with pytest.raises(ValueError):
        acl_znodes.decode_change(PatternType.LITERAL, payload)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00", "\x85", "\ue000"])
def test_names_that_zookeeper_cannot_hold(name: str) -> None:
    assert not acl_znodes.is_storable(name)
