"""Produce v3-v11 (advertised from 0, see ApiVersions).

acks=0 has no answer, acks=1 is answered when the leader has written, acks=-1 when the high
watermark passed. Sequences of idempotent producers (KIP-98, KIP-360) are checked by the log;
a duplicate is answered with its original offsets. v8 carries per-record errors (KIP-467), v9 is
flexible, v10 may name the new leader (KIP-951), v11 knows more errors of transactions (KIP-890).

Deviations from Kafka: the records inside a batch are not opened (the header, its bounds and the
CRC are checked), except on compacted topics and where the topic's `heliograph.record.check` is
`full`; v12, by which a batch adds its partition to the transaction, is not served; the hints of
v10 (optional) are not given.

The first batch of a transaction in a partition is verified with the transaction's coordinator
(KIP-890; `transaction.partition.verification.enable`). Where that is another broker, the batches
wait for its answer in a copy of their own, and go on in the order in which they came.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from local_cluster.controller.model import INTERNAL_TOPICS
from local_cluster.log.validate import check_keys, check_produced, check_records
from local_cluster.records.header import HEADER_BYTES, BatchHeader, read_header
from local_cluster.replication.partition import Partition
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext, handles
from .services import BrokerServices
from .verification import verify, verify_here

VERIFY_LATER: Final = ErrorCode.not_enough_replicas
"""What Kafka tells producers of this version that should send the batch again."""
ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
ZSTD_SINCE_VERSION: Final = 7


@handles(ApiKey.PRODUCE, min_version=3, max_version=11, raw=True, advertised_min_version=0)
def produce(broker: BrokerServices, context: RequestContext, body: Any) -> Reply:
    """Append each partition's batches, answer when `acks` says so."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        results = [_refused(entry, ErrorCode.invalid_required_acks) for entry in request.partitions]
        return codec.encode_response(context.api_version, results)
    if request.transactional_id is not None:
        if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
            code = ErrorCode.transactional_id_authorization_failed
            return codec.encode_response(
                context.api_version, [_refused(entry, code) for entry in request.partitions]
            )
        unverified = _unverified(broker, request)
        if unverified:
            kept = request._replace(
                partitions=[
                    entry._replace(records=entry.records and memoryview(bytearray(entry.records)))
                    for entry in request.partitions
                ]
            )
            return _verify_elsewhere(broker, context, kept, unverified)
    return _produce(broker, context, request, {})


async def _verify_elsewhere(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    unverified: Mapping[TopicPartition, _Unverified],
) -> Any:
    """Ask the coordinator on another broker, then produce; markers that came meanwhile refuse."""
    refusals: dict[TopicPartition, ErrorCode] = {}
    for key, (partition, producer_id, epoch, token) in unverified.items():
        assert request.transactional_id is not None
        error = await verify(
            broker, request.transactional_id, producer_id, epoch, key, later_code=VERIFY_LATER
        )
        producers = partition.log.producers
        if error is ErrorCode.none and not (
            producers.is_verified(producer_id, token) or _is_open(partition, producer_id, epoch)
        ):
            error = ErrorCode.invalid_txn_state
        refusals[key] = error
    reply = _produce(broker, context, request, refusals)
    return await reply if inspect.isawaitable(reply) else reply


def _produce(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    verified: Mapping[TopicPartition, ErrorCode],
) -> Reply:
    results: list[codec.PartitionProduced] = []
    waiting: list[tuple[int, asyncio.Future[None]]] = []
    for entry in request.partitions:
        result, future = _append(broker, context, request, entry, verified)
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
    verified: Mapping[TopicPartition, ErrorCode],
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
            allow_transactional=True,
            log_append_time=config.log_append_time,
            now_ms=broker.clock.now_ms(),
            timestamp_before_ms_max=config.timestamp_before_ms_max,
            timestamp_after_ms_max=config.timestamp_after_ms_max,
        )
        for header in headers:
            if header.is_transactional:
                _check_transaction(broker, request, partition, header, verified)
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


class _Unverified(NamedTuple):
    """The first batch of a transaction in a partition, and the token of its verification."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    token: object


def _unverified(
    broker: BrokerServices, request: codec.ProduceRequest
) -> dict[TopicPartition, _Unverified]:
    """Partitions for which the coordinator on another broker must be asked."""
    found: dict[TopicPartition, _Unverified] = {}
    assert request.transactional_id is not None
    if not _is_verifying(broker) or broker.transactions.is_here(request.transactional_id):
        return found
    for entry in request.partitions:
        if entry.records is None or len(entry.records) < HEADER_BYTES:
            continue
        header = read_header(entry.records)
        try:
            partition = broker.replicas.get_leader(entry.topic, entry.partition)
        except KafkaError:
            continue  # refused where it is appended
        producer_id, epoch = header.producer_id, header.producer_epoch
        if not header.is_transactional or _is_open(partition, producer_id, epoch):
            continue
        token = partition.log.producers.begin_verification(producer_id)
        found[entry.topic, entry.partition] = _Unverified(partition, producer_id, epoch, token)
    return found


def _check_transaction(
    broker: BrokerServices,
    request: codec.ProduceRequest,
    partition: Partition,
    header: BatchHeader,
    verified: Mapping[TopicPartition, ErrorCode],
) -> None:
    """Refuse a batch whose partition is not in its producer's transaction. Raises KafkaError."""
    transactional_id = request.transactional_id
    if transactional_id is None or header.producer_id < 0:
        raise KafkaError(ErrorCode.invalid_txn_state, "the batch names no transactional producer")
    producer_id, epoch = header.producer_id, header.producer_epoch
    if _is_open(partition, producer_id, epoch) or not _is_verifying(broker):
        return
    key = (partition.topic, partition.partition)
    error = verified.get(key)
    if error is None:
        error = verify_here(
            broker, transactional_id, producer_id, epoch, key, later_code=VERIFY_LATER
        )
    if error is not ErrorCode.none:
        raise KafkaError(
            error or VERIFY_LATER, f"{key[0]}-{key[1]} is not in the transaction of {producer_id}"
        )


def _is_open(partition: Partition, producer_id: int, epoch: int) -> bool:
    """Whether the producer's transaction was begun in this partition already."""
    known = partition.log.producers.get(producer_id)
    return known is not None and known.epoch == epoch and known.transaction_first_offset >= 0


def _is_verifying(broker: BrokerServices) -> bool:
    value = broker.settings.config.get("transaction.partition.verification.enable", "true")
    return value.lower() != "false"


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
