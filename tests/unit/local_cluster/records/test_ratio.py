"""Decompression is limited by ratio as well as by size: a bomb for each codec, and legal data."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from local_cluster.records.batch import NewRecord, encode_batch, iter_records
from local_cluster.records.compress import (
    RATIO_FREE_BYTES,
    RATIO_MAX,
    Codec,
    CompressionError,
    compress,
    decompress,
    decompress_joined,
)

MIB = 1024 * 1024
BY_SIZE = r"decompresses to more|snappy block of"
COMPRESSING = [codec for codec in Codec if codec]


def snappy_claiming(size: int) -> bytes:
    """Return a raw block whose length prefix is `size`, with hardly any content."""
    prefix = bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size]) + b"\x00a"


BOMBS = {
    Codec.GZIP: compress(Codec.GZIP, bytes(32 * MIB)),
    Codec.SNAPPY: snappy_claiming(32 * MIB),
    # The format allows a ratio of 255, so it is the limit of size that stops it.
    Codec.LZ4: compress(Codec.LZ4, bytes(65 * MIB)),
    Codec.ZSTD: compress(Codec.ZSTD, bytes(32 * MIB)),
}


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused_within_the_memory_that_its_size_allows(codec: Codec) -> None:
    bomb = BOMBS[codec]
    allowed = max(RATIO_FREE_BYTES, min(RATIO_MAX * len(bomb), 64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match=BY_SIZE):
            decompress(codec, bomb)
        with pytest.raises(CompressionError, match=BY_SIZE):
            decompress_joined(codec, [memoryview(bomb)])
        assert tracemalloc.get_traced_memory()[1] <= 3 * allowed
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_zeros_are_legal_at_any_ratio_up_to_the_free_size(codec: Codec) -> None:
    zeros = bytes(RATIO_FREE_BYTES)
    packed = compress(codec, zeros)
    assert decompress(codec, packed) == zeros
    if codec is Codec.ZSTD:
        assert len(zeros) > 4 * RATIO_MAX * len(packed)


def test_larger_payloads_are_legal_up_to_the_ratio() -> None:
    chosen = random.Random(1)
    content = chosen.randbytes(64 * 1024) + bytes(32 * MIB)
    packed = compress(Codec.ZSTD, content)
    assert RATIO_MAX // 3 < len(content) // len(packed) < RATIO_MAX
    assert decompress(Codec.ZSTD, packed) == content
    packed = compress(Codec.ZSTD, chosen.randbytes(1024) + bytes(RATIO_FREE_BYTES))
    with pytest.raises(CompressionError, match=f"more than {RATIO_FREE_BYTES} bytes"):
        decompress(Codec.ZSTD, packed)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_batch_with_the_largest_record_of_zeros_is_read(codec: Codec) -> None:
    value = bytes(1_000_000)
    batch = encode_batch([NewRecord(0, b"k", value)], codec=codec)
    (record,) = iter_records(batch)
    assert record.value == value
