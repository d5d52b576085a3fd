"""The checks of Produce on the headers of record batches.

`check_produced` checks the 61-byte header, the bounds and the CRC-32C. It opens a batch only where
the base timestamp is larger than the largest one. Kafka opens every batch, and refuses a header
whose count or timestamps do not match the records. `record_checks.check_records` does that for
topics with `heliograph.record.check=full`.

The order of the checks and their error codes are those of Kafka's ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords and LogValidator;
`tests/real/broker/test_record_checks_like_kafka.py` compares them with a Kafka's. Differences:

- A header with a wrong largest timestamp, and the LogAppendTime bit from a client, are refused.
  Kafka corrects both silently, which changes the visible times. Without the full check a wrong
  largest timestamp is noticed where it lies before the base timestamp.
- A delete horizon (KIP-534) from a client is refused: only the log cleaner of this log sets one.
- Offset deltas other than 0, 1, 2... are refused by the full check. Kafka takes them uncompressed.
- Records that cannot be read answer invalid_record, and an unknown codec
  unsupported_compression_type. Kafka answers unknown_server_error.
- A truncated batch behind a whole one is refused. Kafka drops it silently.
- Records that decompress to more than 64 MiB are refused where they are opened.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from local_cluster.kafka_configs.definition import LONG_MAX
from local_cluster.log.config.topic_configs import MESSAGE_BYTES_MAX
from local_cluster.log.partition.record_checks import (
    TimestampLimits,
    check_records,
    refuse_timestamps,
)
from local_cluster.log.segment.scan import BASE_OFFSET_BYTES, MAGIC_POSITION
from local_cluster.records.compress import Codec
from local_cluster.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    unpack_fields,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, key length, value length and header count: one byte each."""

_LENGTH: Final = struct.Struct(">i")
OLD_RECORD_BYTES_MIN: Final = 14
"""The smallest record of any format: format 0, without key and value."""
_FORBIDDEN_BITS: Final = CONTROL_BIT | TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT


def check_produced(
    buffer: Buffer,
    position: int = 0,
    *,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
    batches_max: int = 1,
    allow_zstd: bool = True,
    allow_transactional: bool = False,
    log_append_time: bool = False,
    now_ms: int | None = None,
    timestamp_before_ms_max: int = LONG_MAX,
    timestamp_after_ms_max: int = LONG_MAX,
) -> list[BatchHeader]:
    """Check the batches that fill `buffer` from `position` to its end; return their headers.

    - `batches_max` is 1 as in Kafka; `allow_zstd` is false for Produce before version 7.
    - `now_ms` turns on message.timestamp.{before,after}.max.ms. They apply to the first and the
      largest timestamp of each batch, and not to LogAppendTime topics.

    Raises KafkaError: corrupt_message, message_too_large, invalid_record, invalid_timestamp,
    unsupported_compression_type, invalid_txn_state.
    """
    view = memoryview(buffer)
    end = len(view)
    headers: list[BatchHeader] = []
    while True:
        header = _check_batch(view, position, end, message_bytes_max)
        if header.attributes:
            _check_attributes(header.attributes, allow_zstd, allow_transactional)
        if not log_append_time:
            first, largest = header.base_timestamp, header.max_timestamp
            if largest < first:
                # The base is no record's time, as in a batch with a log cleaner's delete horizon
                # (KIP-534). Only the records have their times.
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
                raise refuse_timestamps(view, position, header, times)
        headers.append(header)
        position += header.batch_length + LOG_OVERHEAD_BYTES
        if position == end:
            return headers
        if len(headers) == batches_max:
            raise KafkaError(
                ErrorCode.invalid_record, f"more than {batches_max} record batches in a partition"
            )


def _check_batch(view: memoryview, position: int, end: int, message_bytes_max: int) -> BatchHeader:
    """Return the header of the batch at `position` if bounds, CRC, counts, sequence are valid."""
    if position + HEADER_BYTES > end:
        raise _too_short(view, position, end)
    header = BatchHeader._make(unpack_fields(view, position))
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
    if magic != MAGIC:
        raise _wrong_magic(magic)
    size_bytes = batch_length + LOG_OVERHEAD_BYTES
    if size_bytes < HEADER_BYTES or position + size_bytes > end:
        # To Kafka a truncated batch is no batch at all.
        raise KafkaError(
            ErrorCode.corrupt_message if size_bytes < HEADER_BYTES else ErrorCode.invalid_record,
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
    if crc32c(view[position + CRC_START : position + size_bytes]) != crc:
        raise KafkaError(ErrorCode.corrupt_message, "the CRC-32C does not match")
    if records_count <= 0 or last_offset_delta != records_count - 1:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"{records_count} records, but the last offset delta is {last_offset_delta}",
        )
    payload_bytes = size_bytes - HEADER_BYTES
    if not attributes & CODEC_MASK and records_count * RECORD_BYTES_MIN > payload_bytes:
        raise KafkaError(
            ErrorCode.invalid_record, f"{records_count} records cannot fit in {payload_bytes} bytes"
        )
    if producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0):
        raise KafkaError(
            ErrorCode.invalid_record,
            f"producer {producer_id} with epoch {producer_epoch}, sequence {base_sequence}",
        )
    return header


def _too_short(view: memoryview, position: int, end: int) -> KafkaError:
    """Return Kafka's error for bytes that are no whole batch: none, an old format, or damage."""
    rest = end - position
    if rest >= LOG_OVERHEAD_BYTES:
        (length,) = _LENGTH.unpack_from(view, position + BASE_OFFSET_BYTES)
        if length < OLD_RECORD_BYTES_MIN:
            return KafkaError(ErrorCode.corrupt_message, f"the batch claims {length} bytes")
    if rest > MAGIC_POSITION:
        magic = view[position + MAGIC_POSITION]
        if magic != MAGIC:
            return _wrong_magic(magic - 256 if magic > 127 else magic)
    return KafkaError(ErrorCode.invalid_record, f"there is no whole record batch in {rest} bytes")


def _wrong_magic(magic: int) -> KafkaError:
    if 0 <= magic < MAGIC:
        return KafkaError(ErrorCode.invalid_record, f"record batches of magic {magic} are refused")
    return KafkaError(ErrorCode.corrupt_message, f"unknown magic {magic}")


def _check_attributes(attributes: int, allow_zstd: bool, allow_transactional: bool) -> None:
    codec = attributes & CODEC_MASK
    if codec > Codec.ZSTD or (codec == Codec.ZSTD and not allow_zstd):
        raise KafkaError(
            ErrorCode.unsupported_compression_type, f"codec {codec} is not allowed here"
        )
    if attributes & _FORBIDDEN_BITS:
        if attributes & TIMESTAMP_TYPE_BIT:
            raise KafkaError(
                ErrorCode.invalid_timestamp, "producers must not set the LogAppendTime bit"
            )
        raise KafkaError(ErrorCode.invalid_record, f"attributes {attributes:#x} from a client")
    if attributes & TRANSACTIONAL_BIT and not allow_transactional:
        raise KafkaError(ErrorCode.invalid_txn_state, "no transaction is ongoing")
