"""Control batches: the markers that end a transaction in a partition (KIP-98).

One record: key = version int16, type int16 (0 abort, 1 commit); value = version int16,
coordinator epoch int32. The batch carries the producer's id and epoch and no sequence.
Source: Kafka's EndTransactionMarker and ControlRecordType. Types other than these two (KRaft's)
are no transaction markers.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, NewRecord, decode_batch, encode_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1
_VERSION: Final = 0


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that says so.

    From transaction version 2 on the producer epoch of a marker is above that of the records; the
    version is told to whoever writes the marker, and is not in the record (KIP-1228).
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
    """The control batch of a marker."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [NewRecord(timestamp_ms, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=h.TRANSACTIONAL_BIT | h.CONTROL_BIT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_marker(buffer: h.Buffer, position: int, header: h.BatchHeader) -> EndMarker | None:
    """The marker in the control batch at `position`; None for control records of other kinds, and
    where compaction has taken the record out and kept the batch, its producer's last.

    Raises CorruptRecordError or CompressionError for a batch that cannot be read.
    """
    if not header.records_count:
        return None
    record = decode_batch(buffer, position, header)[0]
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecordError("a control record without a type")
    kind = _KEY.unpack_from(record.key)[1]
    if kind not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecordError("a transaction marker without a coordinator epoch")
    return EndMarker(kind == _COMMIT, _VALUE.unpack_from(record.value)[1])
