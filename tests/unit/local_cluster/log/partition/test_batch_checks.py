"""The batches that Produce refuses, with Kafka's error codes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.record_checks import (
    RecordsRefusedError,
    check_keys,
    check_records,
)
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.compacted_batches import encode_cleaned

NOW_MS = 1_700_000_000_000


def made(
    count: int = 3, codec: int = 0, key: bytes | None = b"k", value: bytes = b"v", **fields: int
) -> bytearray:
    records = [NewRecord(NOW_MS + index, key, value) for index in range(count)]
    return encode_batch(records, codec=codec, **fields)


def refused(buffer: bytes | bytearray, **limits: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        check_produced(buffer, **limits)
    return error.value.code


def patched(form: str, position: int, value: int, batch: bytearray | None = None) -> bytearray:
    """Return a batch with one field changed and a valid CRC."""
    buffer = batch or made()
    struct.pack_into(form, buffer, position, value)
    h.patch_crc(buffer, 0)
    return buffer


@pytest.mark.parametrize("codec", range(5))
def test_good_batches_pass(codec: int) -> None:
    batch = made(codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    [header] = check_produced(batch)
    assert header == h.read_header(batch)
    [header] = check_produced(b"123" + memoryview(batch), 3)
    assert header.records_count == 3


def test_one_batch_unless_more_are_allowed() -> None:
    assert len(check_produced(made() + made(5), batches_max=2)) == 2
    assert refused(made() + made()) is ErrorCode.invalid_record
    assert refused(made() + made() + made(), batches_max=2) is ErrorCode.invalid_record
    assert refused(b"") is ErrorCode.invalid_record


def test_every_truncated_batch_is_refused() -> None:
    batch = made()
    for size in range(1, len(batch)):
        assert refused(batch[:size]) is ErrorCode.invalid_record
    two = made() + made()
    for size in range(len(batch) + 1, len(two)):
        assert refused(two[:size], batches_max=2) is ErrorCode.invalid_record


def test_every_flipped_bit_behind_the_crc_is_corrupt() -> None:
    batch = made()
    for position in range(17, len(batch)):
        flipped = bytearray(batch)
        flipped[position] ^= 0x10
        assert refused(flipped) is ErrorCode.corrupt_message, position


@pytest.mark.parametrize(
    ("field", "code"),
    [
        (lambda: patched(">q", 0, 5), ErrorCode.invalid_record),
        (lambda: patched(">b", 16, 1), ErrorCode.invalid_record),
        (lambda: patched(">b", 16, 3), ErrorCode.corrupt_message),
        (lambda: patched(">i", 23, 1), ErrorCode.invalid_record),
        (lambda: patched(">i", 23, -1), ErrorCode.invalid_record),
        (lambda: patched(">i", 57, 0), ErrorCode.invalid_record),
        (lambda: patched(">i", 57, 2), ErrorCode.invalid_record),
        (lambda: patched(">h", 21, 5), ErrorCode.unsupported_compression_type),
        (lambda: patched(">h", 21, 7), ErrorCode.unsupported_compression_type),
        (lambda: patched(">h", 21, h.CONTROL_BIT), ErrorCode.invalid_record),
        (lambda: patched(">h", 21, h.DELETE_HORIZON_BIT), ErrorCode.invalid_record),
        (lambda: patched(">h", 21, h.TIMESTAMP_TYPE_BIT), ErrorCode.invalid_timestamp),
        (lambda: patched(">h", 21, h.TRANSACTIONAL_BIT), ErrorCode.invalid_txn_state),
        (lambda: patched(">q", 35, NOW_MS - 1), ErrorCode.invalid_timestamp),
        (lambda: made(producer_id=1, producer_epoch=0), ErrorCode.invalid_record),
        (lambda: made(producer_id=1, base_sequence=0), ErrorCode.invalid_record),
    ],
)
def test_headers_that_contradict_the_records_are_refused(
    field: Callable[[], bytearray], code: ErrorCode
) -> None:
    assert refused(field()) is code


@pytest.mark.parametrize(
    ("length", "code"),
    [
        (-1, ErrorCode.corrupt_message),
        (0, ErrorCode.corrupt_message),
        (48, ErrorCode.corrupt_message),
        (1 << 30, ErrorCode.invalid_record),
    ],
)
def test_lengths_out_of_bounds(length: int, code: ErrorCode) -> None:
    batch = made()
    struct.pack_into(">i", batch, 8, length)
    assert refused(batch) is code


def test_more_records_than_bytes() -> None:
    batch = patched(">i", 23, 10_000, patched(">i", 57, 10_001))
    assert refused(batch) is ErrorCode.invalid_record


def test_size_is_bounded() -> None:
    batch = made()
    check_produced(batch, message_bytes_max=len(batch))
    assert refused(batch, message_bytes_max=len(batch) - 1) is ErrorCode.message_too_large


def test_zstd_needs_a_new_enough_request() -> None:
    assert refused(made(codec=4), allow_zstd=False) is ErrorCode.unsupported_compression_type
    check_produced(made(codec=3), allow_zstd=False)


def test_transactional_batches_pass_only_if_allowed() -> None:
    batch = made(attributes=h.TRANSACTIONAL_BIT, producer_id=1, producer_epoch=0, base_sequence=0)
    check_produced(batch, allow_transactional=True)


def test_times_are_bounded_on_create_time_topics() -> None:
    batch = made()
    limits: dict[str, Any] = {"timestamp_before_ms_max": 10, "timestamp_after_ms_max": 20}
    for now_ms in (NOW_MS + 10, NOW_MS + 2 - 20):
        check_produced(batch, now_ms=now_ms, **limits)
    for now_ms in (NOW_MS + 11, NOW_MS + 2 - 21):
        assert refused(batch, now_ms=now_ms, **limits) is ErrorCode.invalid_timestamp
        check_produced(batch, now_ms=now_ms, log_append_time=True, **limits)


@pytest.mark.parametrize("codec", range(5))
def test_a_base_timestamp_of_no_record_is_accepted(codec: int) -> None:
    """A batch with a delete horizon that was copied without the bit."""
    records = [NewRecord(NOW_MS + at, b"k", None) for at in (3, 0, 2)]
    batch = encode_cleaned(records, horizon_ms=NOW_MS + 86_400_000, has_bit=False, codec=codec)
    limits: dict[str, Any] = {"timestamp_before_ms_max": 10, "timestamp_after_ms_max": 20}
    (header,) = check_produced(batch, now_ms=NOW_MS, **limits)
    check_records(batch, [header], now_ms=NOW_MS, **limits)
    # Its records are checked even without the full check.
    with pytest.raises(RecordsRefusedError) as error:
        check_produced(batch, now_ms=NOW_MS + 12, **limits)
    assert [index for index, _ in error.value.record_errors] == [1]
    assert refused(patched(">q", 35, NOW_MS + 4, batch)) is ErrorCode.invalid_timestamp


def test_the_records_whose_times_are_out_of_range_are_named() -> None:
    times = (NOW_MS, NOW_MS + 50, NOW_MS - 50, -1, NOW_MS + 1)
    buffer = encode_batch([NewRecord(at, b"k", b"v") for at in times], codec=4)
    limits: dict[str, Any] = {"timestamp_before_ms_max": 10, "timestamp_after_ms_max": 20}
    with pytest.raises(RecordsRefusedError) as error:
        check_produced(buffer, now_ms=NOW_MS, **limits)
    assert error.value.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in error.value.record_errors] == [1, 2]
    # The header is in range; only the full check sees the record in the middle.
    hidden = encode_batch([NewRecord(at, b"k", b"v") for at in (NOW_MS, NOW_MS - 50, NOW_MS)])
    headers = check_produced(hidden, now_ms=NOW_MS, **limits)
    with pytest.raises(RecordsRefusedError) as error:
        check_records(hidden, headers, now_ms=NOW_MS, **limits)
    assert [index for index, _ in error.value.record_errors] == [1]
    check_records(hidden, headers, now_ms=NOW_MS, log_append_time=True, **limits)


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_that_decompresses_to_too_much_is_refused(codec: int) -> None:
    bomb = made(1, codec=codec, value=bytes(1 << 20))
    assert len(bomb) < 100_000
    headers = check_produced(bomb)
    for check in (check_records, check_keys):
        with pytest.raises(KafkaError) as error:
            check(bomb, headers, decompressed_bytes_max=1 << 19)
        assert error.value.code is ErrorCode.invalid_record
        check(bomb, headers, decompressed_bytes_max=1 << 21)


def test_records_without_a_key_are_named() -> None:
    records = [NewRecord(NOW_MS, key, b"v") for key in (b"k", None, b"", None)]
    for codec in range(5):
        buffer = encode_batch(records, codec=codec) + made(2)
        assert check_keys(buffer, check_produced(buffer, batches_max=2)) == [1, 3]
    assert check_keys(made(), check_produced(made())) == []


def test_the_full_check_opens_every_record() -> None:
    for codec in range(5):
        buffer = made(codec=codec)
        check_records(buffer, check_produced(buffer))
    late = patched(">q", 35, NOW_MS + 9)
    with pytest.raises(KafkaError) as error:
        check_records(late, check_produced(late))
    assert error.value.code is ErrorCode.invalid_timestamp
    # The records are garbage, the header and the CRC are valid.
    garbage = made()
    garbage[h.HEADER_BYTES :] = b"\xff" * (len(garbage) - h.HEADER_BYTES)
    h.patch_crc(garbage, 0)
    for check in (check_records, check_keys):
        with pytest.raises(KafkaError) as error:
            check(garbage, check_produced(garbage))
        assert error.value.code is ErrorCode.invalid_record
    # The second record has the offset delta of the first.
    shifted = made(2)
    half = h.HEADER_BYTES + (len(shifted) - h.HEADER_BYTES) // 2
    shifted[half + 3] = 0
    h.patch_crc(shifted, 0)
    with pytest.raises(KafkaError) as error:
        check_records(shifted, check_produced(shifted))
    assert "offset delta" in error.value.message
