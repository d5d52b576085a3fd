"""Which client quotas follow, and which values the link may change and remove."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_maker.formats.written_rights import (
    QuotaEntity,
    QuotaName,
    WrittenQuota,
    WrittenRights,
    quota_record,
)
from mirror_maker.rights_sync.quota_rules import Quotas, entity_text, plan_quotas
from mirror_maker.rights_sync.rights_plan import MirroredRights, RightsPlan
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import Change, ChangeKind

ALICE: QuotaEntity = (("user", "alice"),)
PAIR: QuotaEntity = (("user", "alice"), ("client-id", "etl"))
EACH_CLIENT: QuotaEntity = (("user", "alice"), ("client-id", None))
CLIENT: QuotaEntity = (("client-id", "etl"),)
ADDRESS: QuotaEntity = (("ip", "10.0.0.1"),)
EVERYBODY: QuotaEntity = (("user", None),)
RATE = "producer_byte_rate"
AT = QuotaName(ALICE, RATE)


def link(**changes: Any) -> LinkSettings:
    options: dict[str, Any] = {"sync_quotas": True}
    return LinkSettings(name="x", source_alias="a", source_bootstrap="-", **options | changes)


def plan(
    here: Quotas,
    there: Quotas,
    own: dict[QuotaName, WrittenQuota] | None = None,
    mirrored: dict[QuotaName, WrittenQuota] | None = None,
    **changes: Any,
) -> RightsPlan:
    written, others = WrittenRights(), WrittenRights()
    for state, records in ((written, own), (others, mirrored)):
        for name, quota in (records or {}).items():
            state.replay(*quota_record(name, quota))
    return plan_quotas(here, there, written, MirroredRights.of([others]), link(**changes))


def shown(change: Change) -> tuple[ChangeKind, str | None, str | None, bool]:
    return change.kind, change.before, change.after, change.withheld


def test_a_missing_quota_is_set_and_noted_first() -> None:
    found = plan({ALICE: {RATE: 10.0, "request_percentage": 12.5}}, {ALICE: {RATE: 10.0}})
    (change,) = found.changes
    assert (change.resource, change.name) == ("user 'alice'", "request_percentage")
    assert shown(change) == (ChangeKind.SET_QUOTA, None, "12.5", False)
    name = QuotaName(ALICE, "request_percentage")
    assert (change.quota, change.quota_value) == (name, 12.5)
    assert found.noted == [quota_record(name, WrittenQuota(None, 12.5))]


@pytest.mark.parametrize("before", [5.0, 6.0])
def test_a_value_of_the_link_follows_also_if_the_target_had_refused_the_last_one(
    before: float,
) -> None:
    own = {AT: WrittenQuota(5.0, 6.0)}
    found = plan({ALICE: {RATE: 7.0}}, {ALICE: {RATE: before}}, own)
    assert [shown(each)[2:] for each in found.changes] == [("7", False)]
    assert found.noted == [quota_record(AT, WrittenQuota(before, 7.0))]
    # The record is there, and the change is not.
    again = plan({ALICE: {RATE: 7.0}}, {ALICE: {RATE: before}}, {AT: WrittenQuota(before, 7.0)})
    assert (again.changes, again.noted) == (found.changes, [])


@pytest.mark.parametrize("own", [None, {AT: WrittenQuota(5.0, 6.0)}])
def test_a_value_of_the_targets_owner_stays(own: dict[QuotaName, WrittenQuota] | None) -> None:
    found = plan({ALICE: {RATE: 7.0}}, {ALICE: {RATE: 8.0}}, own, deletions="mirror")
    assert [shown(each) for each in found.changes] == [(ChangeKind.SET_QUOTA, "8", "7", True)]
    assert found.noted == found.forgotten == []
    gone = plan({}, {ALICE: {RATE: 8.0}}, own, deletions="mirror")
    assert gone.changes == []
    assert gone.forgotten == ([quota_record(AT, None)] if own else [])


@pytest.mark.parametrize(("deletions", "withheld"), [("mirror", False), ("report", True)])
def test_only_a_value_of_the_link_is_removed(deletions: str, withheld: bool) -> None:
    own = {AT: WrittenQuota(None, 6.0)}
    there: Quotas = {ALICE: {RATE: 6.0}, CLIENT: {RATE: 1.0}}
    found = plan({}, there, own, deletions=deletions)
    assert [(each.quota, *shown(each)) for each in found.changes] == [
        (AT, ChangeKind.REMOVE_QUOTA, "6", None, withheld)
    ]
    assert found.forgotten == []
    assert plan({}, {}, own).forgotten == [quota_record(AT, None)]
    assert plan({}, there, own, deletions=deletions, quota_users=("bob",)).changes == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {ALICE, PAIR, CLIENT, ADDRESS}),
        ({"quota_defaults": True}, {ALICE, PAIR, EACH_CLIENT, CLIENT, ADDRESS, EVERYBODY}),
        ({"quota_users": ("b.*",), "quota_defaults": True}, {CLIENT, ADDRESS, EVERYBODY}),
        ({"quota_client_ids": ()}, {ALICE, ADDRESS}),
        ({"quota_ips": (r"10\.1\..*",)}, {ALICE, PAIR, CLIENT}),
    ],
)
def test_every_part_of_an_entity_must_be_selected(
    options: dict[str, Any], expected: set[QuotaEntity]
) -> None:
    every = (ALICE, PAIR, EACH_CLIENT, CLIENT, ADDRESS, EVERYBODY)
    found = plan({entity: {RATE: 1.0} for entity in every}, {}, **options)
    assert {each.quota.entity for each in found.changes if each.quota} == expected


def test_what_a_mirror_wrote_at_the_source_is_not_carried_on() -> None:
    here: Quotas = {ALICE: {RATE: 6.0}}
    assert plan(here, {}, mirrored={AT: WrittenQuota(None, 6.0)}).changes == []
    # The source's owner has changed the mirror's value, so it is native.
    found = plan(here, {}, mirrored={AT: WrittenQuota(None, 5.0)})
    assert [shown(each)[2:] for each in found.changes] == [("6", False)]


def test_entities_in_words() -> None:
    assert entity_text(EACH_CLIENT) == "user 'alice', client-id default"
