"""Receipts: what a mirror believes of each batch that it wrote, for a check against the log.

Topic: `heliograph-receipts.<link>.internal` on the target, one partition, deleted by age
(`cleanup.policy=delete`). A record has no key. Its value is binary; numbers are big-endian,
`varint` is unsigned LEB128, `signed` a zigzag varint.

    value    version byte (1), flow uint64, producer_epoch int16, sequence int32, source int64,
             target int64, timestamp_ms int64, count varint, then per receipt
             source_gap signed, source_span varint, target_gap varint, records_count varint,
             crc uint32, timestamp_gap signed

`flow` is `flow_id` of the flow and the link's producer id. The first receipt's gaps count from
`source`, `target` and `timestamp_ms`. Later gaps count from the end of the receipt before, and from
its timestamp. `sequence` is the first record's; the receipts of one value continue it.

Meaning: of the source offsets [source_from, source_to) `records_count` records were acknowledged as
one batch. They have the target offsets from `target_offset` on, and the batch has this CRC-32C and
this largest timestamp. If several batches name one source range, the single offsets are unknown
(journal: `copied`).

A CRC of 0 may also mean that compaction took one or several batches before their CRCs were noted;
the timestamp is then -1.

Receipts are written before the block of the map that reaches as far. A flow's receipts ascend on
the target. After a worker was killed, its successor writes receipts for the unmapped part, which
may repeat earlier ones.

A receipt that is written alone takes 56 bytes, one of ten 14, one of many 9. That makes 9 to 56 MB
per million batches, and nothing per record (`tests/unit/mirror_maker/audit/test_receipts.py`).
Offsets up to 2^62 are supported.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import mmh3

from mirror_maker.formats.fields import Cursor, MapFormatError, check_range, put_varint
from mirror_maker.formats.records import FlowKey

RECEIPTS_VERSION: Final = 1
RECEIPTS_PER_RECORD_MAX: Final = 10_000
"""Readers refuse a record with more."""
TIMESTAMP_MAX: Final = 2**63 - 1
NO_CRC: Final = 0
"""In the receipt of batches that compaction took before their CRC was noted."""
_HEAD: Final = struct.Struct(">BQhiqqq")
_CRC: Final = struct.Struct(">I")


def receipts_topic_name(link: str) -> str:
    """Return the link's receipts topic; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"heliograph-receipts.{link}.internal"


class Receipt(NamedTuple):
    """One acknowledged batch."""

    source_from: int
    source_to: int
    target_offset: int
    records_count: int
    crc: int
    """CRC-32C, as in the batch header."""
    timestamp_ms: int
    """The largest timestamp of its records."""

    @property
    def target_next(self) -> int:
        """Return the target offset behind the batch."""
        return self.target_offset + self.records_count


class Receipts(NamedTuple):
    """Receipts of one flow, ascending, with consecutive sequences."""

    flow_id: int
    producer_epoch: int
    sequence: int
    """Sequence of the first record."""
    receipts: tuple[Receipt, ...]


def flow_id(flow: FlowKey, producer_id: int) -> int:
    """Return 64 bits that identify a flow of a link: mmh3 of its names, ids and producer id."""
    topic = flow.source_topic.encode()
    identity = struct.pack(">iqH", flow.partition, producer_id, len(topic)) + topic
    identity += flow.source_topic_id.bytes + flow.target_topic_id.bytes
    return mmh3.hash64(identity, signed=False)[0]


def encode_receipts(entry: Receipts) -> bytes:
    """Return the value of a record."""
    first = entry.receipts[0]
    source, target, timestamp_ms = first.source_from, first.target_offset, first.timestamp_ms
    out = bytearray(
        _HEAD.pack(
            RECEIPTS_VERSION,
            entry.flow_id,
            entry.producer_epoch,
            entry.sequence,
            source,
            target,
            timestamp_ms,
        )
    )
    put_varint(out, len(entry.receipts))
    for receipt in entry.receipts:
        _put_signed(out, receipt.source_from - source)
        put_varint(out, receipt.source_to - receipt.source_from)
        put_varint(out, receipt.target_offset - target)
        put_varint(out, receipt.records_count)
        out += _CRC.pack(receipt.crc)
        _put_signed(out, receipt.timestamp_ms - timestamp_ms)
        source, target, timestamp_ms = receipt.source_to, receipt.target_next, receipt.timestamp_ms
    return bytes(out)


def flow_id_of(value: bytes) -> int:
    """Return the flow id of a value without decoding the rest. Raises MapFormatError."""
    if len(value) < _HEAD.size or value[0] != RECEIPTS_VERSION:
        raise MapFormatError(f"not receipts of version {RECEIPTS_VERSION}")
    return int.from_bytes(value[1:9], "big")


def decode_receipts(value: bytes) -> Receipts:
    """Decode a value. Raises MapFormatError."""
    cursor = Cursor(value)
    head = cursor.take(_HEAD.size)
    version, flow, producer_epoch, sequence, source, target, timestamp_ms = _HEAD.unpack(head)
    if version != RECEIPTS_VERSION:
        raise MapFormatError(f"receipts version {version}; this reader knows {RECEIPTS_VERSION}")
    count = cursor.varint()
    if not 0 < count <= RECEIPTS_PER_RECORD_MAX:
        raise MapFormatError(f"{count} receipts in a record")
    receipts: list[Receipt] = []
    for _ in range(count):
        source_from = source + _get_signed(cursor)
        source = source_from + cursor.varint()
        target += cursor.varint()
        records_count = cursor.varint()
        (crc,) = _CRC.unpack(cursor.take(_CRC.size))
        timestamp_ms += _get_signed(cursor)
        check_range(source_from, source)
        check_range(target, target + records_count)
        if not -1 <= timestamp_ms <= TIMESTAMP_MAX:
            raise MapFormatError(f"no timestamp: {timestamp_ms}")
        receipts.append(Receipt(source_from, source, target, records_count, crc, timestamp_ms))
        target += records_count
    cursor.finish()
    return Receipts(flow, producer_epoch, sequence, tuple(receipts))


def split_receipts(
    flow: int, producer_epoch: int, sequence: int, receipts: Sequence[Receipt]
) -> list[Receipts]:
    """Split receipts into as few records as readers accept."""
    made = []
    for start in range(0, len(receipts), RECEIPTS_PER_RECORD_MAX):
        part = tuple(receipts[start : start + RECEIPTS_PER_RECORD_MAX])
        made.append(Receipts(flow, producer_epoch, sequence, part))
        sequence = (sequence + sum(each.records_count for each in part)) & 0x7FFF_FFFF
    return made


def _put_signed(out: bytearray, value: int) -> None:
    put_varint(out, (value << 1) ^ (value >> 63))


def _get_signed(cursor: Cursor) -> int:
    value = cursor.varint()
    return (value >> 1) ^ -(value & 1)
