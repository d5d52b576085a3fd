"""Configs and ACLs of copies follow their sources: described, compared (`sync_plan.py`),
applied.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.admin.client_quotas import QuotaChange, alter_client_quotas
from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import ResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.link.link import LinkWorker
from mirror_maker.link.owned_copies import copy_pairs
from mirror_maker.model import LinkFailedError
from mirror_maker.periodic import PeriodicTask, pause_of
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import Change, ChangeKind, acl_changes, config_changes

TOPICS_PER_REQUEST_MAX: Final = 500
SHOWN_MAX: Final = 200
"""Changes that the status lists one by one."""

log = logging.getLogger(__name__)


async def plan_configs(
    source: KafkaClient, sink: KafkaClient, settings: LinkSettings, topics: Iterable[str]
) -> tuple[list[Change], dict[str, KafkaError]]:
    """Return what must change in the configs of these topics' copies, which the link owns.

    The second value names the copies whose configs one side does not return, and why. Topics
    without a copy are left out: copies are created with their source's configs. Raises KafkaError.
    """
    names = sorted(topics)
    changes: list[Change] = []
    unknown: dict[str, KafkaError] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST_MAX):
        copies = {settings.copy_name(name): name for name in names[start:][:TOPICS_PER_REQUEST_MAX]}
        described = (await sink.metadata(sorted(copies))).topics
        present = {
            copy: name
            for copy, name in copies.items()
            if copy in described and not described[copy].error
        }
        if not present:
            continue
        here = await source.ask_topic_configs(sorted(present.values()))
        there = await sink.ask_topic_configs(sorted(present))
        for copy, name in sorted(present.items()):
            wanted, found = here[name], there[copy]
            if isinstance(wanted, KafkaError):
                unknown[copy] = wanted
            elif isinstance(found, KafkaError):
                unknown[copy] = found
            else:
                changes += config_changes(copy, wanted, found, settings)
    return changes, unknown


async def plan_acls(
    source: KafkaClient, sink: KafkaClient, settings: LinkSettings, topics: Collection[str]
) -> list[Change]:
    """Return what must change in the ACLs on these topics' copies, which the link owns.

    Raises KafkaError: security_disabled if a side has no authorizer.
    """
    here = await describe_acls(source, ResourceType.TOPIC)
    there = await describe_acls(sink, ResourceType.TOPIC)
    return list(acl_changes(here, there, topics, settings))


async def apply_changes(sink: KafkaClient, changes: Sequence[Change]) -> dict[Change, KafkaError]:
    """Apply all changes that are not withheld; return the refused ones, and why. Raises
    KafkaError.
    """
    doing = [change for change in changes if not change.withheld]
    refused: dict[Change, KafkaError] = {}
    by_topic: dict[str, list[Change]] = {}
    for change in doing:
        if change.kind in (ChangeKind.SET_CONFIG, ChangeKind.RESET_CONFIG):
            by_topic.setdefault(change.resource, []).append(change)
    answers = await alter_topic_configs(
        sink,
        {
            topic: {change.name: change.after for change in found}
            for topic, found in by_topic.items()
        },
    )
    for topic, error in answers.items():
        if error is not None:
            refused.update(dict.fromkeys(by_topic[topic], error))
    for kind, act in ((ChangeKind.CREATE_ACL, create_acls), (ChangeKind.DELETE_ACL, delete_acls)):
        by_acl = {
            change.acl: change for change in doing if change.kind is kind and change.acl is not None
        }
        if by_acl:
            for acl, error in (await act(sink, list(by_acl))).items():
                if error is not None:
                    refused[by_acl[acl]] = error
    quotas = {
        QuotaChange(*change.quota, change.quota_value): change
        for change in doing
        if change.quota is not None
    }
    if quotas:
        results = await alter_client_quotas(sink, list(quotas))
        for change, error in zip(quotas.values(), results, strict=True):
            if error is not None:
                refused[change] = error
    return refused


class TopicSyncer:
    """The configs and ACLs of one link, on one worker; `run` until cancelled.

    Each worker syncs the topics whose partition 0 it copies. The worker of the first partition of
    all syncs the ACLs.
    """

    def __init__(self, link: LinkWorker, source: KafkaClient, sink: KafkaClient) -> None:
        self._link = link
        self._owned_copies = link.owned_copies
        self._settings = link.settings
        self._source = source
        self._sink = sink
        self._applied = 0
        self._withheld: list[Change] = []
        self._refused: dict[Change, KafkaError] = {}
        self._unknown: dict[str, KafkaError] = {}
        self._authorizer_missing = False
        self._rounds = PeriodicTask(
            self.sync,
            link=link.name,
            what_failed="configs and ACLs not synced",
            pause=pause_of(link.clock, link.limits.topic_sync_ms),
            backoff=link.new_backoff(),
        )
        self.run = self._rounds.run

    async def sync(self) -> None:
        """Do one round, if it is known what is copied. Raises KafkaError."""
        link = self._link
        if not (link.map_store.is_open and link.directory.is_loaded):
            return
        changes: list[Change] = []
        owned = await self._find_owned()
        if self._settings.sync_configs:
            own = {at.topic for at in self._link.flows if at.partition == 0}
            planned, self._unknown = await plan_configs(
                self._source, self._sink, self._settings, own & owned
            )
            changes += planned
        if self._settings.sync_acls and self._link.is_first_worker:
            changes += await self._plan_acls(owned)
        refused = await apply_changes(self._sink, changes)
        for change in changes:
            if not change.withheld and change not in refused:
                log.info("link %s: %s", self._link.name, change.as_json())
                self._applied += 1
        for change, error in refused.items():
            if change not in self._refused:
                log.warning("link %s: refused: %s: %s", self._link.name, change.name, error)
        self._withheld = [change for change in changes if change.withheld]
        self._refused = refused

    async def _find_owned(self) -> set[str]:
        """Return the topics whose copies the link owns. Raises KafkaError."""
        directory = self._link.directory
        known = {at.topic for at in self._link.known}
        pairs = copy_pairs(known, directory.source, directory.target, self._settings)
        try:
            return set(await self._owned_copies.find(pairs))
        except (LinkFailedError, MapFormatError) as error:
            raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error

    async def _plan_acls(self, topics: set[str]) -> list[Change]:
        try:
            planned = await plan_acls(self._source, self._sink, self._settings, topics)
        except KafkaError as error:
            if error.code != ErrorCode.security_disabled:
                raise
            self._authorizer_missing = True
            return []
        self._authorizer_missing = False
        return planned

    def status(self) -> dict[str, Any]:
        """Return the `/status` of this sync: how much was changed, and what was not."""
        return {
            "configs": self._settings.sync_configs,
            "acls": self._settings.sync_acls,
            "failure": self._rounds.failure
            or ("a side has no authorizer" if self._authorizer_missing else None),
            "applied": self._applied,
            "not_led": [
                {"copy": copy, "reason": reason}
                for copy, reason in list(self._owned_copies.not_owned.items())[:SHOWN_MAX]
            ],
            "configs_not_told": [
                {"copy": copy, "reason": str(error)}
                for copy, error in list(self._unknown.items())[:SHOWN_MAX]
            ],
            "withheld": [change.as_json() for change in self._withheld[:SHOWN_MAX]],
            "refused": [
                {**change.as_json(), "reason": str(error)}
                for change, error in list(self._refused.items())[:SHOWN_MAX]
            ],
        }
