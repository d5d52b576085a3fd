"""Which client quotas are set and removed on the target. Pure.

A quota follows if the link's filters select every part of its entity, and no mirror wrote it at the
source. The link sets a quota that the target does not have. It changes and removes only a value
that it wrote itself: another value is the decision of the target's owner, and stays. Removals need
`deletions: mirror`. What the filters no longer select stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror_maker.formats.written_rights import (
    QuotaEntity,
    QuotaName,
    Record,
    WrittenQuota,
    WrittenRights,
    quota_record,
)
from mirror_maker.rights_sync.rights_plan import MirroredRights, RightsPlan
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import Change, ChangeKind

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Values by name, of every entity of a cluster."""


class QuotaFilter:
    """The entities whose quotas follow."""

    def __init__(self, settings: LinkSettings) -> None:
        self._defaults = settings.quota_defaults
        self._by_type = {
            "user": NameFilter(settings.quota_users, ()),
            "client-id": NameFilter(settings.quota_client_ids, ()),
            "ip": NameFilter(settings.quota_ips, ()),
        }

    def selects(self, entity: QuotaEntity) -> bool:
        """Return whether every part of the entity is selected."""
        return bool(entity) and all(
            kind in self._by_type
            and (self._defaults if name is None else self._by_type[kind].selects(name))
            for kind, name in entity
        )


def plan_quotas(
    here: Quotas,
    there: Quotas,
    written: WrittenRights,
    at_source: MirroredRights,
    settings: LinkSettings,
) -> RightsPlan:
    """Plan a round: `here` are the source's quotas, `there` the target's.

    `written` is what the link wrote on the target; `at_source` is what mirrors wrote at the source.
    """
    selected = QuotaFilter(settings)
    wanted = {
        name: value
        for name, value in _flat(here).items()
        if selected.selects(name.entity) and not at_source.has_quota(name, value)
    }
    present = _flat(there)
    changes: list[Change] = []
    noted: list[Record] = []
    forgotten: list[Record] = []
    for name, value in sorted(wanted.items(), key=_order):
        found, own = present.get(name), written.quotas.get(name)
        if found == value:
            continue
        is_own = found is None or (own is not None and own.explains(found))
        changes.append(_change(ChangeKind.SET_QUOTA, name, found, value, withheld=not is_own))
        change = WrittenQuota(found, value)
        if is_own and change != own:
            noted.append(quota_record(name, change))
    for name, own in sorted(written.quotas.items(), key=_order):
        if name in wanted:
            continue
        found = present.get(name)
        if found is None or not own.explains(found):
            forgotten.append(quota_record(name, None))
        elif selected.selects(name.entity):
            withheld = settings.deletions != "mirror"
            changes.append(_change(ChangeKind.REMOVE_QUOTA, name, found, None, withheld=withheld))
    return RightsPlan(changes, noted, forgotten)


def entity_text(entity: QuotaEntity) -> str:
    """Return an entity in words, such as `user 'alice', client-id default`."""
    return ", ".join(f"{kind} {'default' if name is None else repr(name)}" for kind, name in entity)


def _flat(quotas: Quotas) -> dict[QuotaName, float]:
    return {
        QuotaName(entity, quota): value
        for entity, values in quotas.items()
        for quota, value in values.items()
    }


def _order(item: tuple[QuotaName, object]) -> tuple[str, str]:
    """Names may be None, so entities themselves cannot be sorted."""
    return entity_text(item[0].entity), item[0].quota


def _change(
    kind: ChangeKind,
    name: QuotaName,
    before: float | None,
    after: float | None,
    *,
    withheld: bool,
) -> Change:
    return Change(
        kind,
        entity_text(name.entity),
        name.quota,
        _shown(before),
        _shown(after),
        withheld,
        quota=name,
        quota_value=after,
    )


def _shown(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"
