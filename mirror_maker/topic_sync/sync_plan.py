"""What must change on the target so that copies have their sources' configs and ACLs. Pure.

Only differences are changed. Configs and ACLs that only the target has are removed only with
`deletions: mirror`; otherwise the change is listed as withheld. An ACL that lets a principal write
into a copy is never removed. A prefixed ACL stays as long as the source has its pattern.

Configs follow MirrorMaker 2's rules: configs set on the source topic are set on the copy, except
for the excluded names. ACLs follow its rules too: only ACLs of topics, never ALLOW WRITE, and ALLOW
ALL becomes ALLOW READ. In addition, prefixed patterns and `*` are carried over if copies have
prefixed names. For other names a pattern becomes one literal ACL per topic.

All of this applies only to copies that the link owns (`link/config_ownership.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from local_cluster.client.model import TopicConfigs
from local_cluster.wire.constants import (
    Acl,
    AclOperation,
    CredentialName,
    PatternType,
    Permission,
    ResourceType,
)
from mirror_maker.formats.naming import SEPARATOR
from mirror_maker.formats.written_rights import QuotaName
from mirror_maker.link.topic_plan import FORCED_CONFIGS
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings

ALL_TOPICS: Final = "*"


class ChangeKind(StrEnum):
    """What is changed."""

    SET_CONFIG = "set_config"
    RESET_CONFIG = "reset_config"
    CREATE_ACL = "create_acl"
    DELETE_ACL = "delete_acl"
    SET_QUOTA = "set_quota"
    REMOVE_QUOTA = "remove_quota"
    SET_USER = "set_user"
    REMOVE_USER = "remove_user"


class PlannedCredential(NamedTuple):
    """What becomes of a SCRAM credential; plans hold no keys."""

    name: CredentialName
    expected: str | None
    """The generation at the target that is replaced; None if there is none."""
    wanted: str | None
    """The generation at the source; None removes the credential."""


class Change(NamedTuple):
    """One difference between the present and the wanted state."""

    kind: ChangeKind
    resource: str
    """The copy, the name in the ACL, the entity of the quota, or the user."""
    name: str
    """The config or quota, the ACL in words, or the SCRAM mechanism."""
    before: str | None
    after: str | None
    withheld: bool
    """Not applied: the link does not mirror deletions, or the target's owner decides."""
    acl: Acl | None = None
    quota: QuotaName | None = None
    quota_value: float | None = None
    """What the quota becomes; None if it is removed."""
    credential: PlannedCredential | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "resource": self.resource,
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "withheld": self.withheld,
        }


def config_changes(
    copy: str, source: TopicConfigs, target: TopicConfigs, settings: LinkSettings
) -> Iterator[Change]:
    """Yield what must change in the configs of one copy."""
    synced = NameFilter(settings.configs, settings.configs_exclude)
    wanted = {
        name: value
        for name, value in _set_on_topic(source).items()
        if synced.selects(name) and name not in FORCED_CONFIGS
    }
    there = _set_on_topic(target)
    for name, value in sorted(wanted.items()):
        if there.get(name) != value:
            yield Change(ChangeKind.SET_CONFIG, copy, name, there.get(name), value, False)
    withheld = settings.deletions != "mirror"
    for name, value in sorted(there.items()):
        if name not in wanted and name not in FORCED_CONFIGS and synced.selects(name):
            yield Change(ChangeKind.RESET_CONFIG, copy, name, value, None, withheld)


def wanted_acls(source: Iterable[Acl], topics: Iterable[str], settings: LinkSettings) -> set[Acl]:
    """Return the ACLs that the copies of these topics should have."""
    chosen = list(topics)
    return {
        acl._replace(resource_name=name, pattern_type=int(pattern))
        for acl in _carried_over(source)
        for name, pattern in _copied_patterns(acl, chosen, settings)
    }


