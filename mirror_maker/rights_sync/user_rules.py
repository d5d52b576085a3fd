"""Which SCRAM credentials are set and removed on the target. Pure.

A credential follows if the link's filter selects its user, and no mirror wrote it at the source.
The link sets one that the target does not have. It changes and removes only what it wrote itself:
another credential is the decision of the target's owner, and stays. Removals need `deletions:
mirror`. Users that either side guards never follow (`credential_access`). What the filter no
longer selects stays as it is.

Plans know generations alone. Keys are read when a change is applied.
"""

from __future__ import annotations

from local_cluster.client.auth.scram_transfer import StoredCredentials
from mirror_maker.formats.written_rights import (
    Record,
    WrittenCredential,
    WrittenRights,
    user_record,
)
from mirror_maker.rights_sync.rights_plan import MirroredRights, RightsPlan
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import Change, ChangeKind, PlannedCredential

OF_SOURCE = "as at the source"
OTHER = "another one"


def user_filter(settings: LinkSettings) -> NameFilter:
    """Return the filter of the users that follow."""
    return NameFilter(settings.users, settings.users_exclude)


def plan_users(
    here: StoredCredentials,
    there: StoredCredentials,
    written: WrittenRights,
    at_source: MirroredRights,
    settings: LinkSettings,
) -> RightsPlan:
    """Plan a round: `here` are the source's credentials, `there` the target's.

    `written` is what the link wrote on the target; `at_source` is what mirrors wrote at the source.
    """
    selected = user_filter(settings)
    guarded = here.guarded | there.guarded
    wanted = {
        name: each.generation
        for name, each in here.credentials.items()
        if selected.selects(name.user) and not at_source.has_credential(name, each.generation)
    }
    present = {name: each.generation for name, each in there.credentials.items()}
    changes: list[Change] = []
    noted: list[Record] = []
    forgotten: list[Record] = []
    for name, generation in sorted(wanted.items()):
        found, own = present.get(name), written.users.get(name)
        if found == generation:
            continue
        may_set = name.user not in guarded and (
            found is None or (own is not None and own.explains(found))
        )
        planned = PlannedCredential(name, found, generation)
        changes.append(_change(ChangeKind.SET_USER, planned, withheld=not may_set))
        credential = WrittenCredential(found, generation)
        if may_set and credential != own:
            noted.append(user_record(name, credential))
    for name, own in sorted(written.users.items()):
        if name in wanted:
            continue
        found = present.get(name)
        if not selected.selects(name.user):
            continue  # it was not asked for at the target
        if found is None or not own.explains(found):
            forgotten.append(user_record(name, None))
        else:
            withheld = settings.deletions != "mirror" or name.user in guarded
            planned = PlannedCredential(name, found, None)
            changes.append(_change(ChangeKind.REMOVE_USER, planned, withheld=withheld))
    return RightsPlan(changes, noted, forgotten)


def _change(kind: ChangeKind, planned: PlannedCredential, *, withheld: bool) -> Change:
    return Change(
        kind,
        f"user {planned.name.user!r}",
        planned.name.mechanism,
        None if planned.expected is None else OTHER,
        None if planned.wanted is None else OF_SOURCE,
        withheld,
        credential=planned,
    )
