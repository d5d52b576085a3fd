"""Produce v3-v13 (advertised from 0, see ApiVersions).

acks=0 has no response. acks=1 responds when the leader has written, acks=-1 when the high watermark
has passed the batches. The log checks sequences of idempotent producers (KIP-98, KIP-360); a
duplicate gets its original offsets. Version notes:

- v8: errors of single records (KIP-467). v9: flexible.
- v10: the current leader, if it is another broker (KIP-951).
- v11: TRANSACTION_ABORTABLE; v12: Produce adds its partitions to the transaction (KIP-890).
- v13: topic ids (KIP-516). UNKNOWN_TOPIC_ID: no topic has the id, or the replica here has another.

Deviations from Kafka (more in tests/compat/same_answers/deviations.py):

- The records inside a batch are not opened; the header, its bounds and the CRC are checked. Records
  are opened for compacted topics, and where the topic's `heliograph.record.check` is `full`.
- Two batches for one partition in one request are both appended (Kafka drops the first).
- Some errors have a message where Kafka has the code alone.

Before the first batch of a transaction in a partition, the leader asks the transaction's
coordinator (partition_verification.py). If the answer has to be waited for, the batches wait in a
copy, and later batches of the same producer wait behind them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Final

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.data.current_leader import current_leader, node_endpoints
from local_cluster.handlers.data.delayed_produce import DelayedProduce, Waiting
from local_cluster.handlers.data.throttles import produce_throttle_ms
from local_cluster.handlers.data.verified_produce import (
    Verified,
    add_request,
    find_unverified,
    verify_and_produce,
)
from local_cluster.handlers.deferred import Body, Deferred, ThrottledBody
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.partition_verification import (
    SupportedOperation,
    has_open_transaction,
    is_verification_enabled,
    verify_locally,
)
from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.record_checks import (
    RecordsRefusedError,
    check_keys,
    check_records,
)
from local_cluster.records.header import HEADER_BYTES, BatchHeader, read_header
from local_cluster.replication.partition import Partition
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from local_cluster.wire.errors import ErrorCode, KafkaError

NO_LOG_START_ERRORS: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.message_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""Errors without a log start offset, which are not counted as failed, as in Kafka."""
RECORD_ERRORS_SHOWN_MAX: Final = 3
ZSTD_SINCE_VERSION: Final = 7
NO_TOPIC: Final = ""
"""The name of a topic whose id is unknown."""


