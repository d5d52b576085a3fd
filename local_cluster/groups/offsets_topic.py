"""Creating `__consumer_offsets`, the way any other topic is created: by asking the controller.

The request goes over the inter-broker listener, to ourselves where we are the controller, so
that there is one path however many brokers there are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.controller.model import OFFSETS_TOPIC
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices
    from local_cluster.settings import BrokerSettings

PARTITIONS_DEFAULT: Final = 50
REPLICATION_FACTOR_DEFAULT: Final = 1
SEGMENT_BYTES_DEFAULT: Final = 100 * 1024 * 1024
CREATE_TIMEOUT_MS: Final = 10_000

_log = logging.getLogger(__name__)


def offsets_topic(settings: BrokerSettings) -> NewTopic:
    """The topic as the broker's settings want it, by Kafka's names and defaults.

    One replica by default, where Kafka has three: a partition has one replica here.
    """
    read = settings.config_int
    return NewTopic(
        name=OFFSETS_TOPIC,
        partitions=read("offsets.topic.num.partitions", PARTITIONS_DEFAULT),
        replication_factor=read("offsets.topic.replication.factor", REPLICATION_FACTOR_DEFAULT),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(read("offsets.topic.segment.bytes", SEGMENT_BYTES_DEFAULT)),
        },
    )


async def create_offsets_topic(broker: BrokerServices) -> None:
    """Ask the controller to create the topic; that it exists already is as good.

    What goes wrong is logged only: the client that needs the topic asks again.
    """
    settings = broker.settings
    controller = broker.metadata.brokers.get(broker.metadata.controller_id)
    address = None
    if controller is not None:
        address = controller.listeners.get(settings.inter_broker_listener)
    if address is None:
        _log.info("%s cannot be created now: no controller is known", OFFSETS_TOPIC)
        return
    client_id = f"broker-{settings.broker_id}-offsets-topic"
    try:
        async with KafkaClient(f"{address[0]}:{address[1]}", client_id=client_id) as client:
            results = await client.create_topics(
                [offsets_topic(settings)], timeout_ms=CREATE_TIMEOUT_MS
            )
        error = results[OFFSETS_TOPIC]
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise error
    except KafkaError as error:
        _log.warning("%s was not created: %s", OFFSETS_TOPIC, error)
    else:
        _log.info("%s exists", OFFSETS_TOPIC)
