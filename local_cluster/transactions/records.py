"""Keys and values of `__transaction_state`, byte for byte as Kafka writes them.

    key v0:   version int16, transactional_id string
    value v0: version int16, producer_id int64, producer_epoch int16, timeout_ms int32,
              status int8, partitions [topic string, [partition int32]] (null while Empty),
              last_update_ms int64, start_ms int64
    value v1: the same fields, flexible (KIP-482); its tagged fields (previous and next producer
              id, client transaction version) serve transactions of version 2 and are skipped

Written: key v0 with value v0, as Kafka does while transaction.version is 0. Read: values v0 and v1.
Source: transaction-coordinator/src/main/resources/common/message/TransactionLog{Key,Value}.json.
"""

from __future__ import annotations

import struct
from typing import Final

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    skip_tagged_fields,
    write_array_length,
    write_string,
)

from .transaction import Transaction
from .transaction_fsm import TransactionState

KEY_VERSION: Final = 0
VALUE_VERSION_WRITTEN: Final = 0
VALUE_VERSION_FLEXIBLE: Final = 1
TRANSACTIONAL_ID_BYTES_MAX: Final = 32_767
"""What an int16 length can say; longer ids are refused before they come here."""

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
_HEAD: Final = struct.Struct(">qhib")
_TIMES: Final = struct.Struct(">qq")
_TOPIC_BYTES_MIN: Final = 2


def encode_key(transactional_id: str) -> bytes:
    """Key v0."""
    return _INT16.pack(KEY_VERSION) + write_string(transactional_id, flexible=False)


def encode_value(transaction: Transaction) -> bytes:
    """Value v0."""
    out = bytearray(_INT16.pack(VALUE_VERSION_WRITTEN))
    out += _HEAD.pack(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        STATUS_NUMBERS[transaction.state],
    )
    if transaction.state is TransactionState.EMPTY:
        out += _INT32.pack(-1)
    else:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        out += write_array_length(len(by_topic), flexible=False)
        for topic, indexes in by_topic.items():
            out += write_string(topic, flexible=False)
            out += write_array_length(len(indexes), flexible=False)
            out += struct.pack(f">{len(indexes)}i", *indexes)
    out += _TIMES.pack(transaction.update_ms, transaction.start_ms)
    return bytes(out)


def decode_key(key: bytes) -> str | None:
    """The transactional id; None for kinds of records that are not ours to read.

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
        raise UnreadableRecordError("a key without a transactional id")
    return transactional_id


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    """Value v0 or v1. Raises UnreadableRecordError."""
    view = memoryview(value)
    try:
        (version,) = _INT16.unpack_from(view)
        if version not in (VALUE_VERSION_WRITTEN, VALUE_VERSION_FLEXIBLE):
            raise UnreadableRecordError(f"transaction value of version {version}")
        flexible = version == VALUE_VERSION_FLEXIBLE
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
    except (IndexError, struct.error, PeerError) as error:
        raise UnreadableRecordError(f"value of {len(value)} bytes: {error}") from error
    state = _STATES.get(status)
    if state is None:
        raise UnreadableRecordError(f"transaction status {status}")
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=frozenset(partitions),
        update_ms=update_ms,
        start_ms=start_ms,
    )
