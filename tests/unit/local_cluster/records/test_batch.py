"""Record batches against batches that Kafka's Java classes wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.records import header as h
from local_cluster.records.batch import (
    CorruptRecordError,
    NewRecord,
    decode_batch,
    encode_batch,
    iter_records,
)
from local_cluster.records.compress import Codec, CompressionError, compress, decompress

GOLDEN = Path(__file__).parents[3] / "golden"


def golden(name: str) -> bytearray:
    return bytearray.fromhex((GOLDEN / f"record_batch_{name}.hex").read_text())


def java_record(index: int) -> NewRecord:
    """Return the record that tests/golden/generate/RecordBatches.java writes at this index."""
    return NewRecord(
        1_700_000_000_000 + (index % 4) * 1000 - index,
        None if index % 3 == 0 else b"key-%d" % index,
        None if index % 5 == 4 else b"value-%d-" % index + b"x" * (index * 7),
        () if index % 2 == 0 else (("trace", b"t%d" % index), ("none", None)),
    )


JAVA_RECORDS = [java_record(index) for index in range(40)]


@pytest.mark.parametrize("codec", list(Codec))
def test_reads_what_java_wrote(codec: Codec) -> None:
    batch = golden(codec.name.lower())
    header = h.read_header(batch)
    assert header.size_bytes == len(batch)
    assert h.crc_is_valid(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.codec) == (1234, 1273, codec)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 17)
    assert (header.partition_leader_epoch, header.records_count) == (9, 40)
    assert header.last_sequence == 17 + 39
    records = decode_batch(batch, 0, header)
    assert [NewRecord(*record[1:]) for record in records] == JAVA_RECORDS
    assert [record.offset for record in records] == list(range(1234, 1274))


def test_uncompressed_bytes_equal_javas() -> None:
    batch = encode_batch(
        JAVA_RECORDS,
        base_offset=1234,
        leader_epoch=9,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
    )
    assert batch == golden("none")


def test_commit_marker_is_control_and_skipped() -> None:
    batch = golden("commit_marker")
    header = h.read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert list(iter_records(batch)) == []


def test_patching_offset_and_epoch_leaves_the_crc_valid() -> None:
    batch = golden("lz4")
    h.patch_base_offset(batch, 0, 10**12)
    h.patch_leader_epoch(batch, 0, 42)
    header = h.read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (10**12, 42)
    assert h.crc_is_valid(batch, 0, header)


def test_patching_the_producer_needs_a_new_crc() -> None:
    batch = golden("zstd")
    h.patch_producer(batch, 0, 99, 1, 1000)
    assert not h.crc_is_valid(batch, 0, h.read_header(batch))
    h.patch_crc(batch, 0)
    header = h.read_header(batch)
    assert h.crc_is_valid(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (99, 1, 1000)
    assert len(decode_batch(batch, 0, header)) == 40


def test_partial_last_batch_ends_the_iteration() -> None:
    both = golden("none") + golden("lz4")
    for cut in (1, 60, 61, len(golden("lz4")) - 1):
        part = both[: len(golden("none")) + cut]
        assert [position for position, _ in h.iter_headers(part)] == [0]
    assert len(list(h.iter_headers(both))) == 2


def test_a_batch_length_of_nothing_does_not_loop() -> None:
    batch = golden("none")
    batch[8:12] = b"\0\0\0\0"
    assert list(h.iter_headers(batch)) == []


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    independent_blocks_bit = 0x20
    ours = compress(Codec.LZ4, b"a" * 100)
    javas = golden("lz4")[h.HEADER_BYTES :]
    assert ours[:4] == javas[:4]
    assert javas[4] & independent_blocks_bit
    assert ours[4] & independent_blocks_bit


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_decompression_is_bounded(codec: Codec) -> None:
    packed = compress(codec, bytes(1_000_000))
    assert decompress(codec, packed, 1_000_000) == bytes(1_000_000)
    with pytest.raises(CompressionError):
        decompress(codec, packed, 999_999)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_broken_compression_is_an_error(codec: Codec) -> None:
    with pytest.raises(CompressionError):
        decompress(codec, b"\x82SNAPPY\0" + bytes(range(40)), 1000)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_payload_cut_short_is_an_error(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 400)
    with pytest.raises(CompressionError):
        decompress(codec, packed[: len(packed) // 2], 1_000_000)


def test_unknown_codec_is_an_error() -> None:
    with pytest.raises(CompressionError, match="unknown compression codec 6"):
        decompress(6, b"", 10)


def test_record_that_overruns_the_batch_is_corrupt() -> None:
    batch = golden("none")
    batch[h.HEADER_BYTES] = 0x7E  # claims 63 bytes for the first record
    with pytest.raises(CorruptRecordError):
        decode_batch(batch, 0, h.read_header(batch))


def test_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])
