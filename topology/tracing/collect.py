"""Follows one record: from a copy up to its origin, and from there to every copy. Shell.

Up and down go by the exact maps of the links. Whatever does not answer becomes a sentence in the
facts, so that the rest of the way is still shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from local_cluster.client.auth.security import SecurityError
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError, PeerError
from mirror_maker.formats import FlowKey, MapFormatError, OffsetMap
from mirror_maker.formats.gaps import gap_as_json
from mirror_maker.formats.records import NO_TOPIC_ID
from mirror_maker.settings import parse_settings
from topology.audit.question import AuditUnreadable
from topology.deployment.deployment import Deployment, LinkView
from topology.problems import DeployError
from topology.status.liveness import RESPONSE_TIMEOUT_S, ClusterSilent, describe_cluster
from topology.status.reports import fetch_completeness
from topology.tracing.facts import (
    NOTHING_STATED,
    Audited,
    LinkCopy,
    LogFacts,
    Place,
    Stated,
    WayFacts,
)
from topology.tracing.link_reading import (
    LinkRecords,
    find_batch,
    read_link_records,
    read_statements,
)
from topology.tracing.stated_times import StatedTimes
from topology.tracing.stored_record import read_log
from topology.why.collect import client_of
from topology.why.facts import Fate
from topology.why.record_fate import record_facts

COPIES_MAX: Final = 32
"""Most copies of one record that are followed; a mesh of links has no more."""
UNREADABLE: Final = (
    *(KafkaError, PeerError, OSError, MapFormatError),
    *(AuditUnreadable, ClusterSilent, SecurityError, DeployError),
)
"""What a place or a link that cannot be read raises."""


def collect_way(
    deployment: Deployment,
    status: Mapping[str, Any] | None,
    topic: str,
    at: tuple[int, int],
    cluster: str | None,
) -> WayFacts:
    """Return what is known of the record at (partition, offset) of a topic.

    `status` is the supervisor's table of daemons, None if it does not run. Raises DeployError.
    """
    return asyncio.run(_collect(deployment, status, topic, at, cluster))


async def _collect(
    deployment: Deployment,
    status: Mapping[str, Any] | None,
    topic: str,
    at: tuple[int, int],
    cluster: str | None,
) -> WayFacts:
    async with AsyncExitStack() as stack:
        follower = _Follower(deployment, status, stack)
        if cluster is None:
            cluster = await follower.cluster_with(topic)
        return await follower.follow(Place(cluster, topic, *at))


class _Follower:
    """Follows one record. Clients and the records of links are kept."""

    def __init__(
        self, deployment: Deployment, status: Mapping[str, Any] | None, stack: AsyncExitStack
    ) -> None:
        self._deployment = deployment
        self._status = status
        self._stack = stack
        self._clients: dict[str, KafkaClient] = {}
        self._silent: dict[str, str] = {}
        self._links: dict[str, LinkRecords] = {}
        self._answers: dict[str, Mapping[str, Mapping[str, Any] | None]] = {}
        """What the aggregators say of a topic, by topic and cluster."""
        self._remarks: list[str] = []

    async def cluster_with(self, topic: str) -> str:
        """Return the only cluster of a link that has a topic. Raises DeployError.

        A cluster that does not answer may have one too, which becomes a remark.
        """
        links = self._deployment.links
        names = list(dict.fromkeys(name for link in links for name in (link.source, link.target)))
        found, silent = [], []
        for name in names:
            try:
                cluster = await (await self._client(name)).metadata([topic])
            except UNREADABLE as error:
                silent.append(str(error))
                continue
            if not cluster.topics[topic].error:
                found.append(name)
        if len(found) == 1:
            self._remarks += silent
            return found[0]
        if not found:
            raise DeployError(f"no cluster of a link that answers has a topic {topic!r}", silent)
        raise DeployError(
            f"{', '.join(found)} have a topic {topic}: name one of them with --cluster"
        )

    async def follow(self, asked: Place) -> WayFacts:
        """Return everything about the record at a place. Raises DeployError if it is silent."""
        try:
            await self._client(asked.cluster)
        except UNREADABLE as error:
            raise DeployError(str(error)) from error
        origin, topic_id = asked, None
        passed = {asked}
        while (before := await self._before(origin)) is not None and before[0] not in passed:
            origin, topic_id = before
            passed.add(origin)
        log = await self._log(origin)
        if topic_id is not None and log.topic_id not in (None, topic_id):
            what = f"{origin.topic} was deleted and re-created at {origin.cluster} since"
            log = replace(log, topic_id=topic_id, stored=None, missing=what)
        copies: list[LinkCopy] = []
        waiting, seen = [log], {origin}
        while waiting:
            each = waiting.pop(0)
            for link in self._deployment.links:
                if link.source != each.place.cluster or len(copies) == COPIES_MAX:
                    continue
                copy = await self._copy(link, each)
                if copy is None or (copy.log is not None and copy.log.place in seen):
                    continue
                copies.append(copy)
                if copy.log is not None:
                    seen.add(copy.log.place)
                    waiting.append(copy.log)
        return WayFacts(asked=asked, origin=log, copies=tuple(copies), remarks=tuple(self._remarks))

    # -- one step -------------------------------------------------------------------------------

    async def _before(self, at: Place) -> tuple[Place, UUID] | None:
        """Return the place and topic id at the source of a copy; None if no link wrote it."""
        for link in self._deployment.links:
            if link.target != at.cluster:
                continue
            try:
                published = (await self._records(link)).published
                flows = list(published.map.current_flows(published.target_ids))
            except UNREADABLE as error:
                self._remarks.append(str(error))
                continue
            for flow, target_topic, offsets in flows:
                if (target_topic, flow.partition) != (at.topic, at.partition):
                    continue
                found = offsets.source_of(at.offset)
                if found is not None:
                    place = Place(link.source, flow.source_topic, flow.partition, found)
                    return place, flow.source_topic_id
                if (hole := offsets.hole_of(at.offset)) is not None:
                    self._remarks.append(
                        f"link {link.name} may have copied it from {flow.source_topic}-"
                        f"{flow.partition} of {link.source}: offsets {hole[0]} to {hole[1] - 1}"
                    )
        return None

    async def _copy(self, link: LinkView, source: LogFacts) -> LinkCopy | None:
        """Return a link's copy of a record; None if the link copies nothing from there."""
        target = self._deployment.cluster(link.target)
        copy = LinkCopy(
            link=link.name, source=source.place, target=target.name, datacenter=target.datacenter
        )
        try:
            records = await self._records(link)
            found = _flow_of(records, source)
            if found is None:
                return None
            copy = replace(
                copy,
                source_cluster_id=records.source_cluster_id,
                source_topic_id=found[0].source_topic_id,
            )
            return await self._read_copy(copy, records, found, source)
        except UNREADABLE as error:
            return replace(copy, problem=str(error))

    async def _read_copy(
        self,
        copy: LinkCopy,
        records: LinkRecords,
        found: tuple[FlowKey, str, OffsetMap],
        source: LogFacts,
    ) -> LinkCopy:
        flow, target_topic, offsets = found
        place = source.place
        journal = records.published.journal
        gaps = [gap_as_json(each) for each in journal.partition_gaps(place.topic, place.partition)]
        fate = record_facts(place[1:], target_topic, offsets, gaps)
        mapped_ms = records.mapped_ms(flow, place.offset)
        times = await self._times(records, flow, source, mapped_ms)
        copy = replace(
            copy,
            fate=fate,
            mapped_ms=mapped_ms,
            stated=times,
            has_batch_spans=self._has_batch_spans(records.view),
            aggregate=self._aggregate(records.view.target, place.topic),
        )
        if fate.fate is not Fate.COPIED or fate.target_offset is None:
            return copy
        client = await self._client(records.view.target)
        written_ms = times.passed.not_after_ms or mapped_ms
        batch = None
        if written_ms is not None:
            pair = place.offset, fate.target_offset
            batch = await find_batch(records, client, flow, pair, written_ms)
        at = Place(records.view.target, target_topic, place.partition, fate.target_offset)
        return replace(
            copy,
            batch=batch,
            audited=_audited(records, flow, fate.target_offset),
            log=await self._log(at),
        )

    async def _times(
        self, records: LinkRecords, flow: FlowKey, source: LogFacts, mapped_ms: int | None
    ) -> Stated:
        """Return what the link's workers stated, about the record's time and that of its map."""
        at = TopicPartition(flow.source_topic, flow.partition)
        stored = source.stored
        epoch = None if stored is None else stored.batch.partition_leader_epoch
        client = await self._client(records.view.target)
        best = NOTHING_STATED
        around = [mapped_ms] if stored is None else [stored.record.timestamp_ms, mapped_ms]
        for around_ms in around:
            if around_ms is None or around_ms < 0:
                continue
            times = StatedTimes(at, source.place.offset, flow.source_topic_id, epoch)
            await read_statements(records, client, times, around_ms)
            if times.found.passed.is_known or not best.committed.is_known:
                best = times.found
            if times.found.passed.is_known:
                break
        return best

    # -- who is asked ---------------------------------------------------------------------------

    async def _log(self, at: Place) -> LogFacts:
        datacenter = self._deployment.cluster(at.cluster).datacenter
        try:
            return await read_log(await self._client(at.cluster), at, datacenter)
        except UNREADABLE as error:
            return LogFacts(place=at, datacenter=datacenter, missing=str(error))

    async def _client(self, name: str) -> KafkaClient:
        """Return the client of a cluster. Raises ClusterSilent."""
        if name in self._silent:
            raise ClusterSilent(self._silent[name])
        if name not in self._clients:
            view = self._deployment.cluster(name)
            try:
                await describe_cluster(view, RESPONSE_TIMEOUT_S)
            except ClusterSilent as error:
                self._silent[name] = str(error)
                raise
            self._clients[name] = await self._stack.enter_async_context(client_of(view))
        return self._clients[name]

    async def _records(self, link: LinkView) -> LinkRecords:
        if link.name not in self._links:
            self._links[link.name] = await read_link_records(link, await self._client(link.target))
        return self._links[link.name]

    def _has_batch_spans(self, link: LinkView) -> bool:
        """Return whether the link's worker of this deployment creates spans of batches."""
        for text in self._deployment.daemon(link.daemon).files.values():
            for each in parse_settings(text).links:
                if each.name == link.name:
                    return each.trace_batches
        return False

    def _aggregate(self, cluster: str, topic: str) -> Mapping[str, Any] | None:
        """Return the aggregator's answer about the topic that merges the copies of a topic."""
        if topic not in self._answers:
            query = f"?{urlencode({'topic': topic})}"
            self._answers[topic] = fetch_completeness(self._deployment, self._status, query)
        found = self._answers[topic].get(cluster) or {}
        topics: Sequence[Mapping[str, Any]] = found.get("topics") or ()
        return next(iter(topics), None)


def _flow_of(records: LinkRecords, source: LogFacts) -> tuple[FlowKey, str, OffsetMap] | None:
    """Return the flow from a partition, if it copies the topic of this id."""
    published, place = records.published, source.place
    for found in published.map.current_flows(published.target_ids):
        flow = found[0]
        is_topic = source.topic_id is None or flow.source_topic_id in (source.topic_id, NO_TOPIC_ID)
        if (flow.source_topic, flow.partition) == (place.topic, place.partition) and is_topic:
            return found
    return None


def _audited(records: LinkRecords, flow: FlowKey, target_offset: int) -> Audited | None:
    known = records.published.verdicts.flow(flow)
    if known.progress is None:
        return None
    finding = next(
        (
            f"{each.verdict.value}: {each.detail}"
            for each in known.findings.values()
            if each.target_from <= target_offset < each.target_to
        ),
        None,
    )
    progress = known.progress
    is_compared = progress.audited_from <= target_offset < progress.place.audited_to
    return Audited(is_compared, progress.audited_at_ms, finding)
