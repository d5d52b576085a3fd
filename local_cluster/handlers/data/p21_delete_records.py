"""DeleteRecords v0-v2 (KIP-107): move the log start offset of partitions up.

-1 stands for the high watermark; an offset beyond it is OFFSET_OUT_OF_RANGE. Topics that are only
compacted are POLICY_VIOLATION, internal topics INVALID_TOPIC_EXCEPTION. v2 is flexible. The low
watermark of the response is the new log start offset.

The response waits until the log-start-offset checkpoint is on disk, so a crash does not bring the
records back (Kafka writes it once a minute). It also waits until each live replica has deleted as
much, else it is REQUEST_TIMED_OUT. Segments are deleted by the next retention check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest

    from local_cluster.wire.responses.data import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
    )

NO_LOW_WATERMARK: Final = -1
REPLICATION_POLL_MS: Final = 10


class _Deleted(NamedTuple):
    """A partition whose records were deleted here, and its result."""

    topic: str
    result: DeleteRecordsPartitionResult


@handles(ApiKey.DELETE_RECORDS, min_version=0, max_version=2)
def delete_records(
    broker: BrokerServices, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Delete in each partition by itself, then wait for the disk and the replicas."""
    topics = [
        (topic.name, [_delete(broker, context, topic.name, entry) for entry in topic.partitions])
        for topic in request.topics
    ]
    response: DeleteRecordsResponse = {
        "topics": [{"name": name, "partitions": results} for name, results in topics]
    }
    deleted = [
        _Deleted(name, result)
        for name, results in topics
        for result in results
        if result["error_code"] is ErrorCode.none
    ]
    if not deleted:
        return response
    return _settle(broker, response, deleted, messages.ms(request.timeout))


async def _settle(
    broker: BrokerServices,
    response: DeleteRecordsResponse,
    deleted: list[_Deleted],
    timeout_ms: int,
) -> DeleteRecordsResponse:
    """Wait until no crash brings the records back; results of failures change in place."""
    deadline_ms = broker.clock.monotonic_ms() + timeout_ms
    try:
        await broker.checkpoint([(topic, r["partition_index"]) for topic, r in deleted])
    except OSError:
        # The records are deleted, but a crash may bring them back.
        for _, result in deleted:
            _fail(result, ErrorCode.kafka_storage_error)
        return response
    for topic, result in deleted:
        code = await _replicate(broker, topic, result, deadline_ms)
        if code is not ErrorCode.none:
            _fail(result, code)
    return response


async def _replicate(
    broker: BrokerServices, topic: str, result: DeleteRecordsPartitionResult, deadline_ms: int
) -> ErrorCode:
    """Wait until each live replica has deleted as much: any of them may lead next."""
    while True:
        try:
            partition = broker.replicas.get_leader(topic, result["partition_index"])
        except KafkaError as error:
            return error.code
        if partition.low_watermark >= result["low_watermark"]:
            return ErrorCode.none
        if broker.clock.monotonic_ms() >= deadline_ms:
            return ErrorCode.request_timed_out
        await asyncio.sleep(REPLICATION_POLL_MS / 1000)


def _delete(
    broker: BrokerServices, context: RequestContext, topic: str, entry: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        if not broker.authorize(context, "DELETE", "TOPIC", topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.invalid_topic_exception, "the topic is internal")
        partition = broker.replicas.get_leader(topic, entry.partition_index)
        low_watermark = partition.delete_records(entry.offset)
    except KafkaError as error:
        return _result(entry.partition_index, error.code)
    return _result(entry.partition_index, ErrorCode.none, low_watermark)


def _result(
    index: int, code: ErrorCode, low_watermark: int = NO_LOW_WATERMARK
) -> DeleteRecordsPartitionResult:
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": code}


def _fail(result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    result["error_code"] = code
    result["low_watermark"] = NO_LOW_WATERMARK
