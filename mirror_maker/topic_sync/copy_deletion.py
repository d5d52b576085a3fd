"""Finds topics that are gone at the source, and deletes their copies if the link wants that.

`deletion_rules.py` decides. One worker of a link does it for all. It reads from the map topic what
was copied, so it does not matter which worker copied it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicMetadata, TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import FlowKey, MapFormatError
from mirror_maker.formats.records import NO_TOPIC_ID, encode_key
from mirror_maker.group_sync.shared_positions import first_that_is_no_copy
from mirror_maker.link.link import LinkWorker
from mirror_maker.link.topic_plan import link_topics
from mirror_maker.model import LinkFailedError
from mirror_maker.periodic import PeriodicTask, pause_of
from mirror_maker.rules.topic_filter import is_internal_topic
from mirror_maker.stores.cluster_maps import ClusterMaps
from mirror_maker.topic_sync.deletion_rules import Fate, GoneTopic, decide_fate

SHOWN_MAX: Final = 200
"""Topics that the status lists one by one."""
DELETED_REASON: Final = "source_deleted"
"""Reason in the journal of gaps."""

log = logging.getLogger(__name__)


class CopyDeleter:
    """The deleted topics of one link, on one worker; `run` until cancelled."""

    def __init__(
        self, link: LinkWorker, source: KafkaClient, sink: KafkaClient, target_alias: str
    ) -> None:
        self._link = link
        self._filter = link_topics(link.settings, target_alias)
        self._source = source
        self._sink = sink
        self._maps_at_target = ClusterMaps(link.sink)
        self._gone_since_ms: dict[FlowKey, int] = {}
        self._fates: dict[str, tuple[str, Fate, str]] = {}
        """By topic: its copy, what is done, and why."""
        self._deleted: list[str] = []
        self._rounds = PeriodicTask(
            self.sync,
            link=link.name,
            what_failed="deleted topics not followed",
            pause=pause_of(link.clock, link.limits.topic_sync_ms),
            backoff=link.new_backoff(),
        )
        self.run = self._rounds.run

    async def sync(self) -> None:
        """Do one round. Raises KafkaError."""
        link = self._link
        if not (link.map_store.is_open and link.directory.is_loaded and link.is_first_worker):
            self._fates, self._gone_since_ms = {}, {}
            return
        try:
            await self._look(self._gone_flows())
        except KafkaError:
            self._gone_since_ms = {}  # the topics may have existed meanwhile
            raise
        except (LinkFailedError, MapFormatError) as error:
            self._gone_since_ms = {}
            raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error

    def _gone_flows(self) -> dict[str, list[FlowKey]]:
        """Return topics that were copied, are still selected and absent at the source, with their
        flows.
        """
        link = self._link
        gone: dict[str, list[FlowKey]] = {}
        for flow in link.map_store.state.flows():
            topic = flow.source_topic
            if topic not in link.directory.source and self._filter.selects(topic):
                gone.setdefault(topic, []).append(flow)
        return gone

    async def _look(self, gone: Mapping[str, Sequence[FlowKey]]) -> None:
        if not gone:
            self._fates, self._gone_since_ms = {}, {}
            return
        link = self._link
        copy_name = link.settings.copy_name
        source = await self._source.metadata(sorted(gone))
        link.map_store.check_source(source.cluster_id)
        target = await self._sink.metadata(sorted(map(copy_name, gone)))
        now_ms = link.clock.monotonic_ms()
        fates: dict[str, tuple[str, Fate, str]] = {}
        since: dict[FlowKey, int] = {}
        for topic, every_flow in gone.items():
            copy = target.topics.get(copy_name(topic))
            copy_id = NO_TOPIC_ID if copy is None else copy.topic_id or NO_TOPIC_ID
            flows = [flow for flow in every_flow if flow.target_topic_id == copy_id]
            if copy is None or copy.error or not flows:
                continue  # its copy does not exist either
            answered = source.topics.get(topic)
            answer = ErrorCode.unknown_server_error if answered is None else answered.error
            since_ms = self._gone_since_ms.get(flows[0], now_ms)
            if answer == ErrorCode.unknown_topic_or_partition:
                since[flows[0]] = since_ms  # any other answer restarts the time
            evidence = await self._evidence(topic, copy, flows, answer, now_ms - since_ms)
            fate, reason = decide_fate(evidence, link.settings)
            if fate is Fate.DELETED:
                await self._delete(copy.name, flows, reason)
            fates[topic] = (copy.name, fate, reason)
            if self._fates.get(topic, (None, None))[1] is not fate:
                log.warning("link %s: %s is gone: %s: %s", self._link.name, topic, fate, reason)
        self._fates, self._gone_since_ms = fates, since

    async def _evidence(
        self,
        topic: str,
        copy: TopicMetadata,
        flows: Sequence[FlowKey],
        answer: int,
        gone_ms: int,
    ) -> GoneTopic:
        link = self._link
        settings, state = link.settings, link.map_store.state
        mark = state.owned_copy(copy.name)
        is_created = (
            mark is not None
            and mark.is_created
            and mark.target_topic_id == flows[0].target_topic_id
        )
        other_links, has_own_records = await self._find_other_records(copy)
        return GoneTopic(
            topic=topic,
            copy=copy.name,
            answer=answer,
            gone_ms=gone_ms,
            source_shows_topics=any(
                not (each.is_internal or is_internal_topic(name))
                for name, each in link.directory.source.items()
            ),
            is_ours=is_created or settings.names.tells_origin(settings.source_alias, topic),
            has_topic_ids=all(
                NO_TOPIC_ID not in (flow.source_topic_id, flow.target_topic_id) for flow in flows
            ),
            other_links=other_links,
            has_own_records=has_own_records,
            is_held=any(state.controls.pauses(topic, flow.partition) for flow in flows),
        )

    async def _find_other_records(self, copy: TopicMetadata) -> tuple[tuple[str, ...], bool]:
        """Return the other links that write into a copy, and whether a record in it is no copy."""
        # Partitions that the link never opened count too: they are deleted with the others.
        topic_id = copy.topic_id or NO_TOPIC_ID
        ids = {TopicPartition(copy.name, partition): topic_id for partition in copy.partitions}
        listed = [
            await self._sink.list_offsets(dict.fromkeys(ids, at))
            for at in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)
        ]
        for answer in (each for answers in listed for each in answers.values()):
            if answer.error:
                raise KafkaError(answer.error, copy.name)
        ends, starts = listed
        await self._maps_at_target.find()
        await self._maps_at_target.read()
        own_topic = self._link.map_store.topic
        others: set[str] = set()
        has_own_records = False
        for at, parts in self._maps_at_target.parts(ids).items():
            others.update(part.link for part in parts if part.link != own_topic)
            maps = [each for part in parts for each in self._maps_at_target.maps(part)]
            covered = first_that_is_no_copy(maps, starts[at].offset)
            has_own_records |= covered < ends[at].offset
        return tuple(sorted(others)), has_own_records

    async def _delete(self, copy: str, flows: Sequence[FlowKey], reason: str) -> None:
        """Write it into the journal, then delete the copy. Raises KafkaError."""
        link = self._link
        state = link.map_store.state
        for flow in flows:
            opening, offset_map = state.opening(flow), state.offset_map(flow)
            if opening is None or offset_map is None:
                continue
            await link.journal.note(
                link.journal.new_entry(
                    flow,
                    producer_epoch=opening.producer_epoch,
                    target_topic=copy,
                    source_from=offset_map.source_next,
                    source_to=None,
                    reason=DELETED_REASON,
                    detail=f"{flow.source_topic} was deleted, and {copy} after it: {reason}",
                    target_offset=offset_map.target_next,
                )
            )
        error = (await self._sink.delete_topics([copy])).get(copy)
        if error is not None and error.code != ErrorCode.unknown_topic_or_partition:
            raise error
        mark = state.owned_copy(copy)
        if mark is not None:
            await link.map_store.append([], [encode_key(mark)])
        self._deleted.append(copy)

    def status(self) -> dict[str, Any]:
        """Return the `/status` of topics that are gone, and of their copies."""
        settings = self._link.settings
        return {
            "mirrored": settings.deletions == "mirror",
            "grace_ms": settings.deletion_grace_ms,
            "failure": self._rounds.failure,
            "deleted": len(self._deleted),
            "gone": [
                {"topic": topic, "copy": copy, "fate": fate.value, "reason": reason}
                for topic, (copy, fate, reason) in sorted(self._fates.items())[:SHOWN_MAX]
            ],
        }
