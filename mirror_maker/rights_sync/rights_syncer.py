"""The rounds of one link's rights: records written, changes applied, records deleted. Shell."""

from __future__ import annotations

import logging
from typing import Any, Final

from local_cluster.client.admin.scram_users import describe_scram_users
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.written_rights import WrittenRights, rights_topic_name
from mirror_maker.link.link import LinkWorker
from mirror_maker.model import LinkFailedError
from mirror_maker.periodic import PeriodicTask, pause_of
from mirror_maker.rights_sync.rights_plan import users_of
from mirror_maker.rights_sync.rights_planner import RightsPlanner
from mirror_maker.rights_sync.user_writer import apply_users
from mirror_maker.stores.audit_topics import ReplaceableTopic
from mirror_maker.stores.state_topic import StateTopic
from mirror_maker.topic_sync.sync_plan import Change
from mirror_maker.topic_sync.topic_syncer import apply_changes

SHOWN_MAX: Final = 200
"""Changes and users that the status lists one by one."""

log = logging.getLogger(__name__)


class RightsSyncer:
    """The ACLs of groups and transactional ids, the quotas and the SCRAM users of one link.

    `run` until cancelled.

    One worker of the link does it for all.
    """

    def __init__(self, link: LinkWorker, source: MirrorClient, sink: MirrorClient) -> None:
        self._link = link
        self._settings = link.settings
        self._source = source
        self._sink = sink
        self._planner = RightsPlanner(source, sink, link.settings)
        self._written = WrittenRights()
        self._topic = ReplaceableTopic(self._new_topic)
        self._forgettable: frozenset[bytes] = frozenset()
        """Keys of records that the last round found without what they record."""
        self._applied = 0
        self._withheld: list[Change] = []
        self._refused: dict[Change, KafkaError] = {}
        self._without_credentials: list[str] | None = None
        self._rounds = PeriodicTask(
            self.sync,
            link=link.name,
            what_failed="ACLs of groups and transactional ids, quotas and users not synced",
            pause=pause_of(link.clock, link.limits.topic_sync_ms),
            backoff=link.new_backoff(),
        )
        self.run = self._rounds.run

    async def sync(self) -> None:
        """Do one round. Raises KafkaError."""
        link = self._link
        if not (link.map_store.is_open and link.directory.is_loaded and link.is_first_worker):
            self._withheld, self._refused, self._without_credentials = [], {}, None
            self._forgettable = frozenset()
            return
        try:
            found = await self._source.metadata([])
            link.map_store.check_source(found.cluster_id)
            await self._topic.catch_up()
        except (LinkFailedError, MapFormatError) as error:
            raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error
        await self._round()

    async def _round(self) -> None:
        plan, failures = await self._planner.plan(self._written)
        if plan.noted:
            await self._topic.append(plan.noted)
        refused = await apply_changes(self._sink, plan.changes)
        refused |= await apply_users(self._source, self._sink, plan.changes)
        # A worker that was replaced may still be between a record and its change. So a record goes
        # only when two rounds have found it without what it records.
        due = [record for record in plan.forgotten if record[0] in self._forgettable]
        if due:
            await self._topic.append(due)
        self._forgettable = frozenset(key for key, _ in plan.forgotten)
        for change in plan.changes:
            if not change.withheld and change not in refused:
                log.info("link %s: %s", self._link.name, change.as_json())
                self._applied += 1
        for change, error in refused.items():
            if change not in self._refused:
                log.warning("link %s: refused: %s: %s", self._link.name, change.name, error)
        self._withheld = [change for change in plan.changes if change.withheld]
        self._refused = refused
        self._without_credentials = await self._find_users_without_credentials()
        for failure in failures:
            raise failure

    async def _find_users_without_credentials(self) -> list[str] | None:
        """Return users with rights from the link that log in by SCRAM at the source only.

        None if a side does not tell its SCRAM users.
        """
        users = users_of(self._written)
        if not users:
            return []
        try:
            here = await describe_scram_users(self._source)
            there = await describe_scram_users(self._sink)
        except KafkaError:
            return None
        return sorted((users & here.keys()) - there.keys())

    def _new_topic(self) -> StateTopic:
        self._written = WrittenRights()
        return StateTopic(
            self._link.sink,
            rights_topic_name(self._link.name),
            replication_factor=self._settings.replication_factor,
            clock=self._link.clock,
            replay=self._written.replay,
        )

    def status(self) -> dict[str, Any]:
        """Return the `/status` of this sync: how much was changed, and what was not."""
        settings = self._settings
        users = self._without_credentials
        return {
            "group_acls": settings.sync_group_acls,
            "transactional_id_acls": settings.sync_transactional_id_acls,
            "quotas": settings.sync_quotas,
            "users": settings.sync_users,
            "failure": self._rounds.failure,
            "applied": self._applied,
            "withheld": [change.as_json() for change in self._withheld[:SHOWN_MAX]],
            "refused": [
                {**change.as_json(), "reason": str(error)}
                for change, error in list(self._refused.items())[:SHOWN_MAX]
            ],
            "users_without_credentials": None if users is None else users[:SHOWN_MAX],
        }