def acl_changes(
    source: Iterable[Acl], target: Iterable[Acl], topics: Iterable[str], settings: LinkSettings
) -> Iterator[Change]:
    """Yield what must change in the ACLs on copies.

    A prefixed ACL stays as long as the source has its pattern, even if no topic is copied by it at
    present: topics may be hidden or not known yet.

    ACLs of writers into a copy are never removed: a sync never grants that right, so the target
    granted it. The mirror's own principal has one.
    """
    here, there, chosen = set(source), set(target), list(topics)
    wanted = wanted_acls(here, chosen, settings)
    for acl in sorted(wanted - there):
        yield acl_change(ChangeKind.CREATE_ACL, acl, withheld=False)
    copies = {settings.copy_name(name) for name in chosen}
    writers = {acl.principal for acl in there if _lets_write(acl, copies, settings)}
    explained = wanted | _prefixed_acls(here, settings)
    for acl in sorted(there - explained):
        if acl.resource_type == ResourceType.TOPIC and _is_on_copies(acl, copies, settings):
            withheld = settings.deletions != "mirror" or acl.principal in writers
            yield acl_change(ChangeKind.DELETE_ACL, acl, withheld=withheld)


def _carried_over(source: Iterable[Acl]) -> Iterator[Acl]:
    """Yield the source's ACLs that follow, as they would be on a topic of the same name."""
    for acl in source:
        if acl.resource_type != ResourceType.TOPIC:
            continue
        if acl.permission == Permission.ALLOW and acl.operation == AclOperation.WRITE:
            continue
        if acl.permission == Permission.ALLOW and acl.operation == AclOperation.ALL:
            acl = acl._replace(operation=int(AclOperation.READ))
        yield acl


def acl_prefix(acl: Acl) -> str | None:
    """Return the prefix of the names that the ACL covers; None if it covers one name."""
    if acl.pattern_type == PatternType.PREFIXED:
        return acl.resource_name
    is_all = acl.pattern_type == PatternType.LITERAL and acl.resource_name == ALL_TOPICS
    return "" if is_all else None


def _prefixed_acls(source: Iterable[Acl], settings: LinkSettings) -> set[Acl]:
    """Return the prefixed ACLs on copies that this source may explain."""
    if not settings.names.is_prefixed:
        return set()
    return {
        acl._replace(
            resource_name=settings.source_alias + SEPARATOR + prefix,
            pattern_type=int(PatternType.PREFIXED),
        )
        for acl in _carried_over(source)
        if (prefix := acl_prefix(acl)) is not None
    }


def _copied_patterns(
    acl: Acl, topics: list[str], settings: LinkSettings
) -> Iterator[tuple[str, PatternType]]:
    prefix = acl_prefix(acl)
    if prefix is not None:
        matching = [name for name in topics if name.startswith(prefix)]
        if settings.names.is_prefixed:
            # A pattern without a copied topic may be our own, from one cluster before. Carried on,
            # it would travel in circles and gain an alias each time.
            if matching:
                yield settings.source_alias + SEPARATOR + prefix, PatternType.PREFIXED
            return
    elif acl.pattern_type == PatternType.LITERAL:
        matching = [name for name in topics if name == acl.resource_name]
    else:
        return
    for name in matching:
        yield settings.copy_name(name), PatternType.LITERAL


def _is_on_copies(acl: Acl, copies: set[str], settings: LinkSettings) -> bool:
    if acl.pattern_type == PatternType.LITERAL:
        return acl.resource_name in copies
    prefix = settings.source_alias + SEPARATOR
    return (
        acl.pattern_type == PatternType.PREFIXED
        and settings.names.is_prefixed
        and acl.resource_name.startswith(prefix)
    )


def _lets_write(acl: Acl, copies: Iterable[str], settings: LinkSettings) -> bool:
    """Return whether the ACL grants writes into a copy, or under a future copy's name."""
    if acl.resource_type != ResourceType.TOPIC or acl.permission != Permission.ALLOW:
        return False
    if acl.operation not in (AclOperation.WRITE, AclOperation.ALL):
        return False
    alias = settings.source_alias + SEPARATOR if settings.names.is_prefixed else None
    prefix = acl_prefix(acl)
    if prefix is None:
        return acl.resource_name in copies or (
            alias is not None and acl.resource_name.startswith(alias)
        )
    if alias is not None and (prefix.startswith(alias) or alias.startswith(prefix)):
        return True
    return prefix == "" or any(copy.startswith(prefix) for copy in copies)


def acl_change(kind: ChangeKind, acl: Acl, *, withheld: bool) -> Change:
    """Return the creation or deletion of an ACL."""
    return Change(kind, acl.resource_name, str(acl), None, None, withheld, acl)


def _set_on_topic(configs: TopicConfigs) -> Mapping[str, str]:
    """Return the configs set on the topic itself, if their values are visible."""
    return {
        name: value
        for name, (value, is_default) in configs.items()
        if value is not None and not is_default
    }
