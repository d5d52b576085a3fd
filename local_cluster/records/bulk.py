"""Many small compressed payloads opened by one call of their codec.

Formats: LZ4 frames (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md), zstd frames
(RFC 8878, section 3: frames may be concatenated).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from local_cluster.records.compress import DECOMPRESSED_BYTES_MAX, Codec, decompress

_LZ4_FRAME_HEADER_BYTES: Final = 7
"""Magic, flags, block size, header checksum; without content size and dictionary."""
_LZ4_PLAIN_FLAGS: Final = frozenset((0x60, 0x70))
"""Version 1, independent blocks, no content checksum; with block checksums or without."""
_LZ4_END_MARK: Final = bytes(4)


def decompress_joined(
    codec: int, payloads: Sequence[memoryview], bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """What the payloads decompress to, one behind the other, in at most `bytes_max` bytes.

    A call of a codec costs more than a small payload, so where the format allows it, the payloads
    are made one: zstd frames may follow each other, and the independent blocks of lz4 frames with
    the same header are blocks of one frame. Raises CompressionError.
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
    """The blocks of all frames in one; None where their headers differ or ask for more."""
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
