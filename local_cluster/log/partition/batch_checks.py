"""The checks of Produce on record batches: headers always, records where the topic needs it.

`check_produced` looks at the 61-byte header, the bounds and the CRC-32C. It opens a batch only
where the base timestamp is larger than the largest one.
Kafka opens every batch as well and refuses a header whose count or timestamps lie about the
records; `check_records` does that for topics whose `heliograph.record.check` is `full`, and
`check_keys` looks for records without a key, which compacted topics refuse.

The order of the checks and their error codes are those of Kafka's ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords and LogValidator; `tests/real/broker/
test_record_checks_like_kafka.py` compares them with a Kafka's. Where this differs:

- a header whose largest timestamp is wrong and the LogAppendTime bit from a client are refused
  (Kafka corrects both silently, which changes the visible times). Without the full check a wrong
  largest timestamp is noticed where it lies before the base timestamp
- a delete horizon (KIP-534) from a client is refused: only the log cleaner of this log sets one
- offset deltas other than 0, 1, 2... are refused by the full check (Kafka takes them uncompressed)
- records that cannot be read answer invalid_record and an unknown codec
  unsupported_compression_type (Kafka: unknown_server_error)
- a cut-off batch behind a whole one is refused (Kafka drops it silently)
- records that open to more than 64 MiB are refused where they are opened
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from crc32c import crc32c

from local_cluster.log.partition.record_checks import (
    RecordsRefusedError,
    TimestampLimits,
    out_of_range,
)
from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import DECOMPRESSED_BYTES_MAX, Codec, CompressionError
from local_cluster.wire.errors import ErrorCode, KafkaError

MESSAGE_BYTES_MAX: Final = 1_048_588
"""Kafka's default of message.max.bytes: one MiB and the overhead of a batch in the log."""
TIMESTAMP_MS_MAX: Final = (1 << 63) - 1
RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, key length, value length and header count: one byte each."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_START: Final = 21
_LENGTH_START: Final = 8
_MAGIC_START: Final = 16
_LENGTH: Final = struct.Struct(">i")
OLD_RECORD_BYTES_MIN: Final = 14
"""The smallest record of any format: format 0, without key and value."""
_FORBIDDEN_BITS: Final = h.CONTROL_BIT | h.TIMESTAMP_TYPE_BIT | h.DELETE_HORIZON_BIT


def check_produced(
    buffer: h.Buffer,
    position: int = 0,
    *,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
    batches_max: int = 1,
    allow_zstd: bool = True,
    allow_transactional: bool = False,
    log_append_time: bool = False,
    now_ms: int | None = None,
    timestamp_before_ms_max: int = TIMESTAMP_MS_MAX,
    timestamp_after_ms_max: int = TIMESTAMP_MS_MAX,
) -> list[h.BatchHeader]:
    """The headers of the batches that fill `buffer` from `position` to its end.

    `batches_max` is 1 as in Kafka; `allow_zstd` is false for Produce before version 7;
    `now_ms` turns on the check of message.timestamp.{before,after}.max.ms, which look at the first
    and the largest timestamp of each batch and do not apply to LogAppendTime topics.
    Raises KafkaError: corrupt_message, message_too_large, invalid_record, invalid_timestamp,
    unsupported_compression_type, invalid_txn_state.
    """
    view = memoryview(buffer)
    end = len(view)
    headers: list[h.BatchHeader] = []
    while True:
        header = _check_batch(view, position, end, message_bytes_max)
        if header.attributes:
            _check_attributes(header.attributes, allow_zstd, allow_transactional)
        if not log_append_time:
            first, largest = header.base_timestamp, header.max_timestamp
            if largest < first:
                # The base is no record's time, as in a batch that a log cleaner gave a delete
                # horizon (KIP-534). Only the records tell their times.
                check_records(
                    view,
                    [header],
                    position,
                    now_ms=now_ms,
                    timestamp_before_ms_max=timestamp_before_ms_max,
                    timestamp_after_ms_max=timestamp_after_ms_max,
                )
            elif now_ms is not None and (
                largest - now_ms > timestamp_after_ms_max
                or (first >= 0 and now_ms - first > timestamp_before_ms_max)
            ):
                times = TimestampLimits(now_ms, timestamp_before_ms_max, timestamp_after_ms_max)
                raise _out_of_range(view, position, header, times)
        headers.append(header)
        position += header.batch_length + h.LOG_OVERHEAD_BYTES
        if position == end:
            return headers
        if len(headers) == batches_max:
            raise KafkaError(
                ErrorCode.invalid_record, f"more than {batches_max} record batches in a partition"
            )