@handles(ApiKey.PRODUCE, min_version=3, max_version=13, raw=True, advertised_min_version=0)
def produce(broker: BrokerServices, context: RequestContext, body: memoryview) -> Reply:
    """Append each partition's batches; respond when `acks` says so."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        return _refuse_all(context, request, ErrorCode.invalid_required_acks)
    if context.api_version >= codec.TOPIC_IDS_SINCE:
        request = request._replace(partitions=[_named(broker, e) for e in request.partitions])
    verified: Verified = None
    if request.transactional_id is not None and (producers := _transactional_producers(request)):
        if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
            return _refuse_all(context, request, ErrorCode.transactional_id_authorization_failed)
        if len(producers) > 1:
            # The coordinator is asked about one producer. Others would open what nobody ends.
            return _refuse_all(context, request, ErrorCode.invalid_producer_id_mapping)
        operation = SupportedOperation.of_produce(context.api_version)
        if operation.adds or is_verification_enabled(broker):
            unverified = find_unverified(broker, context, request)
            verified = {}
            if broker.transactions.write_queue.is_waiting(request.transactional_id):
                verified = None
            elif unverified:
                verified = verify_locally(broker, add_request(request, unverified), operation)
            if verified is None:
                kept = request._replace(partitions=[_copied(e) for e in request.partitions])
                later = partial(_produce, broker, context, kept)
                return verify_and_produce(broker, context, kept, operation, later)
    return _produce(broker, context, request, verified)


def _produce(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    verified: Verified,
) -> Body | Deferred | None:
    results: list[codec.PartitionProduceResponse] = []
    waiting: list[Waiting] = []
    for entry in request.partitions:
        result, uncommitted = _append(broker, context, request, entry, verified)
        if uncommitted is not None:
            waiting.append((len(results), *uncommitted))
        results.append(result)
    if request.acks == ACKS_NONE:
        if any(result.error_code for result in results):
            # The connection is closed, as in Kafka: acks=0 has no other sign of an error.
            raise KafkaError(ErrorCode.invalid_request, "a produce with acks=0 was refused")
        throttle_ms = produce_throttle_ms(broker, context, ACKS_NONE)
        return ThrottledBody(None, throttle_ms) if throttle_ms else None
    if not waiting:
        return _encode(broker, context, results)
    encode = partial(_encode, broker, context)
    return DelayedProduce(results, waiting, request.timeout_ms, encode).reply


def _append(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    entry: codec.PartitionRecords,
    verified: Verified,
) -> tuple[codec.PartitionProduceResponse, tuple[Partition, int] | None]:
    """Append one partition's batches; return the result and (partition, offset) to wait for."""
    partition = None
    try:
        if entry.topic == NO_TOPIC and entry.topic_id is not None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        if not broker.authorize(context, "WRITE", "TOPIC", entry.topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        if entry.topic in INTERNAL_TOPICS and entry.topic in broker.metadata.topics:
            raise KafkaError(ErrorCode.invalid_topic_exception, "the topic is internal")
        if entry.records is None or not len(entry.records):
            raise KafkaError(ErrorCode.invalid_record, "no records")
        partition = broker.replicas.get_leader(entry.topic, entry.partition)
        partition.traffic.produce_requests += 1
        if entry.topic_id is not None and entry.topic_id != partition.topic_id:
            raise KafkaError(ErrorCode.unknown_topic_id)
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
        _check_producers(broker, context, headers)
        for header in headers:
            if header.is_transactional:
                _check_transaction(broker, context, request, partition, header, verified)
        if config.full_record_check:
            check_records(
                entry.records,
                headers,
                log_append_time=config.log_append_time,
                now_ms=broker.clock.now_ms(),
                timestamp_before_ms_max=config.timestamp_before_ms_max,
                timestamp_after_ms_max=config.timestamp_after_ms_max,
            )
        if config.is_compacted:
            keyless = check_keys(entry.records, headers)
            if keyless:
                partition.traffic.failed_produce_requests += 1
                return _refuse_keyless(entry, partition, keyless), None
        if request.acks == ACKS_ALL and partition.in_sync is not None:
            partition.require_in_sync_replicas()
        appended = partition.append(entry.records, headers)
    except KafkaError as error:
        _count_refused(broker, partition, error)
        return _refuse(entry, partition, error), None
    result = codec.PartitionProduceResponse(
        entry.topic,
        entry.partition,
        ErrorCode.none,
        appended.base_offset,
        appended.log_append_time_ms,
        appended.log_start_offset,
        topic_id=entry.topic_id,
    )
    if request.acks == ACKS_ALL and partition.high_watermark <= appended.last_offset:
        return result, (partition, appended.last_offset + 1)
    return result, None


def _check_producers(
    broker: BrokerServices, context: RequestContext, headers: Sequence[BatchHeader]
) -> None:
    """Raise KafkaError for batches with the producer id of a mirror, of anybody else."""
    producers = broker.mirror_producers
    if producers is None:
        return
    for header in headers:
        if not producers.may_write(context, header.producer_id):
            raise KafkaError(ErrorCode.topic_authorization_failed)


def _count_refused(broker: BrokerServices, partition: Partition | None, error: KafkaError) -> None:
    traffic = broker.replicas.traffic.unknown if partition is None else partition.traffic
    traffic.produce_requests += partition is None
    traffic.failed_produce_requests += error.code not in NO_LOG_START_ERRORS


# -- transactions -----------------------------------------------------------------------------


def _transactional_producers(request: codec.ProduceRequest) -> set[tuple[int, int]]:
    """Return the id and epoch of each producer of transactional batches, one if it is valid."""
    headers = [
        read_header(entry.records)
        for entry in request.partitions
        if entry.records is not None and len(entry.records) >= HEADER_BYTES
    ]
    return {(each.producer_id, each.producer_epoch) for each in headers if each.is_transactional}


def _check_transaction(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    partition: Partition,
    header: BatchHeader,
    verified: Verified,
) -> None:
    """Raise KafkaError for a batch whose partition is not in its producer's transaction."""
    producer_id = header.producer_id
    # By the batch itself, whatever the request says (CVE-2018-17196).
    if request.transactional_id is None or not broker.authorize(
        context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id
    ):
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    if producer_id < 0:
        raise KafkaError(ErrorCode.invalid_txn_state, "the batch has no producer id")
    if verified is None or has_open_transaction(partition, producer_id, header.producer_epoch):
        return
    name = f"{partition.topic}-{partition.partition}"
    key = (partition.topic, partition.partition)
    # No answer: the transaction was open here when the request came, and a marker has ended it.
    error = verified.get(key, ErrorCode.invalid_txn_state)
    if error is not ErrorCode.none:
        raise KafkaError(error, f"{name} is not in the transaction of {producer_id}")
    if (
        SupportedOperation.of_produce(context.api_version).adds
        and header.base_sequence > 0
        and partition.log.producers.get(producer_id) is None
    ):
        # In transaction version 2 each transaction has its own epoch, whose sequences start at 0.
        raise KafkaError(
            ErrorCode.out_of_order_sequence_number,
            f"{name}: producer {producer_id} starts with sequence {header.base_sequence}, not 0",
        )


def _named(broker: BrokerServices, entry: codec.PartitionRecords) -> codec.PartitionRecords:
    """Return the entry with its topic's name; an entry with an unknown id has NO_TOPIC."""
    topic_id = entry.topic_id or uuid.UUID(int=0)
    topic = broker.metadata.topic_by_id(topic_id)
    return entry._replace(topic=NO_TOPIC if topic is None else topic.name, topic_id=topic_id)


def _copied(entry: codec.PartitionRecords) -> codec.PartitionRecords:
    """Return the entry with a copy of its records: the frame's buffer will be reused."""
    if entry.records is None:
        return entry
    return entry._replace(records=memoryview(bytearray(entry.records)))


# -- responses --------------------------------------------------------------------------------


def _encode(
    broker: BrokerServices, context: RequestContext, results: list[codec.PartitionProduceResponse]
) -> Body:
    leaders = []
    for index, result in enumerate(results):
        if result.error_code == ErrorCode.not_leader_or_follower:
            leader = current_leader(broker, result.topic, result.partition)
            results[index] = result._replace(current_leader=leader)
            leaders.append(leader)
    endpoints = node_endpoints(broker, context, leaders) if leaders else ()
    throttle_ms = produce_throttle_ms(broker, context, ACKS_LEADER)
    body = codec.encode_response(
        context.api_version, results, node_endpoints=endpoints, throttle_ms=throttle_ms
    )
    return ThrottledBody(body, throttle_ms) if throttle_ms else body


def _refuse_all(context: RequestContext, request: codec.ProduceRequest, code: ErrorCode) -> bytes:
    if request.acks == ACKS_NONE:
        raise KafkaError(code, "a produce with acks=0 was refused")
    return codec.encode_response(
        context.api_version, [_result(entry, code) for entry in request.partitions]
    )


def _refuse(
    entry: codec.PartitionRecords,
    partition: Partition | None,
    error: KafkaError,
) -> codec.PartitionProduceResponse:
    record_errors = error.record_errors if isinstance(error, RecordsRefusedError) else ()
    result = _result(entry, error.code, error.message or None, record_errors)
    if partition is not None and error.code not in NO_LOG_START_ERRORS:
        return result._replace(log_start_offset=partition.log.log_start_offset)
    return result


def _refuse_keyless(
    entry: codec.PartitionRecords, partition: Partition, indexes: Sequence[int]
) -> codec.PartitionProduceResponse:
    text = (
        "Compacted topic cannot accept message without key in topic partition "
        f"{partition.topic}-{partition.partition}"
    )
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')"
        for index in indexes[:RECORD_ERRORS_SHOWN_MAX]
    )
    return _result(
        entry,
        ErrorCode.invalid_record,
        f"One or more records have been rejected due to {len(indexes)} record errors in total, and "
        f"only showing the first three errors at most: [{shown}]",
        [(index, text) for index in indexes],
    )._replace(log_start_offset=partition.log.log_start_offset)


def _result(
    entry: codec.PartitionRecords,
    code: ErrorCode,
    message: str | None = None,
    record_errors: Sequence[tuple[int, str]] = (),
) -> codec.PartitionProduceResponse:
    return codec.PartitionProduceResponse(
        entry.topic,
        entry.partition,
        code,
        record_errors=tuple(record_errors),
        error_message=message,
        topic_id=entry.topic_id,
    )
