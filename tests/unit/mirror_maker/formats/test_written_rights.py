"""The bytes of a link's topic of rights, and the state that they amount to."""

from __future__ import annotations

import json

import pytest

from local_cluster.wire.constants import (
    Acl,
    AclOperation,
    CredentialName,
    PatternType,
    Permission,
    ResourceType,
)
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.written_rights import (
    QuotaName,
    WrittenCredential,
    WrittenQuota,
    WrittenRights,
    acl_record,
    is_rights_topic,
    quota_record,
    rights_topic_name,
    user_record,
)
from mirror_maker.rules.topic_filter import is_internal_topic

ACL = Acl(
    ResourceType.GROUP,
    "g",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    Permission.ALLOW,
)
USER = CredentialName("alice", "SCRAM-SHA-512")
QUOTA = QuotaName((("user", "alice"), ("client-id", None)), "producer_byte_rate")


def test_golden_records() -> None:
    key, value = acl_record(ACL)
    assert json.loads(key) == {
        "version": 1,
        "kind": "acl",
        "resource_type": 3,
        "resource_name": "g",
        "pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission": 3,
    }
    assert value == b'{"version":1}'
    key, value = quota_record(QUOTA, WrittenQuota(None, 1024.0))
    assert json.loads(key) == {
        "version": 1,
        "kind": "quota",
        "entity": [["user", "alice"], ["client-id", None]],
        "quota": "producer_byte_rate",
    }
    assert json.loads(value or b"") == {"version": 1, "before": None, "wanted": 1024.0}
    key, value = user_record(USER, WrittenCredential(None, "g2"))
    assert json.loads(key) == {
        "version": 1,
        "kind": "user",
        "user": "alice",
        "mechanism": "SCRAM-SHA-512",
    }
    assert json.loads(value or b"") == {"version": 1, "before": None, "wanted": "g2"}


def test_the_last_record_of_a_key_holds() -> None:
    state = WrittenRights()
    for record in (
        acl_record(ACL),
        acl_record(ACL._replace(resource_name="h")),
        quota_record(QUOTA, WrittenQuota(None, 5.0)),
        quota_record(QUOTA, WrittenQuota(5.0, 6.5)),
        acl_record(ACL, is_deleted=True),
    ):
        state.replay(*record)
    assert state.acls == {ACL._replace(resource_name="h")}
    assert state.quotas == {QUOTA: WrittenQuota(5.0, 6.5)}
    state.replay(*quota_record(QUOTA, None))
    assert state.quotas == {}


def test_a_value_is_the_links_if_it_may_have_written_it() -> None:
    written = WrittenQuota(5.0, 6.0)
    assert [written.explains(value) for value in (5.0, 6.0, 7.0)] == [True, True, False]
    assert not WrittenQuota(None, 6.0).explains(0.0)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"[]",
        b"{}",
        b'{"version":2,"kind":"acl"}',
        b'{"version":1,"kind":"user"}',
        b'{"version":1,"kind":"acl","resource_type":"x"}',
        b'{"version":1,"kind":"quota","entity":[["user"]],"quota":"x"}',
        b"\xff",
    ],
)
def test_what_is_no_record_is_refused(key: bytes | None) -> None:
    with pytest.raises(MapFormatError):
        WrittenRights().replay(key, b'{"version":1}')


@pytest.mark.parametrize("wanted", [b"1e999", b"NaN", b"true", b'"6"', b"[" * 9_999, b"9" * 400])
def test_a_refused_quota_changes_nothing(wanted: bytes) -> None:
    state = WrittenRights()
    key, value = quota_record(QUOTA, WrittenQuota(5.0, 6.5))
    assert value is not None
    state.replay(key, value)
    with pytest.raises(MapFormatError):
        state.replay(key, value.replace(b"6.5", wanted))
    assert state.quotas == {QUOTA: WrittenQuota(5.0, 6.5)}


def test_no_link_copies_the_topic() -> None:
    name = rights_topic_name("a-b")
    assert name == "heliograph-rights.a-b.internal"
    assert is_rights_topic(name) and is_internal_topic(name)
    assert not is_rights_topic("heliograph-gaps.a-b.internal")