def check_records(
    buffer: h.Buffer,
    headers: Sequence[h.BatchHeader],
    position: int = 0,
    *,
    log_append_time: bool = False,
    now_ms: int | None = None,
    timestamp_before_ms_max: int = TIMESTAMP_MS_MAX,
    timestamp_after_ms_max: int = TIMESTAMP_MS_MAX,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> None:
    """Open the batches that begin at `position` and compare their records with their headers.

    Costs a full decode in Python, so the data path asks for it only where the topic does.
    Raises KafkaError: invalid_record for records that are not in the format or whose offsets are
    not 0, 1, 2, ...; invalid_timestamp where the largest timestamp is not the header's, and
    RecordsRefusedError where a record's time is out of range.
    """
    times = TimestampLimits(now_ms, timestamp_before_ms_max, timestamp_after_ms_max)
    for header, records in _open_batches(buffer, headers, position, decompressed_bytes_max):
        for index, record in enumerate(records):
            if record.offset != header.base_offset + index:
                raise KafkaError(
                    ErrorCode.invalid_record,
                    f"record {index} has offset delta {record.offset - header.base_offset}",
                )
        if log_append_time:
            continue
        if any(times.excludes(record.timestamp_ms) for record in records):
            raise out_of_range(records, times)
        largest = max(record.timestamp_ms for record in records)
        if largest != header.max_timestamp:
            raise KafkaError(
                ErrorCode.invalid_timestamp,
                f"largest timestamp is {largest}, the header says {header.max_timestamp}",
            )


def check_keys(
    buffer: h.Buffer,
    headers: Sequence[h.BatchHeader],
    position: int = 0,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[int]:
    """The indexes of the records without a key, which a compacted topic refuses.

    Records count through all batches from `position` on. Raises KafkaError(invalid_record) for
    records that are not in the format.
    """
    keyless: list[int] = []
    count = 0
    for _, records in _open_batches(buffer, headers, position, decompressed_bytes_max):
        keyless += [count + index for index, record in enumerate(records) if record.key is None]
        count += len(records)
    return keyless


def _open_batches(
    buffer: h.Buffer,
    headers: Sequence[h.BatchHeader],
    position: int,
    decompressed_bytes_max: int,
) -> Iterator[tuple[h.BatchHeader, list[Record]]]:
    for header in headers:
        try:
            yield header, decode_batch(buffer, position, header, decompressed_bytes_max)
        except (CompressionError, CorruptRecordError) as error:
            raise KafkaError(ErrorCode.invalid_record, str(error)) from error
        position += header.size_bytes


def _check_batch(
    view: memoryview, position: int, end: int, message_bytes_max: int
) -> h.BatchHeader:
    """The header of the batch at `position`, if its bounds, CRC, counts and sequence are right."""
    if position + h.HEADER_BYTES > end:
        raise _too_short(view, position, end)
    header = h.BatchHeader._make(_HEADER.unpack_from(view, position))
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    ) = header
    if magic != h.MAGIC:
        raise _wrong_magic(magic)
    size_bytes = batch_length + h.LOG_OVERHEAD_BYTES
    if size_bytes < h.HEADER_BYTES or position + size_bytes > end:
        # Kafka does not see a batch that is cut short: there is none in the request.
        raise KafkaError(
            ErrorCode.corrupt_message if size_bytes < h.HEADER_BYTES else ErrorCode.invalid_record,
            f"the batch claims {size_bytes} bytes, {end - position} are there",
        )
    if size_bytes > message_bytes_max:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"the batch has {size_bytes} bytes, {message_bytes_max} are allowed",
        )
    if base_offset:
        raise KafkaError(
            ErrorCode.invalid_record, f"base offset of a produced batch is {base_offset}, not 0"
        )
    if crc32c(view[position + _CRC_START : position + size_bytes]) != crc:
        raise KafkaError(ErrorCode.corrupt_message, "the CRC-32C does not match")
    if records_count <= 0 or last_offset_delta != records_count - 1:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"{records_count} records, but the last offset delta is {last_offset_delta}",
        )
    payload_bytes = size_bytes - h.HEADER_BYTES
    if not attributes & h.CODEC_MASK and records_count * RECORD_BYTES_MIN > payload_bytes:
        raise KafkaError(
            ErrorCode.invalid_record, f"{records_count} records cannot fit in {payload_bytes} bytes"
        )
    if producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0):
        raise KafkaError(
            ErrorCode.invalid_record,
            f"producer {producer_id} with epoch {producer_epoch}, sequence {base_sequence}",
        )
    return header


def _out_of_range(
    view: memoryview, position: int, header: h.BatchHeader, times: TimestampLimits
) -> RecordsRefusedError:
    # Only now is the batch opened: the client wants to know which records it should drop.
    try:
        records = decode_batch(view, position, header)
    except (CompressionError, CorruptRecordError):
        records = []
    return out_of_range(records, times)


def _too_short(view: memoryview, position: int, end: int) -> KafkaError:
    """What Kafka finds in bytes that are no whole batch: none, an old format, or damage."""
    rest = end - position
    if rest >= h.LOG_OVERHEAD_BYTES:
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_START)
        if length < OLD_RECORD_BYTES_MIN:
            return KafkaError(ErrorCode.corrupt_message, f"the batch claims {length} bytes")
    if rest > _MAGIC_START:
        magic = view[position + _MAGIC_START]
        if magic != h.MAGIC:
            return _wrong_magic(magic - 256 if magic > 127 else magic)
    return KafkaError(ErrorCode.invalid_record, f"there is no whole record batch in {rest} bytes")


def _wrong_magic(magic: int) -> KafkaError:
    if 0 <= magic < h.MAGIC:
        return KafkaError(ErrorCode.invalid_record, f"record batches of magic {magic} are refused")
    return KafkaError(ErrorCode.corrupt_message, f"unknown magic {magic}")


def _check_attributes(attributes: int, allow_zstd: bool, allow_transactional: bool) -> None:
    codec = attributes & h.CODEC_MASK
    if codec > Codec.ZSTD or (codec == Codec.ZSTD and not allow_zstd):
        raise KafkaError(
            ErrorCode.unsupported_compression_type, f"codec {codec} is not allowed here"
        )
    if attributes & _FORBIDDEN_BITS:
        if attributes & h.TIMESTAMP_TYPE_BIT:
            raise KafkaError(
                ErrorCode.invalid_timestamp, "producers must not set the LogAppendTime bit"
            )
        raise KafkaError(ErrorCode.invalid_record, f"attributes {attributes:#x} from a client")
    if attributes & h.TRANSACTIONAL_BIT and not allow_transactional:
        raise KafkaError(ErrorCode.invalid_txn_state, "no transaction is ongoing")
