"""What one round of rights changes, and what mirrors wrote at the source. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from local_cluster.wire.constants import Acl
from mirror_maker.formats.written_rights import QuotaName, Record, WrittenQuota, WrittenRights
from mirror_maker.topic_sync.sync_plan import Change

USER_PREFIX: Final = "User:"


class RightsPlan(NamedTuple):
    """The changes of one round, and their records in the link's topic of rights."""

    changes: list[Change]
    noted: list[Record]
    """To be written before the changes."""
    forgotten: list[Record]
    """To be written when two rounds have found them: the target no longer has the ACL or quota, or
    has another value for the quota."""

    def plus(self, other: RightsPlan) -> RightsPlan:
        """Return both plans as one."""
        return RightsPlan(
            self.changes + other.changes,
            self.noted + other.noted,
            self.forgotten + other.forgotten,
        )


NOTHING = RightsPlan([], [], [])


class MirroredRights(NamedTuple):
    """The ACLs and quotas in a cluster that mirrors wrote there.

    A link does not carry them on. So no right circulates, in whatever mesh of links: an ACL that
    its owner deletes does not come back over another cluster.
    """

    acls: frozenset[Acl]
    quotas: Mapping[QuotaName, frozenset[WrittenQuota]]

    @classmethod
    def of(cls, links: Iterable[WrittenRights]) -> MirroredRights:
        """Return what several links wrote."""
        acls: set[Acl] = set()
        quotas: dict[QuotaName, set[WrittenQuota]] = {}
        for each in links:
            acls |= each.acls
            for name, written in each.quotas.items():
                quotas.setdefault(name, set()).add(written)
        return cls(frozenset(acls), {name: frozenset(found) for name, found in quotas.items()})

    def plus(self, other: MirroredRights) -> MirroredRights:
        """Return what either knows."""
        none: frozenset[WrittenQuota] = frozenset()
        return MirroredRights(
            self.acls | other.acls,
            {
                name: self.quotas.get(name, none) | other.quotas.get(name, none)
                for name in self.quotas.keys() | other.quotas.keys()
            },
        )

    def has_quota(self, name: QuotaName, value: float) -> bool:
        """Return whether a mirror may have written this value."""
        return any(written.explains(value) for written in self.quotas.get(name, ()))


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
