"""Topics that are created on first use: the internal ones, and any other. Pure.

Deviation from Kafka: the default replication factor of the internal topics is 1, not 3, so that a
cluster of one broker works. The topology sets it to 3, or to the number of brokers if that is less.
"""

from __future__ import annotations

from typing import Final

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.settings import BrokerSettings

OFFSETS_PARTITIONS_DEFAULT: Final = 50
TRANSACTIONS_PARTITIONS_DEFAULT: Final = 50
TRANSACTIONS_MIN_ISR_DEFAULT: Final = 2
"""Kafka's default; never more than there are replicas."""
INTERNAL_REPLICATION_FACTOR: Final = 1
OFFSETS_SEGMENT_BYTES_DEFAULT: Final = 100 * 1024 * 1024


def auto_topic_spec(name: str, settings: BrokerSettings) -> TopicSpec:
    """Return the topic to create when a client uses one that does not exist."""
    if name == TRANSACTIONS_TOPIC:
        return TopicSpec(
            name=name,
            partitions=settings.config_int(
                "transaction.state.log.num.partitions", TRANSACTIONS_PARTITIONS_DEFAULT
            ),
            replication_factor=settings.config_int(
                "transaction.state.log.replication.factor", INTERNAL_REPLICATION_FACTOR
            ),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(
                    settings.config_int(
                        "transaction.state.log.min.isr", TRANSACTIONS_MIN_ISR_DEFAULT
                    )
                ),
                "segment.bytes": str(
                    settings.config_int(
                        "transaction.state.log.segment.bytes", OFFSETS_SEGMENT_BYTES_DEFAULT
                    )
                ),
            },
        )
    if name != OFFSETS_TOPIC:
        return TopicSpec(name=name)
    return TopicSpec(
        name=name,
        partitions=settings.config_int("offsets.topic.num.partitions", OFFSETS_PARTITIONS_DEFAULT),
        replication_factor=settings.config_int(
            "offsets.topic.replication.factor", INTERNAL_REPLICATION_FACTOR
        ),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(
                settings.config_int("offsets.topic.segment.bytes", OFFSETS_SEGMENT_BYTES_DEFAULT)
            ),
        },
    )
