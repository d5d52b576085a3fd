"""Rounds of a link's rights, cut off anywhere, beside owners who change both sides."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.auth.scram_transfer import StoredCredential, StoredCredentials
from local_cluster.wire.constants import (
    Acl,
    AclOperation,
    CredentialName,
    PatternType,
    Permission,
    ResourceType,
)
from mirror_maker.formats.written_rights import QuotaEntity, QuotaName, Record, WrittenRights
from mirror_maker.rights_sync.acl_rules import plan_acls
from mirror_maker.rights_sync.quota_rules import QuotaFilter, plan_quotas
from mirror_maker.rights_sync.rights_plan import MirroredRights
from mirror_maker.rights_sync.user_rules import plan_users
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import Change

ACLS = [
    Acl(kind, name, pattern, "User:u", "*", AclOperation.READ, Permission.ALLOW)
    for kind, name, pattern in (
        (ResourceType.GROUP, "a", PatternType.LITERAL),
        (ResourceType.GROUP, "ab", PatternType.LITERAL),
        (ResourceType.GROUP, "a", PatternType.PREFIXED),
        (ResourceType.GROUP, "*", PatternType.LITERAL),
        (ResourceType.GROUP, "x", PatternType.LITERAL),
        (ResourceType.TRANSACTIONAL_ID, "t", PatternType.PREFIXED),
    )
]
GROUPS = ["a", "ab", "x"]
ENTITIES: list[QuotaEntity] = [
    (("user", "u"),),
    (("user", "x"),),
    (("user", "u"), ("client-id", "c")),
    (("user", None),),
]
USERS = [
    CredentialName(user, f"SCRAM-SHA-{size}") for user, size in (("u", 256), ("u", 512), ("x", 512))
]
QUOTAS = [QuotaName(entity, "producer_byte_rate") for entity in ENTITIES]
CUT_OFF = 0.4
"""How often a round is killed in the middle."""


class Side:
    """The rights of one cluster."""

    def __init__(self) -> None:
        self.acls: set[Acl] = set()
        self.quotas: dict[QuotaName, float] = {}
        self.users: dict[CredentialName, str] = {}
        """Generations."""

    def described_users(self) -> StoredCredentials:
        found = {name: StoredCredential(generation) for name, generation in self.users.items()}
        return StoredCredentials(found, frozenset())

    def described_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return {name.entity: {name.quota: value} for name, value in self.quotas.items()}

    def apply(self, change: Change) -> None:
        if change.acl is not None:
            (self.acls.add if "create" in change.kind else self.acls.discard)(change.acl)
        elif change.credential is not None:
            name, expected, wanted = change.credential
            # As a broker does it: nothing that somebody else has set is overwritten.
            assert self.users.get(name) == expected
            self.users.pop(name, None)
            if wanted is not None:
                self.users[name] = wanted
        elif change.quota is not None and change.quota_value is not None:
            self.quotas[change.quota] = change.quota_value
        elif change.quota is not None:
            self.quotas.pop(change.quota, None)


class Link:
    """A link, its topic of rights, and what its target's owner wrote last."""

    def __init__(self, source: Side, target: Side, settings: LinkSettings) -> None:
        self.source, self.target = source, target
        self.settings = settings
        self.written = WrittenRights()
        self._forgettable: set[bytes] = set()

    def steps(self, at_source: MirroredRights) -> Iterator[None]:
        """Do a round as a worker does it; whoever stops in between has killed the worker."""
        acls = plan_acls(
            self.source.acls, self.target.acls, self.written, at_source, GROUPS, self.settings
        )
        quotas = plan_quotas(
            self.source.described_quotas(),
            self.target.described_quotas(),
            self.written,
            at_source,
            self.settings,
        )
        users = plan_users(
            self.source.described_users(),
            self.target.described_users(),
            self.written,
            at_source,
            self.settings,
        )
        plan = acls.plus(quotas).plus(users)
        for record in plan.noted:
            self._write(record)
            yield
        for change in plan.changes:
            if not change.withheld:
                self.target.apply(change)
                yield
        for record in plan.forgotten:
            if record[0] in self._forgettable:
                self._write(record)
                yield
        self._forgettable = {key for key, _ in plan.forgotten}

    def _write(self, record: Record) -> None:
        self.written.replay(*record)

    def run(self, at_source: MirroredRights, random: Random | None = None) -> None:
        for _ in self.steps(at_source):
            if random is not None and random.random() < CUT_OFF:
                self._forgettable = set()
                return

    @property
    def mirrored(self) -> MirroredRights:
        """What the link wrote, as a link onwards reads it."""
        return MirroredRights.of([self.written])


