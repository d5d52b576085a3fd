"""The checks of Produce on record batches: headers always, records where the topic needs it.

`check_produced` looks at the 61-byte header, the bounds and the CRC-32C and never opens a batch.
Kafka opens every batch as well and refuses a header whose count or timestamps lie about the
records; `check_records` does that, and is asked for only by compacted topics (every record needs
a key) and by topics whose `heliograph.record.check` is `full`.

The order of the checks and their error codes are those of Kafka's ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords and LogValidator. Where this differs: a cut-off last batch is
refused (Kafka drops it silently), an unknown codec answers unsupported_compression_type (Kafka:
unknown_server_error), and the LogAppendTime bit from a client is always refused (Kafka clears it
on CreateTime topics, which silently changes the visible times).
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from local_cluster.wire.errors import ErrorCode, KafkaError

from . import header as h
from .batch import CorruptRecordError, decode_batch
from .compress import DECOMPRESSED_BYTES_MAX, Codec, CompressionError

MESSAGE_BYTES_MAX: Final = 1_048_588
"""Kafka's default of message.max.bytes: one MiB and the overhead of a batch in the log."""
TIMESTAMP_MS_MAX: Final = (1 << 63) - 1
RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, key length, value length and header count: one byte each."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BATCH_LENGTH_MIN: Final = h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES
_CRC_START: Final = 21
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
    unpack_from = _HEADER.unpack_from
    while True:
        if position + h.HEADER_BYTES > end:
            if position == end:
                raise KafkaError(ErrorCode.invalid_record, "the request has no record batch")
            raise KafkaError(
                ErrorCode.corrupt_message, f"{end - position} bytes are no record batch"
            )
        header = h.BatchHeader._make(unpack_from(view, position))
        (
            base_offset,
            batch_length,
            _,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            records_count,
        ) = header
        if magic != h.MAGIC:
            raise _wrong_magic(magic)
        following = position + batch_length + h.LOG_OVERHEAD_BYTES
        if batch_length < _BATCH_LENGTH_MIN or following > end:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"batch length {batch_length}, {end - position} bytes are there",
            )
        if following - position > message_bytes_max:
            raise KafkaError(
                ErrorCode.message_too_large,
                f"the batch has {following - position} bytes, {message_bytes_max} are allowed",
            )
        if base_offset:
            raise KafkaError(
                ErrorCode.invalid_record, f"base offset of a produced batch is {base_offset}, not 0"
            )
        if crc32c(view[position + _CRC_START : following]) != crc:
            raise KafkaError(ErrorCode.corrupt_message, "the CRC-32C does not match")
        if records_count <= 0 or last_offset_delta != records_count - 1:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"{records_count} records, but the last offset delta is {last_offset_delta}",
            )
        if attributes:
            _check_attributes(attributes, allow_zstd, allow_transactional)
        if not attributes & h.CODEC_MASK and (
            records_count * RECORD_BYTES_MIN > batch_length - _BATCH_LENGTH_MIN
        ):
            raise KafkaError(
                ErrorCode.invalid_record,
                f"{records_count} records cannot fit in {batch_length} bytes",
            )
        if producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0):
            raise KafkaError(
                ErrorCode.invalid_record,
                f"producer {producer_id} with epoch {producer_epoch}, sequence {base_sequence}",
            )
        if not log_append_time:
            if max_timestamp < base_timestamp:
                raise KafkaError(
                    ErrorCode.invalid_timestamp,
                    f"largest timestamp {max_timestamp} lies before the first, {base_timestamp}",
                )
            if now_ms is not None and (
                max_timestamp - now_ms > timestamp_after_ms_max
                or (base_timestamp >= 0 and now_ms - base_timestamp > timestamp_before_ms_max)
            ):
                raise KafkaError(
                    ErrorCode.invalid_timestamp,
                    f"timestamps {base_timestamp} to {max_timestamp} are out of range at {now_ms}",
                )
        headers.append(header)
        if following == end:
            return headers
        if len(headers) == batches_max:
            raise KafkaError(
                ErrorCode.invalid_record, f"more than {batches_max} record batches in a partition"
            )
        position = following


def check_records(
    buffer: h.Buffer,
    header: h.BatchHeader,
    position: int = 0,
    *,
    keys_required: bool,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> None:
    """Open the batch at `position` and check its records against its header.

    Costs a full decode in Python, so the data path asks for it only where the topic does.
    Raises KafkaError(invalid_record) for a keyless record where keys are required (a compacted
    topic), for offsets that are not 0, 1, 2, ... and for records that are not in the format;
    invalid_timestamp where the largest timestamp of a CreateTime batch is not the header's.
    """
    try:
        records = decode_batch(buffer, position, header, decompressed_bytes_max)
    except (CompressionError, CorruptRecordError) as error:
        raise KafkaError(ErrorCode.invalid_record, str(error)) from error
    for index, record in enumerate(records):
        if keys_required and record.key is None:
            raise KafkaError(
                ErrorCode.invalid_record, f"record {index} has no key, but the topic is compacted"
            )
        if record.offset != header.base_offset + index:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"record {index} has offset delta {record.offset - header.base_offset}",
            )
    if not header.is_log_append_time:
        largest = max(record.timestamp_ms for record in records)
        if largest != header.max_timestamp:
            raise KafkaError(
                ErrorCode.invalid_timestamp,
                f"largest timestamp is {largest}, the header says {header.max_timestamp}",
            )


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
