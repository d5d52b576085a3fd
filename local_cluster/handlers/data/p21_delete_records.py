"""DeleteRecords v0-v2 (KIP-107): move the log start offset of partitions up.

-1 stands for the high watermark; what lies beyond it is OFFSET_OUT_OF_RANGE. Topics that are only
compacted are refused with POLICY_VIOLATION, internal ones with INVALID_TOPIC_EXCEPTION. v2 is
flexible. The low watermark of the answer is the new log start offset.

The answer leaves after the log-start-offset checkpoint is on the disk, so a crash does not bring
the records back (Kafka writes it once a minute), and after every live replica has deleted as much,
or REQUEST_TIMED_OUT. Segments go with the next retention check.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.registry import Reply, RequestContext, handles
from local_cluster.handlers.services import BrokerServices
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

NO_LOW_WATERMARK: Final = -1
REPLICATED_POLL_MS: Final = 10


@handles(ApiKey.DELETE_RECORDS, min_version=0, max_version=2)
def delete_records(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Delete in each partition by itself, then make it last."""
    topics = [
        {
            "name": topic.name,
            "partitions": [
                _delete(broker, context, topic.name, entry) for entry in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    deleted = [
        entry
        for topic in topics
        for entry in topic["partitions"]
        if entry["error_code"] is ErrorCode.none
    ]
    if not deleted:
        return {"topics": topics}
    return _made_last(broker, topics, deleted, messages.ms(request.timeout))


async def _made_last(
    broker: BrokerServices,
    topics: list[dict[str, Any]],
    deleted: list[dict[str, Any]],
    timeout_ms: int,
) -> Any:
    deadline_ms = broker.clock.monotonic_ms() + timeout_ms
    try:
        await broker.checkpoint(
            [
                (topic["name"], entry["partition_index"])
                for topic in topics
                for entry in topic["partitions"]
                if entry["error_code"] is ErrorCode.none
            ]
        )
    except OSError:
        # It is deleted here and now, but a crash may bring it back: not what was asked for.
        for entry in deleted:
            entry |= _answer(entry["partition_index"], ErrorCode.kafka_storage_error)
        return {"topics": topics}
    for topic in topics:
        for entry in topic["partitions"]:
            if entry["error_code"] is ErrorCode.none:
                code = await _replicated(broker, topic["name"], entry, deadline_ms)
                if code is not ErrorCode.none:
                    entry |= _answer(entry["partition_index"], code)
    return {"topics": topics}


async def _replicated(
    broker: BrokerServices, topic: str, entry: dict[str, Any], deadline_ms: int
) -> ErrorCode:
    """Wait until every live replica has deleted as much: any of them may lead next."""
    while True:
        try:
            partition = broker.replicas.get_leader(topic, entry["partition_index"])
        except KafkaError as error:
            return error.code
        if partition.low_watermark >= entry["low_watermark"]:
            return ErrorCode.none
        if broker.clock.monotonic_ms() >= deadline_ms:
            return ErrorCode.request_timed_out
        await asyncio.sleep(REPLICATED_POLL_MS / 1000)


def _delete(broker: BrokerServices, context: RequestContext, topic: str, entry: Any) -> Any:
    try:
        if not broker.authorize(context, "DELETE", "TOPIC", topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.invalid_topic_exception, "the topic is internal")
        partition = broker.replicas.get_leader(topic, entry.partition_index)
        low_watermark = partition.delete_records(entry.offset)
    except KafkaError as error:
        return _answer(entry.partition_index, error.code)
    return _answer(entry.partition_index, ErrorCode.none, low_watermark)


def _answer(index: int, code: ErrorCode, low_watermark: int = NO_LOW_WATERMARK) -> dict[str, Any]:
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": code}
