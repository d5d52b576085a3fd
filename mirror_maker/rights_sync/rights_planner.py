"""Describes the rights on both sides of a link, and plans the changes. Shell."""

from __future__ import annotations

from typing import NamedTuple

from local_cluster.client.admin.acls import describe_acls
from local_cluster.client.admin.client_quotas import describe_client_quotas
from local_cluster.client.admin.group_offsets import list_groups
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import KafkaError
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.formats.written_rights import WrittenRights
from mirror_maker.rights_sync.acl_rules import carried_types, needs_groups, plan_acls
from mirror_maker.rights_sync.others_rights import OthersRights
from mirror_maker.rights_sync.quota_rules import plan_quotas
from mirror_maker.rights_sync.rights_plan import NOTHING, RightsPlan
from mirror_maker.settings import LinkSettings


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
        """Plan ACLs and quotas; one of them may fail without the other.

        `written` is what the link wrote on the target before this call.
        """
        planned = Planned(NOTHING, [])
        parts = []
        if carried_types(self._settings):
            parts.append(self._plan_acls)
        if self._settings.sync_quotas:
            parts.append(self._plan_quotas)
        for part in parts:
            try:
                plan = planned.plan.plus(await part(written))
                planned = planned._replace(plan=plan)
            except KafkaError as error:
                planned.failures.append(error)
        return planned

    async def _plan_acls(self, written: WrittenRights) -> RightsPlan:
        # What a mirror wrote has a record while it exists. Read before and after, the records
        # explain also what was written or deleted in between.
        before = await self._at_source.read()
        here = await self._acls_of(self._source)
        at_source = before.plus(await self._at_source.read())
        groups = await list_groups(self._source) if needs_groups(here, self._settings) else {}
        there = await self._acls_of(self._sink)
        return plan_acls(here, there, written, at_source, groups, self._settings)

    async def _plan_quotas(self, written: WrittenRights) -> RightsPlan:
        before = await self._at_source.read()
        here = await describe_client_quotas(self._source)
        at_source = before.plus(await self._at_source.read())
        there = await describe_client_quotas(self._sink)
        return plan_quotas(here, there, written, at_source, self._settings)

    async def _acls_of(self, cluster: MirrorClient) -> set[Acl]:
        acls: set[Acl] = set()
        for kind in carried_types(self._settings):
            acls |= await describe_acls(cluster, kind)
        return acls