NONE = MirroredRights(frozenset(), {})


def settings(name: str, **options: Any) -> LinkSettings:
    return LinkSettings(
        name=name,
        source_alias=name,
        source_bootstrap="-",
        sync_group_acls=True,
        sync_transactional_id_acls=True,
        sync_quotas=True,
        groups=("a.*",),
        groups_exclude=(),
        quota_users=("u",),
        sync_users=True,
        users=("u",),
        deletions="mirror",
        **options,
    )


def change_anything(side: Side, random: Random) -> None:
    """An owner creates or deletes an ACL, sets or removes a quota, or sets or deletes a user."""
    if random.random() < 0.3:
        user = random.choice(USERS)
        if user in side.users and random.random() < 0.5:
            del side.users[user]
        else:
            side.users[user] = f"{random.randrange(10**9)}"
    elif random.random() < 0.5:
        acl = random.choice(ACLS)
        side.acls.symmetric_difference_update({acl})
    else:
        name = random.choice(QUOTAS)
        if name in side.quotas and random.random() < 0.5:
            del side.quotas[name]
        else:
            side.quotas[name] = float(random.randrange(1, 4))


@given(st.integers(0, 2**32))
def test_the_target_gets_the_sources_rights_and_keeps_its_own(seed: int) -> None:
    random = Random(seed)
    source, target = Side(), Side()
    # The owner of the target has rights of its own, which the link never touches.
    mine = set(random.sample(ACLS, 2))
    own = dict.fromkeys(random.sample(QUOTAS, 2), 9.0)
    theirs = dict.fromkeys(random.sample(USERS, 1), "of the target")
    target.acls, target.quotas, target.users = set(mine), dict(own), dict(theirs)
    link = Link(source, target, settings("a"))
    for _ in range(random.randrange(12)):
        change_anything(source, random)
        link.run(NONE, random)
        assert mine <= target.acls
        assert own.items() <= target.quotas.items()
        assert theirs.items() <= target.users.items()
    for _ in range(3):
        link.run(NONE)
    names = NameFilter(link.settings.groups, ())
    wanted = set()
    for acl in source.acls:
        if acl.resource_type == ResourceType.GROUP and acl.resource_name == "*":
            # `*` is literal already.
            wanted |= {acl._replace(resource_name=g) for g in GROUPS if names.selects(g)}
        elif acl.resource_type != ResourceType.GROUP or names.selects(acl.resource_name):
            wanted.add(acl)
    assert target.acls == wanted | mine
    selected = QuotaFilter(link.settings)
    followed = {n: value for n, value in source.quotas.items() if selected.selects(n.entity)}
    assert target.quotas == followed | own
    users = {name: each for name, each in source.users.items() if name.user == "u"}
    assert target.users == users | theirs
    assert link.written.users.keys() == users.keys() - theirs.keys()
    assert link.written.acls == wanted - mine
    assert link.written.quotas.keys() == followed.keys() - own.keys()


@given(st.integers(0, 2**32))
def test_what_its_owner_deletes_does_not_come_back_from_a_ring_of_clusters(seed: int) -> None:
    random = Random(seed)
    sides = [Side() for _ in range(random.randrange(2, 4))]
    links = [
        Link(side, sides[(index + 1) % len(sides)], settings(str(index)))
        for index, side in enumerate(sides)
    ]
    acl, quota, user = random.choice(ACLS), random.choice(QUOTAS), random.choice(USERS)
    first = random.choice(sides)
    first.acls.add(acl)
    first.quotas[quota] = 1.0
    first.users[user] = "1"
    for _ in range(random.randrange(20)):
        index = random.randrange(len(links))
        links[index].run(links[index - 1].mirrored, random)
    first.acls.discard(acl)
    first.quotas.pop(quota)
    first.users.pop(user)
    for _ in range(4 * len(links)):
        order = random.sample(range(len(links)), len(links))
        for index in order:
            links[index].run(links[index - 1].mirrored)
    assert [(side.acls, side.quotas, side.users) for side in sides] == [(set(), {}, {})] * len(
        sides
    )
    written = [each.written for each in links]
    assert [(each.acls, each.quotas, each.users) for each in written] == [(set(), {}, {})] * len(
        links
    )
