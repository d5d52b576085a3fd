"""Produce v3-v13 (advertised from 0, see ApiVersions).

acks=0 has no answer, acks=1 is answered when the leader has written, acks=-1 when the high
watermark passed. Sequences of idempotent producers (KIP-98, KIP-360) are checked by the log;
a duplicate is answered with its original offsets. v8 carries per-record errors (KIP-467), v9 is
flexible, v10 is told the leader where that is another broker (KIP-951), v11 may be told
TRANSACTION_ABORTABLE and v12 adds its partitions to the transaction (KIP-890), v13 names topics by
id (KIP-516: UNKNOWN_TOPIC_ID where no topic has the id, or the replica here is of another one).

Deviations from Kafka: the records inside a batch are not opened (the header, its bounds and the
CRC are checked), except on compacted topics and where the topic's `heliograph.record.check` is
`full`; two batches for one partition in one request are both appended and answered (Kafka drops
the first); what is wrong is said in words where Kafka says it by the code alone. More in
tests/compat/same_answers/deviations.py.

The first batch of a transaction in a partition is a matter for the transaction's coordinator
(joining.py). Where its answer has to be waited for, the batches wait in a copy of their own, and
what comes after them from the same producer waits behind them.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.data.acknowledgement import Acknowledgement, Waiting
from local_cluster.handlers.data.current_leader import current_leader, node_endpoints
from local_cluster.handlers.registry import Reply, RequestContext, handles
from local_cluster.handlers.services import BrokerServices
from local_cluster.handlers.transactions.joining import (
    Joining,
    Unjoined,
    begin,
    is_open,
    is_verifying,
    join,
    verify_here,
)
from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.record_checks import (
    RecordsRefusedError,
    check_keys,
    check_records,
)
from local_cluster.records.header import HEADER_BYTES, BatchHeader, read_header
from local_cluster.replication.partition import Partition
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

TELLS_NO_LOG_START: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.message_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""Refusals that leave the log start offset out, as Kafka does."""
ERRORS_SHOWN_MAX: Final = 3
ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
ZSTD_SINCE_VERSION: Final = 7
NO_TOPIC: Final = ""
"""The name of a topic that is named by an id which no topic has."""

Joined = Mapping[TopicPartition, ErrorCode] | None
"""What the coordinator says of the partitions that it was asked about; None: it is not asked."""


@handles(ApiKey.PRODUCE, min_version=3, max_version=13, raw=True, advertised_min_version=0)
def produce(broker: BrokerServices, context: RequestContext, body: Any) -> Reply:
    """Append each partition's batches, answer when `acks` says so."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        return _refuse_all(context, request, ErrorCode.invalid_required_acks)
    if context.api_version >= codec.TOPIC_IDS_SINCE:
        request = request._replace(partitions=[_named(broker, e) for e in request.partitions])
    joined: Joined = None
    if request.transactional_id is not None:
        if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
            return _refuse_all(context, request, ErrorCode.transactional_id_authorization_failed)
        joining = Joining.of_produce(context.api_version)
        if joining.adds or is_verifying(broker):
            producer_id, unjoined = _unjoined(broker, request)
            joined = {}
            if broker.transactions.turns.is_waiting(producer_id):
                joined = None
            elif unjoined:
                joined = verify_here(broker, _question(request, unjoined), joining)
            if joined is None:
                kept = request._replace(partitions=[_copied(e) for e in request.partitions])
                return _join_and_produce(broker, context, kept, producer_id, joining)
    return _produce(broker, context, request, joined)


async def _join_and_produce(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    producer_id: int,
    joining: Joining,
) -> Any:
    """Ask the coordinator, then produce; markers that came meanwhile refuse."""
    async with broker.transactions.turns.turn(producer_id):
        _, unjoined = _unjoined(broker, request)
        joined: dict[TopicPartition, ErrorCode] = {}
        if unjoined:
            joined.update(await join(broker, _question(request, unjoined), joining))
            for key, entry in unjoined.items():
                if joined[key] is ErrorCode.none and not entry.is_still_good(joining):
                    joined[key] = ErrorCode.invalid_txn_state
        reply = _produce(broker, context, request, joined)
    return await reply if inspect.isawaitable(reply) else reply


def _produce(
    broker: BrokerServices, context: RequestContext, request: codec.ProduceRequest, joined: Joined
) -> Reply:
    results: list[codec.PartitionProduced] = []
    waiting: list[Waiting] = []
    for entry in request.partitions:
        result, uncommitted = _append(broker, context, request, entry, joined)
        if uncommitted is not None:
            waiting.append((len(results), *uncommitted))
        results.append(result)
    if request.acks == ACKS_NONE:
        if any(result.error_code for result in results):
            # Kafka closes the connection: it is the only way to tell an acks=0 producer.
            raise KafkaError(ErrorCode.invalid_request, "a produce with acks=0 was refused")
        return None
    if not waiting:
        return _encoded(broker, context, results)
    encode = partial(_encoded, broker, context)
    return Acknowledgement(results, waiting, request.timeout_ms, encode).reply


def _append(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    entry: codec.PartitionRecords,
    joined: Joined,
) -> tuple[codec.PartitionProduced, tuple[Partition, int] | None]:
    """Append one partition's batches; with the result whose commit of which offset to wait for,
    if any."""
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
        for header in headers:
            if header.is_transactional:
                _check_transaction(context, request, partition, header, joined)
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
            bad = check_keys(entry.records, headers)
            if bad:
                return _keyless(entry, partition, bad), None
        if request.acks == ACKS_ALL and partition.in_sync is not None:
            partition.require_in_sync_replicas()
        appended = partition.append(entry.records, headers)
    except KafkaError as error:
        return _refusal(entry, partition, error), None
    result = codec.PartitionProduced(
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


# -- transactions -----------------------------------------------------------------------------


def _unjoined(
    broker: BrokerServices, request: codec.ProduceRequest
) -> tuple[int, dict[TopicPartition, Unjoined]]:
    """The request's producer id, and the partitions that its transaction is to begin in.

    Batches of a second producer in one request are left out, and so refused.
    """
    producer_id = producer_epoch = -1
    found: dict[TopicPartition, Unjoined] = {}
    for entry in request.partitions:
        if entry.records is None or len(entry.records) < HEADER_BYTES:
            continue
        header = read_header(entry.records)
        if not header.is_transactional:
            continue
        if producer_id < 0:
            producer_id, producer_epoch = header.producer_id, header.producer_epoch
        if (header.producer_id, header.producer_epoch) != (producer_id, producer_epoch):
            continue
        try:
            partition = broker.replicas.get_leader(entry.topic, entry.partition)
        except KafkaError:
            continue  # refused where it is appended
        if not is_open(partition, producer_id, producer_epoch):
            found[entry.topic, entry.partition] = begin(partition, producer_id, producer_epoch)
    return producer_id, found


def _question(
    request: codec.ProduceRequest, unjoined: Mapping[TopicPartition, Unjoined]
) -> AddRequest:
    first = next(iter(unjoined.values()))
    assert request.transactional_id is not None
    return AddRequest(
        request.transactional_id, first.producer_id, first.producer_epoch, frozenset(unjoined)
    )


def _check_transaction(
    context: RequestContext,
    request: codec.ProduceRequest,
    partition: Partition,
    header: BatchHeader,
    joined: Joined,
) -> None:
    """Refuse a batch whose partition is not in its producer's transaction. Raises KafkaError."""
    producer_id = header.producer_id
    if request.transactional_id is None:
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    if producer_id < 0:
        raise KafkaError(ErrorCode.invalid_txn_state, "the batch names no transactional producer")
    if joined is None or is_open(partition, producer_id, header.producer_epoch):
        return
    name = f"{partition.topic}-{partition.partition}"
    key = (partition.topic, partition.partition)
    # Not asked about: a marker came since its transaction was seen open here.
    error = joined.get(key, ErrorCode.invalid_txn_state)
    if error is not ErrorCode.none:
        raise KafkaError(error, f"{name} is not in the transaction of {producer_id}")
    if (
        Joining.of_produce(context.api_version).adds
        and header.base_sequence > 0
        and partition.log.producers.get(producer_id) is None
    ):
        # In version 2 every transaction has an epoch of its own, whose sequences begin with 0.
        raise KafkaError(
            ErrorCode.out_of_order_sequence_number,
            f"{name}: producer {producer_id} begins with sequence {header.base_sequence}",
        )


