"""The checks of Produce that open batches: keys, offsets and timestamps of the records.

A check costs a full decode in Python. So the data path runs it only where the topic requires it, or
to name the records that a refusal is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from local_cluster.kafka_configs.definition import LONG_MAX
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import DECOMPRESSED_BYTES_MAX, CompressionError
from local_cluster.records.header import BatchHeader, Buffer
from local_cluster.wire.errors import ErrorCode, KafkaError


class RecordsRefusedError(KafkaError):
    """A batch that is refused for some of its records, with (index, reason) of each of them."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class TimestampLimits(NamedTuple):
    """message.timestamp.{before,after}.max.ms at one time; no limit where `now_ms` is None."""

    now_ms: int | None
    before_ms_max: int
    after_ms_max: int

    def excludes(self, timestamp_ms: int) -> bool:
        """Return whether a record of that time is refused; one without a time never is."""
        now_ms = self.now_ms
        return (
            now_ms is not None
            and timestamp_ms >= 0
            and (
                timestamp_ms - now_ms > self.after_ms_max
                or now_ms - timestamp_ms > self.before_ms_max
            )
        )


def _refuse_records(records: Sequence[Record], times: TimestampLimits) -> RecordsRefusedError:
    """Return the refusal of a batch, with every record whose time is out of range."""
    now_ms = times.now_ms or 0
    allowed = f"[{now_ms - times.before_ms_max}, {now_ms + times.after_ms_max}]"
    return RecordsRefusedError(
        ErrorCode.invalid_timestamp,
        "One or more records have been rejected due to invalid timestamp",
        [
            (index, f"timestamp {record.timestamp_ms} is out of range {allowed}")
            for index, record in enumerate(records)
            if times.excludes(record.timestamp_ms)
        ],
    )


def check_records(
    buffer: Buffer,
    headers: Sequence[BatchHeader],
    position: int = 0,
    *,
    log_append_time: bool = False,
    now_ms: int | None = None,
    timestamp_before_ms_max: int = LONG_MAX,
    timestamp_after_ms_max: int = LONG_MAX,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> None:
    """Open the batches that begin at `position` and compare their records with their headers.

    Raises KafkaError: invalid_record for records that are not in the format or whose offsets are
    not 0, 1, 2, ...; invalid_timestamp where the largest timestamp is not the header's.
    Raises RecordsRefusedError where a record's time is out of range.
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
            raise _refuse_records(records, times)
        largest = max(record.timestamp_ms for record in records)
        if largest != header.max_timestamp:
            raise KafkaError(
                ErrorCode.invalid_timestamp,
                f"largest timestamp is {largest}, the header says {header.max_timestamp}",
            )


def check_keys(
    buffer: Buffer,
    headers: Sequence[BatchHeader],
    position: int = 0,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[int]:
    """Return the indexes of the records without a key, which a compacted topic refuses.

    Indexes count through all batches from `position` on. Raises KafkaError(invalid_record) for
    records that are not in the format.
    """
    keyless: list[int] = []
    count = 0
    for _, records in _open_batches(buffer, headers, position, decompressed_bytes_max):
        keyless += [count + index for index, record in enumerate(records) if record.key is None]
        count += len(records)
    return keyless


def _open_batches(
    buffer: Buffer,
    headers: Sequence[BatchHeader],
    position: int,
    decompressed_bytes_max: int,
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    for header in headers:
        try:
            yield header, decode_batch(buffer, position, header, decompressed_bytes_max)
        except (CompressionError, CorruptRecordError) as error:
            raise KafkaError(ErrorCode.invalid_record, str(error)) from error
        position += header.size_bytes


def refuse_timestamps(
    view: memoryview, position: int, header: BatchHeader, times: TimestampLimits
) -> RecordsRefusedError:
    """Open the batch at `position` and return the refusal that names its records."""
    try:
        records = decode_batch(view, position, header)
    except (CompressionError, CorruptRecordError):
        records = []
    return _refuse_records(records, times)
