"""Produce v3-v11 (advertised from 0, see ApiVersions).

acks=0 has no answer, acks=1 is answered when the leader has written, acks=-1 when the high
watermark passed. Sequences of idempotent producers (KIP-98, KIP-360) are checked by the log;
a duplicate is answered with its original offsets. v8 carries per-record errors (KIP-467), v9 is
flexible, v10 may name the new leader (KIP-951), v11 knows more errors of transactions (KIP-890).

Deviations from Kafka: the records inside a batch are not opened (the header, its bounds and the
CRC are checked), except on compacted topics and where the topic's `heliograph.record.check` is
`full`; transactional batches are refused with INVALID_TXN_STATE, transactions are not there, so
v12, by which a batch adds its partition to the transaction, is not served; the hints of v10
(optional) are not given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from local_cluster.log.validate import check_keys, check_produced, check_records
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext, handles
from .services import BrokerServices

ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
ZSTD_SINCE_VERSION: Final = 7
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


@handles(ApiKey.PRODUCE, min_version=3, max_version=11, raw=True, advertised_min_version=0)
def produce(broker: BrokerServices, context: RequestContext, body: Any) -> Reply:
    """Append each partition's batches, answer when `acks` says so."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        results = [_refused(entry, ErrorCode.invalid_required_acks) for entry in request.partitions]
        return codec.encode_response(context.api_version, results)
    results = []
    waiting: list[tuple[int, asyncio.Future[None]]] = []
    for entry in request.partitions:
        result, future = _append(broker, context, request, entry)
        if future is not None:
            waiting.append((len(results), future))
        results.append(result)
    if request.acks == ACKS_NONE:
        if any(result.error_code for result in results):
            # Kafka closes the connection: it is the only way to tell an acks=0 producer.
            raise KafkaError(ErrorCode.invalid_request, "a produce with acks=0 was refused")
        return None
    if not waiting:
        return codec.encode_response(context.api_version, results)
    return _answer_when_committed(context.api_version, results, waiting, request.timeout_ms)


def _append(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    entry: codec.PartitionRecords,
) -> tuple[codec.PartitionProduced, asyncio.Future[None] | None]:
    """Append one partition's batches; with the result what to wait for, if anything."""
    if not broker.authorize(context, "WRITE", "TOPIC", entry.topic):
        return _refused(entry, ErrorCode.topic_authorization_failed), None
    try:
        if entry.topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.invalid_topic_exception, "the topic is internal")
        if entry.records is None or not len(entry.records):
            raise KafkaError(ErrorCode.invalid_record, "no records")
        partition = broker.replicas.get_leader(entry.topic, entry.partition)
        config = partition.log.config
        headers = check_produced(
            entry.records,
            message_bytes_max=config.max_message_bytes,
            allow_zstd=context.api_version >= ZSTD_SINCE_VERSION,
            log_append_time=config.log_append_time,
            now_ms=broker.clock.now_ms(),
            timestamp_before_ms_max=config.timestamp_before_ms_max,
            timestamp_after_ms_max=config.timestamp_after_ms_max,
        )
        if config.full_record_check:
            check_records(entry.records, headers)
        if config.is_compacted:
            bad = check_keys(entry.records, headers)
            if bad:
                return _refused(
                    entry,
                    ErrorCode.invalid_record,
                    "a record on a compacted topic needs a key",
                    [(index, "the record has no key") for index in bad],
                ), None
        appended = partition.append(entry.records, headers)
    except KafkaError as error:
        return _refused(entry, error.code, error.message or None), None
    result = codec.PartitionProduced(
        entry.topic,
        entry.partition,
        ErrorCode.none,
        appended.base_offset,
        appended.log_append_time_ms,
        appended.log_start_offset,
    )
    if request.acks == ACKS_ALL and partition.high_watermark <= appended.last_offset:
        return result, partition.committed(appended.last_offset + 1)
    return result, None


async def _answer_when_committed(
    version: int,
    results: list[codec.PartitionProduced],
    waiting: Sequence[tuple[int, asyncio.Future[None]]],
    timeout_ms: int,
) -> bytes:
    await asyncio.wait([future for _, future in waiting], timeout=max(timeout_ms, 0) / 1000)
    for index, future in waiting:
        if not future.done():
            future.cancel()
            results[index] = _failed(results[index], ErrorCode.request_timed_out)
        elif (error := future.exception()) is not None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.unknown_server_error
            results[index] = _failed(results[index], code)
    return codec.encode_response(version, results)


def _refused(
    entry: codec.PartitionRecords,
    code: ErrorCode,
    message: str | None = None,
    record_errors: Sequence[tuple[int, str]] = (),
) -> codec.PartitionProduced:
    return codec.PartitionProduced(
        entry.topic,
        entry.partition,
        code,
        record_errors=tuple(record_errors),
        error_message=message,
    )


def _failed(result: codec.PartitionProduced, code: ErrorCode) -> codec.PartitionProduced:
    return codec.PartitionProduced(result.topic, result.partition, code)
