"""The topics in which one link publishes the state of its copies, read from its target. Shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from aggregator.maps.link_map import LinkMap, TopicIds
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import Record
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import (
    FlowKey,
    GapJournal,
    MapFormatError,
    OffsetMap,
    gaps_topic_name,
    map_topic_name,
)
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import verdicts_topic_name
from topology.audit.question import AuditUnreadable
from topology.deployment.deployment import LinkView


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The published state of a link: map, journal and verdicts."""

    view: LinkView
    map: LinkMap
    journal: GapJournal
    verdicts: VerdictTopic
    target_ids: TopicIds
    source_ends: Mapping[tuple[str, int], int]

    def flows(self) -> Iterator[tuple[FlowKey, str, OffsetMap]]:
        for found in self.map.current_flows(self.target_ids):
            if not is_probe_topic(found[0].source_topic):
                yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a link publishes on its target, without a look at its source."""

    map: LinkMap
    journal: GapJournal
    verdicts: VerdictTopic
    target_ids: TopicIds


async def read_published(
    link: LinkView, target: KafkaClient, on_map_record: Callable[[Record], None] | None = None
) -> Published:
    """Read the map, journal and verdicts of a link. Raises AuditUnreadable.

    `on_map_record` gets every record of the map topic as well.
    """
    link_map, journal, verdicts = LinkMap(), GapJournal(), VerdictTopic()
    name = ""
    try:
        cluster = await target.metadata(None)
        for name in (
            # The map first: the mirror writes a gap into the journal before it writes the map.
            map_topic_name(link.name),
            gaps_topic_name(link.name),
            verdicts_topic_name(link.name),
        ):
            if name not in cluster.topics:
                continue  # the link has not run yet, or an older version ran it
            async for record in read_topic(target, name):
                if name == map_topic_name(link.name):
                    link_map.apply(record)
                    if on_map_record is not None:
                        on_map_record(record)
                elif name == gaps_topic_name(link.name):
                    journal.replay(record.key, record.value)
                else:
                    verdicts.replay(record.key, record.value)
    except (KafkaError, MapFormatError) as error:
        place = f"{name} on {link.target}" if name else link.target
        raise AuditUnreadable(f"link {link.name}, {place}: {error}") from error
    target_ids = {name: topic.topic_id for name, topic in cluster.topics.items() if not topic.error}
    return Published(map=link_map, journal=journal, verdicts=verdicts, target_ids=target_ids)


async def read_link(link: LinkView, source: KafkaClient, target: KafkaClient) -> LinkState:
    """Read the state of a link, and the ends of its source partitions. Raises AuditUnreadable."""
    found = await read_published(link, target)
    places = [
        TopicPartition(flow.source_topic, flow.partition)
        for flow, _, _ in found.map.current_flows(found.target_ids)
    ]
    try:
        listed = await source.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP))
    except KafkaError as error:
        raise AuditUnreadable(f"link {link.name}, topics on {link.source}: {error}") from error
    return LinkState(
        view=link,
        map=found.map,
        journal=found.journal,
        verdicts=found.verdicts,
        target_ids=found.target_ids,
        source_ends={(*at,): each.offset for at, each in listed.items() if not each.error},
    )
