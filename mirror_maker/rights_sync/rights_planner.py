"""Describes the rights on both sides of a link, and plans the changes. Shell."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from local_cluster.client.admin.acls import describe_acls
from local_cluster.client.admin.client_quotas import describe_client_quotas
from local_cluster.client.admin.group_offsets import list_groups
from local_cluster.client.admin.stored_credentials import read_stored_credentials
from local_cluster.client.auth.scram_transfer import StoredCredentials
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.formats.written_rights import WrittenRights
from mirror_maker.rights_sync.acl_rules import carried_types, needs_groups, plan_acls
from mirror_maker.rights_sync.others_rights import OthersRights
from mirror_maker.rights_sync.quota_rules import Quotas, plan_quotas
from mirror_maker.rights_sync.rights_plan import NOTHING, MirroredRights, RightsPlan
from mirror_maker.rights_sync.user_rules import plan_users, user_filter
from mirror_maker.settings import LinkSettings

Told = TypeVar("Told")


class Planned(NamedTuple):
    """A plan, and why it lacks a part."""

    plan: RightsPlan
    failures: list[KafkaError]


class RightsPlanner:
    """Plans the rounds of one link; changes nothing."""

    def __init__(self, source: MirrorClient, sink: MirrorClient, settings: LinkSettings) -> None:
        self._source = source
        self._sink = sink
        self._settings = settings
        self._at_source = OthersRights(source)

    async def plan(self, written: WrittenRights) -> Planned:
        """Plan ACLs, quotas and users; each may fail without the others. Raises KafkaError.

        `written` is what the link wrote on the target before this call.
        """
        settings = self._settings
        # What a mirror wrote has a record while it exists. Read before and after, the records
        # explain also what was written or deleted in between.
        before = await self._at_source.read()
        acls = await _told(self._acls_of(self._source))
        quotas = await _told(describe_client_quotas(self._source)) if settings.sync_quotas else None
        users = await _told(read_stored_credentials(self._source)) if settings.sync_users else None
        at_source = before.plus(await self._at_source.read())
        plan, failures = NOTHING, []
        parts = [self._plan_acls(acls, written, at_source)] if carried_types(settings) else []
        if quotas is not None:
            parts.append(self._plan_quotas(quotas, written, at_source))
        if users is not None:
            parts.append(self._plan_users(users, written, at_source))
        for part in parts:
            found = await _told(part)
            if isinstance(found, KafkaError):
                failures.append(found)
            else:
                plan = plan.plus(found)
        return Planned(plan, failures)

    async def _plan_acls(
        self, here: set[Acl] | KafkaError, written: WrittenRights, at_source: MirroredRights
    ) -> RightsPlan:
        if isinstance(here, KafkaError):
            raise here
        groups = await list_groups(self._source) if needs_groups(here, self._settings) else {}
        there = await self._acls_of(self._sink)
        return plan_acls(here, there, written, at_source, groups, self._settings)

    async def _plan_quotas(
        self, here: Quotas | KafkaError, written: WrittenRights, at_source: MirroredRights
    ) -> RightsPlan:
        if isinstance(here, KafkaError):
            raise here
        there = await describe_client_quotas(self._sink)
        return plan_quotas(here, there, written, at_source, self._settings)

    async def _plan_users(
        self,
        here: StoredCredentials | KafkaError,
        written: WrittenRights,
        at_source: MirroredRights,
    ) -> RightsPlan:
        if isinstance(here, KafkaError):
            raise _unserved(here, self._settings.source_alias)
        names = {name.user for name in here.credentials} | {name.user for name in written.users}
        selected = user_filter(self._settings)
        wanted = sorted(name for name in names if selected.selects(name))
        try:
            there = await read_stored_credentials(self._sink, wanted)
        except KafkaError as error:
            raise _unserved(error, "the target") from error
        return plan_users(here, there, written, at_source, self._settings)

    async def _acls_of(self, cluster: MirrorClient) -> set[Acl]:
        acls: set[Acl] = set()
        for kind in carried_types(self._settings):
            acls |= await describe_acls(cluster, kind)
        return acls


def _unserved(error: KafkaError, cluster: str) -> KafkaError:
    """Return an error that says why a cluster takes no part in the sync of users."""
    if error.code != ErrorCode.unsupported_version:
        return error
    return KafkaError(
        error.code,
        f"SCRAM users do not follow: {cluster} does not serve stored credentials. Brokers of ours "
        "do, with an authorizer and on a listener with TLS; Apache Kafka does not",
    )


async def _told(work: Awaitable[Told]) -> Told | KafkaError:
    """Return the result of the work, or its error."""
    try:
        return await work
    except KafkaError as error:
        return error
