"""`heliograph mirror sync`: plans or applies the config and ACL changes of links, and
shows those that workers make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.link.owned_copies import copy_pairs, find_owned
from mirror_maker.link.topic_plan import link_topics, select_topics
from mirror_maker.rights_sync.others_rights import read_written
from mirror_maker.rights_sync.rights_planner import RightsPlanner
from mirror_maker.settings import LinkSettings, MirrorSettings, parse_settings
from mirror_maker.topic_sync.sync_plan import Change
from mirror_maker.topic_sync.topic_syncer import apply_changes, plan_acls, plan_configs
from topology.deployment.deployment import Deployment
from topology.mirror.worker_http import deleted_topics
from topology.problems import unknown_name
from topology.status.liveness import (
    RESPONSE_TIMEOUT_S,
    ClusterAddress,
    ClusterSilent,
    require_clusters,
)
from topology.status.process_http import CallFailed

CLIENT_ID: Final = "heliograph-mirror-sync"
REQUEST_TIMEOUT_MS: Final = int(RESPONSE_TIMEOUT_S * 1000)
BY_WORKER: Final = "a worker of the link applies it"
JsonObject = dict[str, Any]


class SyncFailed(Exception):
    """Source and target could not be compared; the message says why."""


def sync_links(deployment: Deployment, link_name: str | None, *, dry_run: bool) -> list[JsonObject]:
    """Return every change as JSON with `link` and `state`: planned, done, withheld or refused.

    The copies that links do not change are listed with the reason. Links that sync nothing have no
    changes. Workers delete the copies whose source topics were deleted, so the list has what the
    workers report about them. Workers also apply ACLs of groups and transactional ids, quotas and
    users: only they keep account of what a link wrote. So these are planned or withheld.

    Raises SyncFailed for an unknown link, and if a cluster of a link, or a running worker, does not
    respond.
    """
    names = [each.name for each in deployment.links]
    if link_name is not None and link_name not in names:
        raise SyncFailed(unknown_name("link", link_name, names))
    return asyncio.run(_sync_all(deployment, link_name, dry_run=dry_run))


async def _sync_all(
    deployment: Deployment, link_name: str | None, *, dry_run: bool
) -> list[JsonObject]:
    wanted = [
        (settings, link)
        for settings in _workers(deployment)
        for link in settings.links
        if link_name in (None, link.name)
    ]
    try:
        await require_clusters(cluster for pair in wanted for cluster in _sides(*pair))
    except ClusterSilent as error:
        raise SyncFailed(str(error)) from error
    results: list[JsonObject] = []
    for settings, link in wanted:
        try:
            results += [
                _remark(link.name, "delete_topic", each["copy"], "", each["fate"], each["reason"])
                for each in deleted_topics(deployment, link.name)
            ]
            if link.sync_configs or link.sync_acls or link.syncs_rights:
                results += await _sync(settings, link, dry_run=dry_run)
        except CallFailed as error:
            raise SyncFailed(str(error)) from error
        except KafkaError as error:
            raise SyncFailed(f"link {link.name}: {error}") from error
    return results


def _workers(deployment: Deployment) -> Iterator[MirrorSettings]:
    for key in dict.fromkeys(link.daemon for link in deployment.links):
        (text,) = deployment.daemon(key).files.values()
        yield parse_settings(text)


def _sides(settings: MirrorSettings, link: LinkSettings) -> tuple[ClusterAddress, ClusterAddress]:
    return (
        ClusterAddress(link.source_alias, link.source_bootstrap, link.source_security),
        ClusterAddress(settings.target_alias, settings.target_bootstrap, settings.target_security),
    )


async def _sync(settings: MirrorSettings, link: LinkSettings, *, dry_run: bool) -> list[JsonObject]:
    async with (
        MirrorClient(
            link.source_bootstrap,
            client_id=CLIENT_ID,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            security=link.source_security,
        ) as source,
        MirrorClient(
            settings.target_bootstrap,
            client_id=CLIENT_ID,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            security=settings.target_security,
        ) as sink,
    ):
        here, there = await source.metadata(None), await sink.metadata(None)
        selected = select_topics(here, link_topics(link, settings.target_alias))
        pairs = copy_pairs(selected, here.topics, there.topics, link)
        topics, not_led = await find_owned(link, pairs, source, sink)
        changes: list[Change] = []
        untold: dict[str, KafkaError] = {}
        if link.sync_configs:
            changes, untold = await plan_configs(source, sink, link, topics)
        if link.sync_acls:
            try:
                changes += await plan_acls(source, sink, link, topics)
            except KafkaError as error:
                if error.code != ErrorCode.security_disabled:
                    raise
        refused = {} if dry_run else await apply_changes(sink, changes)
        rights = await _plan_rights(source, sink, link) if link.syncs_rights else []
    left_alone = [
        _remark(link.name, "not_led", copy, "configs and ACLs", "left alone", reason)
        for copy, reason in not_led.items()
    ] + [
        _remark(link.name, "configs_not_told", copy, "configs", "left alone", str(error))
        for copy, error in untold.items()
    ]
    return (
        left_alone
        + [
            {
                "link": link.name,
                **change.as_json(),
                "state": _state(change, change in refused, dry_run=dry_run),
                "reason": str(refused[change]) if change in refused else None,
            }
            for change in changes
        ]
        + [
            {
                "link": link.name,
                **change.as_json(),
                "state": _state(change, False, dry_run=True),
                "reason": None if change.withheld else BY_WORKER,
            }
            for change in rights
        ]
    )


async def _plan_rights(
    source: MirrorClient, sink: MirrorClient, link: LinkSettings
) -> list[Change]:
    """Return the changes of ACLs of groups and transactional ids, of quotas and of users.

    Raises KafkaError.
    """
    written = await read_written(sink, link.name)
    plan, failures = await RightsPlanner(source, sink, link).plan(written)
    for failure in failures:
        if failure.code != ErrorCode.security_disabled:
            raise failure
    return plan.changes


def _remark(link: str, kind: str, copy: str, name: str, state: str, reason: str) -> JsonObject:
    """Return an entry about something that this command does not change."""
    return {
        "link": link,
        "kind": kind,
        "resource": copy,
        "name": name,
        "before": None,
        "after": None,
        "withheld": True,
        "state": state,
        "reason": reason,
    }


def _state(change: Change, is_refused: bool, *, dry_run: bool) -> str:
    if change.withheld:
        return "withheld"
    if is_refused:
        return "refused"
    return "planned" if dry_run else "done"
