"""Users, ACLs and quotas of a file against those of a cluster: tables, any sequence of files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.security.authentication.scram_credentials import credential_of
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from topology.deployment.rights_difference import (
    KnownRights,
    OwnedRights,
    PlannedRights,
    RightsChange,
    UserKey,
    decode_owned,
    differences,
    encode_owned,
    owned_afterwards,
    owned_while_applying,
)
from topology.model.quotas import QuotaKey

SHA = "SCRAM-SHA-256"
ALICE, BOB = UserKey("alice", SHA), UserKey("bob", SHA)


def acl(name: str, permission: Permission = Permission.ALLOW) -> Acl:
    topic, literal = int(ResourceType.TOPIC), int(PatternType.LITERAL)
    return Acl(topic, name, literal, "User:a", "*", int(AclOperation.READ), int(permission))


def known(users: dict[UserKey, str], acls: set[Acl] | None, owned: OwnedRights) -> KnownRights:
    credentials = {key: credential_of(SHA, text, b"salt") for key, text in users.items()}
    return KnownRights(users=credentials, acls=acls, owned=owned)


MINE = OwnedRights(users=frozenset({ALICE}), acls=frozenset({acl("t")}))
NOTHING = OwnedRights()


@pytest.mark.parametrize(
    ("in_file", "in_cluster", "owned", "expected"),
    [
        ({ALICE: "secret-1"}, {}, NOTHING, ["create user alice (SCRAM-SHA-256)"]),
        (
            {ALICE: "secret-2"},
            {ALICE: "secret-1"},
            NOTHING,
            ["change the password of user alice (SCRAM-SHA-256)"],
        ),
        ({ALICE: "secret-1"}, {ALICE: "secret-1"}, NOTHING, []),
        ({}, {ALICE: "secret-1"}, MINE, ["delete user alice (SCRAM-SHA-256)"]),
        ({}, {ALICE: "secret-1"}, NOTHING, []),
        ({}, {}, MINE, []),
    ],
)
def test_users(
    in_file: dict[UserKey, str],
    in_cluster: dict[UserKey, str],
    owned: OwnedRights,
    expected: list[str],
) -> None:
    changes = differences(in_file, (), known(in_cluster, set(), owned))
    assert [each.sentence() for each in changes] == expected
    assert "secret" not in str([changes, [each.as_json() for each in changes]])


def test_acls() -> None:
    (created,) = differences({}, [acl("t")], known({}, set(), NOTHING))
    assert created.sentence() == "create ACL ALLOW User:a from * READ TOPIC 't' LITERAL"
    assert created.as_json() == {
        "action": "create",
        "kind": "acl",
        "name": "ALLOW User:a from * READ TOPIC 't' LITERAL",
        "mechanism": None,
    }
    assert differences({}, [acl("t")], known({}, {acl("t")}, NOTHING)) == []
    deleted = RightsChange(action="delete", acl=acl("t"))
    assert differences({}, [], known({}, {acl("t"), acl("of others")}, MINE)) == [deleted]
    assert differences({}, [acl("new")], known({}, None, MINE)) == []


def test_what_vanished_is_forgotten_and_unknown_acls_are_kept() -> None:
    assert owned_afterwards(known({}, set(), MINE), []) == NOTHING
    left = owned_afterwards(known({}, None, MINE), [])
    assert left == replace(MINE, users=frozenset())


def test_a_plan_says_what_it_does_not_know() -> None:
    changes = (RightsChange(action="create", user=BOB),)
    plan = PlannedRights(cluster="jfk", changes=changes, unknown="2 ACLs are compared later")
    lines = ["jfk: create user bob (SCRAM-SHA-256)", "jfk: 2 ACLs are compared later"]
    assert plan.lines() == lines


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"[" * 9_999,
        b'{"version":2}',
        b'{"version":1,"users":[]}',
        b'{"version":1,"users":[["u",7]],"acls":[]}',
        b'{"version":1,"users":["ab"],"acls":[["2","t",3,"User:u","*",3,3]]}',
        b'{"version":1,"users":[],"acls":[[2,"t",3]]}',
        b'{"version":1,"users":[],"acls":[],"quotas":[[[["user",7]],"q"]]}',
        b'{"version":1,"users":[],"acls":[],"quotas":["q"]}',
    ],
)
def test_a_foreign_list_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        decode_owned(payload)


ACLS = [acl(name, kind) for name in "abc" for kind in (Permission.ALLOW, Permission.DENY)]


@dataclass
class Cluster:
    """Users and ACLs, of which some belong to others, and the list of what the file created."""

    acls: set[Acl]
    owned: OwnedRights = NOTHING
    denied_then_allowed: list[str] = field(default_factory=list)

    def up(self, wanted: set[Acl], steps_max: int) -> None:
        """Apply the difference; a crash comes after `steps_max` steps."""
        before = KnownRights(users={}, acls=set(self.acls), owned=self.owned)
        changes = differences({}, wanted, before)
        self.owned = owned_while_applying(self.owned, changes)
        limit = allowed(self.acls) | allowed(wanted | self.foreign(wanted))
        for each in changes[:steps_max]:
            assert each.acl is not None
            if each.action == "create":
                self.acls.add(each.acl)
            else:
                self.acls.discard(each.acl)
            assert allowed(self.acls) <= limit
        if steps_max >= len(changes):
            self.owned = owned_afterwards(before, changes)

    def foreign(self, wanted: set[Acl]) -> set[Acl]:
        return self.acls - self.owned.acls - wanted


def allowed(acls: set[Acl]) -> set[str]:
    names = {each.resource_name for each in acls if each.permission == Permission.ALLOW}
    return names - {each.resource_name for each in acls if each.permission == Permission.DENY}


@given(
    foreign=st.sets(st.sampled_from(ACLS)),
    files=st.lists(
        st.tuples(st.sets(st.sampled_from(ACLS)), st.integers(0, 12)), min_size=1, max_size=5
    ),
)
def test_any_sequence_of_files_and_crashes(
    foreign: set[Acl], files: list[tuple[set[Acl], int]]
) -> None:
    cluster = Cluster(set(foreign))
    for wanted, steps in files:
        cluster.up(wanted, steps)
        assert foreign <= cluster.acls, "what others created stays"
    last = files[-1][0]
    cluster.up(last, len(ACLS))
    assert cluster.acls == foreign | last, "the file's own are there, and nothing else of it"
    assert decode_owned(encode_owned(cluster.owned)) == cluster.owned
    assert cluster.owned.acls == last - foreign
    assert (
        differences({}, last, KnownRights(users={}, acls=cluster.acls, owned=cluster.owned)) == []
    )


ALICE_BYTES = QuotaKey((("user", "alice"),), "producer_byte_rate")
ANY_PAIR = QuotaKey((("user", None), ("client-id", None)), "request_percentage")
ADDRESS = QuotaKey((("ip", "10.0.0.7"),), "connection_creation_rate")
MY_QUOTA = OwnedRights(quotas=frozenset({ALICE_BYTES}))
OTHERS: Final = ", which `up` had not set and will not remove"


@pytest.mark.parametrize(
    ("in_file", "in_cluster", "owned", "expected"),
    [
        (9.0, None, NOTHING, "create quota producer_byte_rate 9 of user alice"),
        (9.0, 9.0, NOTHING, None),
        (9.0, 8.0, MY_QUOTA, "change quota producer_byte_rate 9 of user alice, before 8"),
        (9.0, 8.0, NOTHING, f"change quota producer_byte_rate 9 of user alice, before 8{OTHERS}"),
        (None, 8.0, MY_QUOTA, "delete quota producer_byte_rate of user alice, before 8"),
        (None, 8.0, NOTHING, None),
        (None, None, MY_QUOTA, None),
    ],
)
def test_quotas(
    in_file: float | None, in_cluster: float | None, owned: OwnedRights, expected: str | None
) -> None:
    wanted = {} if in_file is None else {ALICE_BYTES: in_file}
    there = {ADDRESS: 5.0} | ({} if in_cluster is None else {ALICE_BYTES: in_cluster})
    changes = differences({}, (), replace(known({}, set(), owned), quotas=there), wanted)
    assert [each.sentence() for each in changes] == ([] if expected is None else [expected])


def test_a_quota_of_others_is_changed_and_not_owned() -> None:
    before = replace(known({}, set(), NOTHING), quotas={ALICE_BYTES: 8.0})
    changes = differences({}, (), before, {ALICE_BYTES: 9.0, ANY_PAIR: 12.5})
    owned = owned_afterwards(before, changes)
    assert owned == OwnedRights(quotas=frozenset({ANY_PAIR})), "what it created alone"
    assert owned_while_applying(NOTHING, changes) == owned
    assert changes[1].as_json() == {
        "action": "create",
        "kind": "quota",
        "name": "request_percentage of user (default), client-id (default)",
        "mechanism": None,
        "value": 12.5,
        "before": None,
    }


QUOTAS = st.dictionaries(
    st.sampled_from([ALICE_BYTES, ANY_PAIR, ADDRESS]), st.sampled_from([1.0, 2.0])
)


@given(foreign=QUOTAS, files=st.lists(st.tuples(QUOTAS, st.integers(0, 6)), max_size=5))
def test_any_sequence_of_quotas_and_crashes(
    foreign: dict[QuotaKey, float], files: list[tuple[dict[QuotaKey, float], int]]
) -> None:
    there, owned = dict(foreign), NOTHING
    for wanted, steps_max in [*files, ({}, 6)]:
        before = KnownRights(users={}, acls=None, owned=owned, quotas=dict(there))
        changes = differences({}, (), before, wanted)
        owned = owned_while_applying(owned, changes)
        for step in (each.quota for each in changes[:steps_max]):
            assert step is not None
            assert there.get(step.key) == step.before
            there.pop(step.key, None)
            if step.value is not None:
                there[step.key] = step.value
        if steps_max >= len(changes):
            assert there.items() >= wanted.items(), "the file's are there"
            owned = owned_afterwards(before, changes)
            assert decode_owned(encode_owned(owned)) == owned
        assert foreign.keys() <= there.keys(), "what others created stays"
    assert there.keys() == foreign.keys(), "nothing else of the file is left"
    assert owned == NOTHING


def test_the_list_of_an_older_version_has_no_quotas() -> None:
    assert b"quotas" not in encode_owned(MINE)
    assert decode_owned(b'{"version":1,"users":[],"acls":[]}') == NOTHING
