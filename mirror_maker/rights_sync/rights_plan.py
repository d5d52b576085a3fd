"""What one round of rights changes, and what mirrors wrote at the source. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from local_cluster.wire.constants import Acl, CredentialName
from mirror_maker.formats.written_rights import (
    QuotaName,
    Record,
    WrittenCredential,
    WrittenQuota,
    WrittenRights,
)
from mirror_maker.topic_sync.sync_plan import Change

USER_PREFIX: Final = "User:"
Name = TypeVar("Name")
Written = TypeVar("Written")


class RightsPlan(NamedTuple):
    """The changes of one round, and their records in the link's topic of rights."""

    changes: list[Change]
    noted: list[Record]
    """To be written before the changes."""
    forgotten: list[Record]
    """To be written when two rounds have found them: the target no longer has the ACL, quota or
    credential, or has another value of it."""

    def plus(self, other: RightsPlan) -> RightsPlan:
        """Return both plans as one."""
        return RightsPlan(
            self.changes + other.changes,
            self.noted + other.noted,
            self.forgotten + other.forgotten,
        )


NOTHING = RightsPlan([], [], [])


class MirroredRights(NamedTuple):
    """The ACLs, quotas and SCRAM credentials in a cluster that mirrors wrote there.

    A link does not carry them on. So no right circulates, in whatever mesh of links: an ACL that
    its owner deletes does not come back over another cluster.
    """

    acls: frozenset[Acl]
    quotas: Mapping[QuotaName, frozenset[WrittenQuota]]
    users: Mapping[CredentialName, frozenset[WrittenCredential]] = {}

    @classmethod
    def of(cls, links: Iterable[WrittenRights]) -> MirroredRights:
        """Return what several links wrote."""
        acls: set[Acl] = set()
        quotas: dict[QuotaName, set[WrittenQuota]] = {}
        users: dict[CredentialName, set[WrittenCredential]] = {}
        for each in links:
            acls |= each.acls
            for name, written in each.quotas.items():
                quotas.setdefault(name, set()).add(written)
            for user, credential in each.users.items():
                users.setdefault(user, set()).add(credential)
        return cls(
            frozenset(acls),
            {name: frozenset(found) for name, found in quotas.items()},
            {user: frozenset(found) for user, found in users.items()},
        )

    def plus(self, other: MirroredRights) -> MirroredRights:
        """Return what either knows."""
        return MirroredRights(
            self.acls | other.acls,
            _merged(self.quotas, other.quotas),
            _merged(self.users, other.users),
        )

    def has_quota(self, name: QuotaName, value: float) -> bool:
        """Return whether a mirror may have written this value."""
        return any(written.explains(value) for written in self.quotas.get(name, ()))

    def has_credential(self, name: CredentialName, generation: str) -> bool:
        """Return whether a mirror may have written this generation."""
        return any(written.explains(generation) for written in self.users.get(name, ()))


def _merged(
    one: Mapping[Name, frozenset[Written]], other: Mapping[Name, frozenset[Written]]
) -> dict[Name, frozenset[Written]]:
    none: frozenset[Written] = frozenset()
    return {name: one.get(name, none) | other.get(name, none) for name in one.keys() | other.keys()}


def users_of(written: WrittenRights) -> set[str]:
    """Return the names of the users that have an ACL or a quota from the link."""
    names = {
        acl.principal.removeprefix(USER_PREFIX)
        for acl in written.acls
        if acl.principal.startswith(USER_PREFIX)
    }
    for quota in written.quotas:
        names |= {name for kind, name in quota.entity if kind == "user" and name is not None}
    return names
