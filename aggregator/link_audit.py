"""What a mirror publishes about both sides of its link, compared: /api/v1/audit.

The mirror counts and hashes what it fetched and what was acknowledged, per span of time, all the
while; here the two are compared without reading a record of the topics themselves. To compare the
logs record by record is `audit_reader.audit_topic`.
"""

from __future__ import annotations

from dataclasses import dataclass

from local_cluster.client.reader import read_topic
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import FlowKey, MapFormatError
from mirror_maker.formats.audit import AuditTopic, Bucket, audit_topic_name, total

from .ports import ClusterReader


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAudit:
    """One partition of a link: the source offsets [source_from, source_to) on both sides."""

    flow: FlowKey
    producer_epoch: int
    """Of the copy; another one begins where the source's log was replaced."""
    target_topic: str
    source_from: int
    source_to: int
    buckets: dict[int, Bucket]
    """By their starts in milliseconds, ascending."""

    @property
    def differing(self) -> list[int]:
        """Starts of the buckets whose sides differ."""
        return [start_ms for start_ms, bucket in self.buckets.items() if not bucket.is_equal]


async def read_link_audit(client: ClusterReader, link: str) -> AuditTopic | None:
    """The link's audit topic; None where it has none yet. Raises KafkaError, MapFormatError."""
    name = audit_topic_name(link)
    found = (await client.metadata([name])).topics.get(name)
    if found is None or found.error == ErrorCode.unknown_topic_or_partition:
        return None
    if found.error:
        raise KafkaError(found.error, name)
    topic = AuditTopic()
    try:
        async for record in read_topic(client, name):
            topic.replay(record.key, record.value)
    except (CorruptRecordError, CompressionError) as error:
        raise MapFormatError(f"{name}: {error}") from error
    return topic


def partition_audits(
    topic: AuditTopic, source_topic: str | None = None, partition: int | None = None
) -> list[PartitionAudit]:
    """Every partition, or those of one topic, or one; ascending."""
    audits = []
    for flow, producer_epoch in topic.flows():
        chain = topic.chain(flow, producer_epoch)
        if (
            chain
            and source_topic in (None, flow.source_topic)
            and partition in (None, flow.partition)
        ):
            audits.append(
                PartitionAudit(
                    flow=flow,
                    producer_epoch=producer_epoch,
                    target_topic=chain[-1].target_topic,
                    source_from=chain[0].source_from,
                    source_to=chain[-1].source_to,
                    buckets=total(chain),
                )
            )
    return sorted(audits, key=lambda each: (each.flow.source_topic, each.flow.partition))
