"""Which ACLs of groups and transactional ids are created and deleted on the target. Pure.

Names of groups and transactional ids are the same on both sides, so their ACLs are too. Only ACLs
that no mirror wrote at the source follow.

- A literal ACL of a group follows if the link's filter selects the group.
- A prefixed ACL, or one of `*`, follows as it is if the filter surely selects every group with the
  prefix. Otherwise it becomes one literal ACL per selected group that the source has. So no right
  reaches a group that the link leaves out. Groups of mirrors are always left out.
- ACLs of transactional ids follow as they are. They let nobody write into a copy: that needs WRITE
  on the topic, which no link grants.

Deleted is only what the link wrote and the source no longer has, with `deletions: mirror`. What the
filter no longer selects stays as it is. A literal ACL stays while the source has the pattern that
it came from: the group may be hidden or have expired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from local_cluster.wire.constants import Acl, PatternType, ResourceType
from mirror_maker.formats.written_rights import WrittenRights, acl_record
from mirror_maker.rights_sync.rights_plan import MirroredRights, RightsPlan
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import ChangeKind, acl_change, acl_prefix

GROUPS_OF_MIRRORS: Final = "heliograph-.*"
"""Groups whose ACLs never follow: a DENY at the source could lock the mirror workers out."""


def carried_types(settings: LinkSettings) -> tuple[ResourceType, ...]:
    """Return the types of resources whose ACLs follow, besides topics."""
    wanted = {
        ResourceType.GROUP: settings.sync_group_acls,
        ResourceType.TRANSACTIONAL_ID: settings.sync_transactional_id_acls,
    }
    return tuple(kind for kind, is_carried in wanted.items() if is_carried)


def plan_acls(
    here: Iterable[Acl],
    there: Iterable[Acl],
    written: WrittenRights,
    at_source: MirroredRights,
    groups: Collection[str],
    settings: LinkSettings,
) -> RightsPlan:
    """Plan a round: `here` are the source's ACLs, `groups` its groups, `there` the target's ACLs.

    `written` is what the link wrote on the target; `at_source` is what mirrors wrote at the source.
    """
    rules = _Rules(settings)
    native = [acl for acl in here if rules.is_carried(acl) and acl not in at_source.acls]
    present = set(there)
    wanted = {acl for each in native for acl in rules.carried(each, groups)}
    own = {acl for acl in written.acls if rules.is_carried(acl)}
    missing = sorted(wanted - present)
    changes = [acl_change(ChangeKind.CREATE_ACL, acl, withheld=False) for acl in missing]
    stale = [
        acl
        for acl in sorted(own - wanted)
        if acl not in present or not (rules.is_unselected(acl) or rules.explains(native, acl))
    ]
    withheld = settings.deletions != "mirror"
    changes += [
        acl_change(ChangeKind.DELETE_ACL, acl, withheld=withheld) for acl in stale if acl in present
    ]
    return RightsPlan(
        changes,
        [acl_record(acl) for acl in missing if acl not in own],
        [acl_record(acl, is_deleted=True) for acl in stale if acl not in present],
    )


def needs_groups(here: Iterable[Acl], settings: LinkSettings) -> bool:
    """Return whether a pattern at the source becomes one ACL per group."""
    rules = _Rules(settings)
    return any(rules.is_carried(acl) and rules.is_split(acl) for acl in here)


class _Rules:
    """How the ACLs of one link follow."""

    def __init__(self, settings: LinkSettings) -> None:
        self._types = frozenset(map(int, carried_types(settings)))
        self._groups = NameFilter(settings.groups, (*settings.groups_exclude, GROUPS_OF_MIRRORS))

    def is_carried(self, acl: Acl) -> bool:
        """Return whether ACLs of this type and pattern follow at all."""
        return acl.resource_type in self._types and acl.pattern_type in (
            PatternType.LITERAL,
            PatternType.PREFIXED,
        )

    def is_split(self, acl: Acl) -> bool:
        """Return whether the ACL is a pattern that becomes one ACL per group."""
        prefix = acl_prefix(acl)
        return (
            acl.resource_type == ResourceType.GROUP
            and prefix is not None
            and not self._groups.selects_every(prefix)
        )

    def carried(self, acl: Acl, groups: Iterable[str]) -> Iterator[Acl]:
        """Yield the ACLs of the target that follow from one of the source."""
        if not self.is_split(acl):
            if not self.is_unselected(acl):
                yield acl
            return
        for group in groups:
            if self._covers(acl, group):
                yield _of_group(acl, group)

    def is_unselected(self, acl: Acl) -> bool:
        """Return whether the filter leaves out the groups of an ACL on the target."""
        if acl.resource_type != ResourceType.GROUP:
            return False
        if acl_prefix(acl) is not None:
            return self.is_split(acl)
        return not self._groups.selects(acl.resource_name)

    def explains(self, native: Iterable[Acl], acl: Acl) -> bool:
        """Return whether an ACL on the target is part of a pattern that the source still has."""
        if acl.resource_type != ResourceType.GROUP or acl_prefix(acl) is not None:
            return False
        name = acl.resource_name
        return any(
            self.is_split(each) and self._covers(each, name) and _of_group(each, name) == acl
            for each in native
        )

    def _covers(self, pattern: Acl, group: str) -> bool:
        return group.startswith(acl_prefix(pattern) or "") and self._groups.selects(group)


def _of_group(pattern: Acl, group: str) -> Acl:
    return pattern._replace(resource_name=group, pattern_type=int(PatternType.LITERAL))
