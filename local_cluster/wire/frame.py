"""Length-prefixed frames out of a byte stream, for both sides of a connection.

Made for `asyncio.BufferedProtocol`: the transport receives straight into `writable()`, and calls
`received` before anything else runs. So all connections of a loop receive into one scratch, and
one that waits for its next frame holds nothing. A frame that fits is copied out of the scratch (a
few microseconds at most); a larger one gets a buffer of its own and is received into it without a
copy. The size is checked against the cap before anything is allocated.

How much is received at a time follows what comes: a read costs a turn of the loop, so frames of
some tens of KiB come several at a time, while large ones are not to be copied out of the scratch
first, and very many small ones would keep the loop from everybody else.
"""

from __future__ import annotations

import struct
from typing import Final

from local_cluster.wire.errors import PeerError

_SIZE: Final = struct.Struct(">i")
WINDOW_BYTES: Final = 16 * 1024
"""What is received at a time before it is known what comes."""
SCRATCH_BYTES: Final = 128 * 1024
"""What is received at a time where that is worth it."""
FRAMES_PER_READ_MAX: Final = 16
"""Where a read brings more, it is long enough."""
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Larger buffers are not kept for another frame."""
SPARES_MAX: Final = 4
_SPARE_STEP_BYTES: Final = 64 * 1024


class FrameBuffers:
    """What the receivers of one loop share: a scratch, and buffers of large frames to be used
    again. Memory that was just in use is in the processor's cache, and need not be cleared."""

    def __init__(self) -> None:
        self.scratch = bytearray(SCRATCH_BYTES)
        self.spares: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """At least so many bytes that nobody else refers to."""
        for index, spare in enumerate(self.spares):
            if size <= len(spare) and _is_unused(spare):
                return self.spares.pop(index)
        if size > SPARE_BYTES_MAX:
            return bytearray(size)
        return bytearray(-(-size // _SPARE_STEP_BYTES) * _SPARE_STEP_BYTES)

    def give(self, buffer: bytearray) -> None:
        """Not needed by the receiver any more; whoever has the frame may still look at it."""
        if len(buffer) > SPARE_BYTES_MAX:
            return
        if len(self.spares) == SPARES_MAX:
            del self.spares[0]
        self.spares.append(buffer)


def _is_unused(buffer: bytearray) -> bool:
    """Whether no view of it is left: Python lets nobody resize what is looked at."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


class FrameReceiver:
    """Assembles frames; every frame is a writable memoryview that nobody else refers to."""

    __slots__ = (
        "_buffers",
        "_large",
        "_large_filled",
        "_large_size",
        "_reach",
        "_rest",
        "_scratch",
        "frame_bytes_max",
    )

    def __init__(self, frame_bytes_max: int, buffers: FrameBuffers | None = None) -> None:
        """`buffers` may be shared with receivers that are used in the same thread."""
        self.frame_bytes_max = frame_bytes_max
        self._buffers = buffers or FrameBuffers()
        self._scratch = self._buffers.scratch
        self._reach = WINDOW_BYTES
        self._rest: bytes | bytearray = b""
        """The beginning of a frame, as long as it fits the reach and was not waited for twice."""
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_filled = 0

    def writable(self) -> memoryview:
        """Where the next bytes of the stream belong; never empty, and good until `received`."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled : self._large_size]
        rest_size = len(self._rest)
        if rest_size:
            self._scratch[:rest_size] = self._rest
        return memoryview(self._scratch)[rest_size : self._reach]

    def received(self, bytes_count: int) -> list[memoryview]:
        """Take note of bytes that were put into `writable()`; the frames completed by them.

        Raises PeerError for a negative size or one above the cap.
        """
        if self._large is not None:
            return self._received_large(self._large, bytes_count)
        scratch = self._scratch
        filled = len(self._rest) + bytes_count
        frames: list[memoryview] = []
        position = 0
        while filled - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(scratch, position)
            if size < 0 or size > self.frame_bytes_max:
                raise PeerError(f"frame of {size} bytes, at most {self.frame_bytes_max} are taken")
            end = position + _SIZE.size + size
            if end > filled:
                is_waited_for = not position and bool(self._rest)
                self._reach = self._reach_for(size, filled, len(frames))
                if is_waited_for or _SIZE.size + size > self._reach:
                    self._begin_large(position + _SIZE.size, filled, size)
                    self._rest = b""
                    return frames
                break
            frames.append(memoryview(scratch[position + _SIZE.size : end]))
            position = end
        self._rest = scratch[position:filled] if position < filled else b""
        return frames

    def _reach_for(self, size: int, filled: int, frames_count: int) -> int:
        """How much to receive at a time, now that a frame of `size` was cut off."""
        if _SIZE.size + size > SCRATCH_BYTES // 2 or frames_count > FRAMES_PER_READ_MAX:
            return WINDOW_BYTES
        return SCRATCH_BYTES if filled == self._reach else self._reach

    def _begin_large(self, start: int, end: int, size: int) -> None:
        self._large = self._buffers.take(size)
        self._large_size = size
        self._large_filled = end - start
        self._large[: self._large_filled] = memoryview(self._scratch)[start:end]

    def _received_large(self, large: bytearray, bytes_count: int) -> list[memoryview]:
        self._large_filled += bytes_count
        if self._large_filled < self._large_size:
            return []
        frame = memoryview(large)[: self._large_size]
        self._large = None
        self._buffers.give(large)
        return [frame]


def frame_size_prefix(size: int) -> bytes:
    """The four bytes before a frame."""
    return _SIZE.pack(size)
