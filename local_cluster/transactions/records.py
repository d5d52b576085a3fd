"""Keys and values of `__transaction_state`, byte for byte as Kafka writes them.

    key v0:   version int16, transactional_id string
    value v0: version int16, producer_id int64, producer_epoch int16, timeout_ms int32,
              status int8, partitions [topic string, [partition int32]] (null while Empty),
              last_update_ms int64, start_ms int64
    value v1: the same fields, flexible (KIP-482), and where they are not -1 or 0 the tagged ones
              of KIP-890: 0 previous_producer_id int64, 1 next_producer_id int64,
              2 client_transaction_version int16

Written: key v0 with value v1, as Kafka does since transaction.version 1. Read: values v0 and v1.
Unknown tagged fields (3, the next epoch of KIP-939) are skipped.
Source: transaction-coordinator/src/main/resources/common/message/TransactionLog{Key,Value}.json.
"""

from __future__ import annotations

import struct
from typing import Final

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.records.header import NO_PRODUCER_ID
from local_cluster.transactions.transaction import Transaction
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    read_unsigned_varint,
    skip_tagged_fields,
    write_array_length,
    write_string,
)

KEY_VERSION: Final = 0
VALUE_VERSION_PLAIN: Final = 0
VALUE_VERSION_WRITTEN: Final = 1
TRANSACTIONAL_ID_BYTES_MAX: Final = 32_767
"""The maximum of an int16 length; longer ids are refused earlier."""

STATUS_NUMBERS: Final = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
    TransactionState.DEAD: 6,
}
_STATES: Final = {number: state for state, number in STATUS_NUMBERS.items()}

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qhib")
_TIMES: Final = struct.Struct(">qq")
_TOPIC_BYTES_MIN: Final = 2
_NULL_ARRAY: Final = b"\0"
_NO_TAGS: Final = b"\0"
_PREVIOUS_PRODUCER_ID: Final = 0
_NEXT_PRODUCER_ID: Final = 1
_CLIENT_VERSION: Final = 2
_TAGS: Final = {_PREVIOUS_PRODUCER_ID: _INT64, _NEXT_PRODUCER_ID: _INT64, _CLIENT_VERSION: _INT16}


def encode_key(transactional_id: str) -> bytes:
    """Encode key v0."""
    return _INT16.pack(KEY_VERSION) + write_string(transactional_id, flexible=False)


def encode_value(transaction: Transaction) -> bytes:
    """Encode value v1."""
    out = bytearray(_INT16.pack(VALUE_VERSION_WRITTEN))
    out += _HEAD.pack(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        STATUS_NUMBERS[transaction.state],
    )
    if transaction.state is TransactionState.EMPTY:
        out += _NULL_ARRAY
    else:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        out += write_array_length(len(by_topic), flexible=True)
        for topic, indexes in by_topic.items():
            out += write_string(topic, flexible=True)
            out += write_array_length(len(indexes), flexible=True)
            out += struct.pack(f">{len(indexes)}i", *indexes)
            out += _NO_TAGS
    out += _TIMES.pack(transaction.update_ms, transaction.start_ms)
    out += _encode_tags(transaction)
    return bytes(out)


def _encode_tags(transaction: Transaction) -> bytes:
    """Encode the tagged fields, without those that have the schema's default, as Kafka does."""
    tags = []
    for tag, value in (
        (_PREVIOUS_PRODUCER_ID, transaction.previous_producer_id),
        (_NEXT_PRODUCER_ID, transaction.next_producer_id),
    ):
        if value != NO_PRODUCER_ID:
            tags.append(bytes((tag, _INT64.size)) + _INT64.pack(value))
    if transaction.client_version:
        packed = _INT16.pack(transaction.client_version)
        tags.append(bytes((_CLIENT_VERSION, _INT16.size)) + packed)
    return bytes((len(tags),)) + b"".join(tags)


def _decode_tags(view: memoryview, position: int) -> dict[int, int]:
    """Return the known tagged fields by tag."""
    found: dict[int, int] = {}
    count, position = read_unsigned_varint(view, position)
    for _ in range(count):
        tag, position = read_unsigned_varint(view, position)
        size, position = read_unsigned_varint(view, position)
        if size > len(view) - position:
            raise UnreadableRecordError(f"tagged field {tag} is longer than the value")
        layout = _TAGS.get(tag)
        if layout is not None:
            if size != layout.size:
                raise UnreadableRecordError(
                    f"tagged field {tag} has {size} bytes, expected {layout.size}"
                )
            (found[tag],) = layout.unpack_from(view, position)
        position += size
    return found


def decode_key(key: bytes) -> str | None:
    """Return the transactional id; None for unknown kinds of records.

    Raises UnreadableRecordError.
    """
    try:
        (version,) = _INT16.unpack_from(key)
        if version != KEY_VERSION:
            return None
        transactional_id, _ = read_string(memoryview(key), _INT16.size, flexible=False)
    except (IndexError, struct.error, PeerError) as error:
        raise UnreadableRecordError(f"key of {len(key)} bytes: {error}") from error
    if transactional_id is None:
        raise UnreadableRecordError("the transactional id is null")
    return transactional_id


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    """Decode value v0 or v1. Raises UnreadableRecordError."""
    view = memoryview(value)
    try:
        (version,) = _INT16.unpack_from(view)
        if version not in (VALUE_VERSION_PLAIN, VALUE_VERSION_WRITTEN):
            raise UnreadableRecordError(f"unknown version {version} of a transaction value")
        flexible = version >= VALUE_VERSION_WRITTEN
        producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(view, _INT16.size)
        position = _INT16.size + _HEAD.size
        partitions: list[tuple[str, int]] = []
        topics_count, position = read_array_length(
            view, position, flexible=flexible, element_bytes_min=_TOPIC_BYTES_MIN
        )
        for _ in range(topics_count):
            topic, position = read_string(view, position, flexible=flexible)
            count, position = read_array_length(
                view, position, flexible=flexible, element_bytes_min=_INT32.size
            )
            indexes = struct.unpack_from(f">{max(count, 0)}i", view, position)
            position += _INT32.size * len(indexes)
            if flexible:
                position = skip_tagged_fields(view, position)
            partitions += [(topic or "", index) for index in indexes]
        update_ms, start_ms = _TIMES.unpack_from(view, position)
        tags = _decode_tags(view, position + _TIMES.size) if flexible else {}
    except (IndexError, struct.error, PeerError) as error:
        raise UnreadableRecordError(f"value of {len(value)} bytes: {error}") from error
    state = _STATES.get(status)
    if state is None:
        raise UnreadableRecordError(f"unknown transaction status {status}")
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=frozenset(partitions),
        update_ms=update_ms,
        start_ms=start_ms,
        previous_producer_id=tags.get(_PREVIOUS_PRODUCER_ID, NO_PRODUCER_ID),
        next_producer_id=tags.get(_NEXT_PRODUCER_ID, NO_PRODUCER_ID),
        client_version=tags.get(_CLIENT_VERSION, 0),
    )
