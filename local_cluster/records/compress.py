"""The codecs of record batches, bounded: never more output than the caller allows.

gzip; snappy in xerial's framing (raw snappy is accepted, as in librdkafka); lz4 frames; zstd.
Sources: https://kafka.apache.org/documentation/#recordbatch, attributes bits 0-2; snappy-java's
SnappyOutputStream; https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md; RFC 8878.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

import cramjam

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Default cap on the decompressed size of one batch."""
RATIO_MAX: Final = 1_000
"""Cap on the decompressed size by the compressed one. Formats allow 21 (snappy), 255 (lz4), 1,032
(gzip) and far more than 10,000 (zstd), so it is zstd that needs it. For the others it limits what
a forged length may claim."""
RATIO_FREE_BYTES: Final = 16 * 1024 * 1024
"""Up to this size the ratio does not matter: zeros are legal, and compress 10,000 times and more.
A producer of Kafka makes batches of at most max.request.size, 1 MiB by default."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")
_FIRST_GUESS_BYTES: Final = 16 * 1024
_LZ4_FRAME_HEADER_BYTES: Final = 7
"""Magic, flags, block size, header checksum; without content size and dictionary."""
_LZ4_PLAIN_FLAGS: Final = frozenset((0x60, 0x70))
"""Version 1, independent blocks, no content checksum; with block checksums or without."""
_LZ4_END_MARK: Final = bytes(4)


class Codec(IntEnum):
    """The compression codecs, by their number in the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(ValueError):
    """The compressed bytes are broken, of an unknown codec, or too large when decompressed."""


def compress(codec: int, payload: bytes | bytearray | memoryview) -> bytes:
    """Compress a payload of records. Raises CompressionError for an unknown codec."""
    match codec:
        case Codec.NONE:
            return bytes(payload)
        case Codec.GZIP:
            compressor = zlib.compressobj(wbits=31)
            return compressor.compress(payload) + compressor.flush()
        case Codec.SNAPPY:
            return _xerial_compress(payload)
        case Codec.LZ4:
            return _lz4_compress(payload)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(payload))
    raise CompressionError(f"unknown compression codec {codec}")


def decompress(
    codec: int,
    payload: bytes | bytearray | memoryview,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """Decompress a payload of records into at most `bytes_max` bytes.

    Raises CompressionError if the bytes are broken, or the result is larger than that, or than
    RATIO_MAX times the payload and RATIO_FREE_BYTES.
    """
    bytes_max = min(bytes_max, max(RATIO_FREE_BYTES, RATIO_MAX * len(payload)))
    try:
        match codec:
            case Codec.NONE:
                return bytes(payload)
            case Codec.GZIP:
                decompressor = zlib.decompressobj(wbits=31)
                out = decompressor.decompress(payload, bytes_max + 1)
                if len(out) > bytes_max:
                    raise CompressionError(f"decompresses to more than {bytes_max} bytes")
                if not decompressor.eof:
                    raise CompressionError("gzip payload is cut short")
                return out
            case Codec.SNAPPY:
                return _snappy_decompress(bytes(payload), bytes_max)
            case Codec.LZ4:
                return _into_bounded(cramjam.lz4.decompress_into, bytes(payload), bytes_max)
            case Codec.ZSTD:
                return _into_bounded(cramjam.zstd.decompress_into, bytes(payload), bytes_max)
    except (zlib.error, cramjam.DecompressionError, struct.error, IndexError) as error:
        raise CompressionError(f"broken {Codec(codec).name.lower()} payload: {error}") from error
    raise CompressionError(f"unknown compression codec {codec}")


def decompress_joined(
    codec: int, payloads: Sequence[memoryview], bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Decompress many small payloads into one buffer of at most `bytes_max` bytes.

    Calling a codec costs more than a small payload, so payloads are joined where the format allows
    it: zstd frames can be concatenated, and the independent blocks of lz4 frames with equal headers
    form one frame. Raises CompressionError.
    """
    match codec:
        case Codec.NONE:
            return b"".join(payloads)
        case Codec.ZSTD:
            return decompress(codec, b"".join(payloads), bytes_max)
        case Codec.LZ4:
            if (frame := _one_lz4_frame(payloads)) is not None:
                return decompress(codec, frame, bytes_max)
    return b"".join(decompress(codec, payload, bytes_max) for payload in payloads)


def _one_lz4_frame(payloads: Sequence[memoryview]) -> bytes | None:
    """Return one frame with the blocks of all; None if headers differ or need checksums."""
    start, end = _LZ4_FRAME_HEADER_BYTES, -len(_LZ4_END_MARK)
    header = bytes(payloads[0][:start])
    if len(header) < start or header[4] not in _LZ4_PLAIN_FLAGS:
        return None
    blocks: list[bytes | memoryview] = [header]
    for payload in payloads:
        if payload[:start] != header or payload[end:] != _LZ4_END_MARK:
            return None
        blocks.append(payload[start:end])
    blocks.append(_LZ4_END_MARK)
    return b"".join(blocks)


def _lz4_compress(payload: bytes | bytearray | memoryview) -> bytes:
    # Java's reader refuses frames whose blocks are linked (KafkaLZ4BlockInputStream).
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(bytes(payload))
    return bytes(compressor.finish())


def _into_bounded(
    decompress_into: Callable[[bytes, bytearray], int], payload: bytes, bytes_max: int
) -> bytes:
    # A small input can have a huge output, so the output buffer is limited. It grows in steps, so
    # that small batches stay cheap. cramjam raises when the buffer is full.
    capacity = min(bytes_max, max(_FIRST_GUESS_BYTES, 4 * len(payload)))
    while True:
        out = bytearray(capacity)
        try:
            return bytes(memoryview(out)[: decompress_into(payload, out)])
        except cramjam.DecompressionError as error:
            if capacity >= bytes_max:
                # cramjam does not tell a full buffer from broken bytes.
                raise CompressionError(
                    f"broken, or decompresses to more than {bytes_max} bytes: {error}"
                ) from error
            capacity = min(bytes_max, capacity * 4)


def _xerial_compress(payload: bytes | bytearray | memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(payload)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _snappy_decompress(payload: bytes, bytes_max: int) -> bytes:
    if not payload.startswith(_XERIAL_MAGIC):
        return _snappy_block(payload, bytes_max)
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(payload):
        (size,) = _INT32.unpack_from(payload, position)
        position += 4
        if size < 0 or position + size > len(payload):
            raise CompressionError("xerial block runs past the end of the payload")
        out += _snappy_block(payload[position : position + size], bytes_max - len(out))
        position += size
    return bytes(out)


def _snappy_block(block: bytes, bytes_max: int) -> bytes:
    # The length prefix must be checked before allocating (CVE-2023-34455).
    claimed = 0
    for index, byte in enumerate(block[:5]):
        claimed |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if claimed > bytes_max:
        raise CompressionError(f"snappy block of {claimed} bytes, at most {bytes_max} are allowed")
    return bytes(cramjam.snappy.decompress_raw(block))
