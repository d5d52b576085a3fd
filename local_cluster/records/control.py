"""Control batches: the markers that end a transaction in a partition (KIP-98).

One record: key = version int16, type int16 (0 abort, 1 commit); value = version int16, coordinator
epoch int32. The batch has the producer's id and epoch and no sequence. Control records of other
types belong to KRaft. Source: Kafka's EndTransactionMarker and ControlRecordType.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from local_cluster.records.batch import (
    CorruptRecordError,
    NewRecord,
    Record,
    decode_batch,
    encode_batch,
)
from local_cluster.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, Buffer

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
# Types of control records (ControlRecordType).
ABORT: Final = 0
COMMIT: Final = 1
_VERSION: Final = 0


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that ended it.

    From transaction version 2 the producer epoch of a marker is above that of the records. The
    version is known to the writer of the marker only; it is not in the record (KIP-1228).
    """

    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


def encode_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Encode the control batch of a marker."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [NewRecord(timestamp_ms, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_type(record: Record) -> int | None:
    """Return the type of a control record; None if its key is too short."""
    if record.key is None or len(record.key) < _KEY.size:
        return None
    kind: int = _KEY.unpack_from(record.key)[1]
    return kind


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> EndMarker | None:
    """Return the marker in the control batch at `position`, or None.

    None: a control record of another type, or an empty batch. Compaction keeps the last batch of a
    producer without its record. Raises CorruptRecordError or CompressionError for a broken batch.
    """
    if not header.records_count:
        return None
    record = decode_batch(buffer, position, header)[0]
    kind = read_type(record)
    if kind is None:
        raise CorruptRecordError("a control record without a type")
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecordError("a transaction marker without a coordinator epoch")
    return EndMarker(kind == COMMIT, _VALUE.unpack_from(record.value)[1])
