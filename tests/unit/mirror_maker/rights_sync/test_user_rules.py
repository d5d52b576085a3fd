"""Which SCRAM credentials follow, and which the link may change and remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from local_cluster.client.auth.scram_transfer import StoredCredential, StoredCredentials
from local_cluster.wire.constants import CredentialName
from mirror_maker.formats.written_rights import (
    WrittenCredential,
    WrittenRights,
    user_record,
)
from mirror_maker.rights_sync.rights_plan import MirroredRights, RightsPlan
from mirror_maker.rights_sync.user_rules import plan_users
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import ChangeKind, PlannedCredential

ALICE = CredentialName("alice", "SCRAM-SHA-512")
ALICE_256 = CredentialName("alice", "SCRAM-SHA-256")
BOB = CredentialName("bob", "SCRAM-SHA-512")
Generations = Mapping[CredentialName, str]


def stored(generations: Generations, *guarded: str) -> StoredCredentials:
    found = {name: StoredCredential(generation) for name, generation in generations.items()}
    return StoredCredentials(found, frozenset(guarded))


def plan(
    here: Generations | StoredCredentials,
    there: Generations | StoredCredentials,
    own: Mapping[CredentialName, WrittenCredential] | None = None,
    mirrored: Mapping[CredentialName, WrittenCredential] | None = None,
    **changes: Any,
) -> RightsPlan:
    written, others = WrittenRights(), WrittenRights()
    for state, records in ((written, own), (others, mirrored)):
        for name, credential in (records or {}).items():
            state.replay(*user_record(name, credential))
    options: dict[str, Any] = {"sync_users": True, "users": ("alice",)}
    settings = LinkSettings(name="x", source_alias="a", source_bootstrap="-", **(options | changes))
    source, target = (
        each if isinstance(each, StoredCredentials) else stored(each) for each in (here, there)
    )
    return plan_users(source, target, written, MirroredRights.of([others]), settings)


Shown = tuple[ChangeKind, PlannedCredential, bool]


def shown(found: RightsPlan) -> list[Shown]:
    return [
        (each.kind, each.credential, each.withheld)
        for each in found.changes
        if each.credential is not None
    ]


def setting(name: CredentialName, before: str | None, after: str, *, withheld: bool) -> Shown:
    return ChangeKind.SET_USER, PlannedCredential(name, before, after), withheld


def test_selected_users_follow_with_each_mechanism_and_are_noted_first() -> None:
    found = plan({ALICE: "1", ALICE_256: "2", BOB: "3"}, {})
    assert shown(found) == [
        setting(ALICE_256, None, "2", withheld=False),
        setting(ALICE, None, "1", withheld=False),
    ]
    assert found.noted == [
        user_record(ALICE_256, WrittenCredential(None, "2")),
        user_record(ALICE, WrittenCredential(None, "1")),
    ]
    assert plan({ALICE: "1"}, {ALICE: "1"}) == RightsPlan([], [], [])
    assert shown(plan({ALICE: "1"}, {}, users=(".*",), users_exclude=("al.*",))) == []


@pytest.mark.parametrize("before", ["1", "2"])
def test_a_new_password_follows_also_if_the_target_had_refused_the_last_one(before: str) -> None:
    found = plan({ALICE: "3"}, {ALICE: before}, {ALICE: WrittenCredential("1", "2")})
    assert shown(found) == [setting(ALICE, before, "3", withheld=False)]
    note = WrittenCredential(before, "3")
    assert found.noted == [user_record(ALICE, note)]
    # The record is there, and the change is not.
    assert plan({ALICE: "3"}, {ALICE: before}, {ALICE: note}) == found._replace(noted=[])


@pytest.mark.parametrize("own", [None, {ALICE: WrittenCredential("1", "2")}])
def test_a_password_of_the_targets_owner_stays(
    own: dict[CredentialName, WrittenCredential] | None,
) -> None:
    found = plan({ALICE: "3"}, {ALICE: "of the owner"}, own, deletions="mirror")
    assert shown(found) == [setting(ALICE, "of the owner", "3", withheld=True)]
    assert found.noted == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_users_of_brokers_services_and_administrators_never_follow(side: str) -> None:
    guarded = [("alice",), ()] if side == "source" else [(), ("alice",)]
    here, there = stored({ALICE: "1"}, *guarded[0]), stored({}, *guarded[1])
    found = plan(here, there)
    assert shown(found) == [setting(ALICE, None, "1", withheld=True)]
    assert found.noted == []
    # Also not if the link wrote the user before somebody made it an administrator.
    own = {ALICE: WrittenCredential(None, "1")}
    gone = plan(stored({}, *guarded[0]), stored({ALICE: "1"}, "alice"), own, deletions="mirror")
    assert [withheld for _, _, withheld in shown(gone)] == [True]


@pytest.mark.parametrize("deletions", ["report", "mirror"])
def test_a_deleted_user_goes_only_if_deletions_are_mirrored(deletions: str) -> None:
    own = {ALICE: WrittenCredential(None, "1")}
    found = plan({}, {ALICE: "1"}, own, deletions=deletions)
    removal = ChangeKind.REMOVE_USER, PlannedCredential(ALICE, "1", None), deletions == "report"
    assert shown(found) == [removal]
    assert (found.noted, found.forgotten) == ([], [])


def test_the_record_goes_with_the_credential_or_when_the_owner_has_set_another() -> None:
    own = {ALICE: WrittenCredential(None, "1")}
    for there in ({}, {ALICE: "of the owner"}):
        found = plan({}, there, own, deletions="mirror")
        assert found == RightsPlan([], [], [user_record(ALICE, None)])
    # What the filter no longer selects stays as it is, with its record.
    assert plan({}, {}, own, users=("bob",), deletions="mirror") == RightsPlan([], [], [])
    assert plan({ALICE: "1"}, {ALICE: "1"}, None) == RightsPlan([], [], [])


def test_what_a_mirror_wrote_at_the_source_does_not_follow() -> None:
    mirrored = {ALICE: WrittenCredential("1", "2")}
    for generation in ("1", "2"):
        assert shown(plan({ALICE: generation}, {}, mirrored=mirrored)) == []
    assert shown(plan({ALICE: "3"}, {}, mirrored=mirrored)) != []


def test_changes_show_no_generation() -> None:
    (change,) = plan({ALICE: "of-the-source"}, {ALICE: "of-the-target"}).changes
    document = change.as_json()
    assert "of-the" not in str(document)
    assert (document["resource"], document["name"]) == ("user 'alice'", "SCRAM-SHA-512")