def _named(broker: BrokerServices, entry: codec.PartitionRecords) -> codec.PartitionRecords:
    """The entry with its topic's name, by the id; an entry without an id names no topic."""
    topic_id = entry.topic_id or uuid.UUID(int=0)
    topic = broker.metadata.topic_by_id(topic_id)
    return entry._replace(topic=NO_TOPIC if topic is None else topic.name, topic_id=topic_id)


def _copied(entry: codec.PartitionRecords) -> codec.PartitionRecords:
    """The entry with records of its own: the frame's buffer is used again meanwhile."""
    if entry.records is None:
        return entry
    return entry._replace(records=memoryview(bytearray(entry.records)))


# -- answers ----------------------------------------------------------------------------------


def _encoded(
    broker: BrokerServices, context: RequestContext, results: list[codec.PartitionProduced]
) -> bytes:
    leaders = []
    for index, result in enumerate(results):
        if result.error_code == ErrorCode.not_leader_or_follower:
            leader = current_leader(broker, result.topic, result.partition)
            results[index] = result._replace(current_leader=leader)
            leaders.append(leader)
    endpoints = node_endpoints(broker, context, leaders) if leaders else ()
    return codec.encode_response(context.api_version, results, node_endpoints=endpoints)


def _refuse_all(context: RequestContext, request: codec.ProduceRequest, code: ErrorCode) -> bytes:
    return codec.encode_response(
        context.api_version, [_refused(entry, code) for entry in request.partitions]
    )


def _refusal(
    entry: codec.PartitionRecords,
    partition: Partition | None,
    error: KafkaError,
) -> codec.PartitionProduced:
    blamed = error.record_errors if isinstance(error, RecordsRefusedError) else ()
    refused = _refused(entry, error.code, error.message or None, blamed)
    if partition is not None and error.code not in TELLS_NO_LOG_START:
        return refused._replace(log_start_offset=partition.log.log_start_offset)
    return refused


def _keyless(
    entry: codec.PartitionRecords, partition: Partition, bad: Sequence[int]
) -> codec.PartitionProduced:
    text = (
        "Compacted topic cannot accept message without key in topic partition "
        f"{partition.topic}-{partition.partition}"
    )
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index in bad[:ERRORS_SHOWN_MAX]
    )
    return _refused(
        entry,
        ErrorCode.invalid_record,
        f"One or more records have been rejected due to {len(bad)} record errors in total, and "
        f"only showing the first three errors at most: [{shown}]",
        [(index, text) for index in bad],
    )._replace(log_start_offset=partition.log.log_start_offset)


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
        topic_id=entry.topic_id,
    )
