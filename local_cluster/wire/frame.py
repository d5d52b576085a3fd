"""Length-prefixed frames out of a byte stream, for both sides of a connection.

Made for `asyncio.BufferedProtocol`: the transport receives straight into `writable()` and calls
`received` before anything else runs. So all connections of a loop receive into one scratch buffer,
and a connection that waits for its next frame holds no memory. A frame that fits is copied out of
the scratch (a few microseconds at most). A larger frame gets a buffer of its own and is received
into it without a copy. The size is checked against the cap before anything is allocated. With a
limit for all connections (request_memory.py) such a frame is counted first, or waits: then
`wanted` is its size, and nothing may be received before `begin_waiting`. A frame of at most
WINDOW_BYTES, such as a heartbeat, never waits.

The size of a read adapts to the traffic:

- A read costs a turn of the loop, so frames of some tens of KiB are received several at a time.
- A large frame is received into its own buffer early, so that little of it is copied.
- Very many small frames per read would block the loop for other connections.
"""

from __future__ import annotations

import struct
from typing import Final

from local_cluster.wire.errors import PeerError
from local_cluster.wire.request_memory import RequestMemory

_SIZE: Final = struct.Struct(">i")
WINDOW_BYTES: Final = 16 * 1024
"""The size of a read at first, and for large or very many frames."""
SCRATCH_BYTES: Final = 128 * 1024
"""The size of a read for frames of medium size."""
FRAMES_PER_READ_MAX: Final = 16
"""A read that completes more frames than this is not made longer."""
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Larger buffers are not reused."""
SPARES_MAX: Final = 4
_SPARE_STEP_BYTES: Final = 64 * 1024


class FrameBuffers:
    """The buffers that all receivers of one loop share: a scratch, and spares for large frames.

    Reused memory is in the processor's cache and need not be cleared.
    """

    def __init__(self) -> None:
        self.scratch = bytearray(SCRATCH_BYTES)
        self.spares: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes that nothing else refers to."""
        for index, spare in enumerate(self.spares):
            if size <= len(spare) and _is_unused(spare):
                return self.spares.pop(index)
        if size > SPARE_BYTES_MAX:
            return bytearray(size)
        return bytearray(-(-size // _SPARE_STEP_BYTES) * _SPARE_STEP_BYTES)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back. The handler of its frame may still hold views of it."""
        if len(buffer) > SPARE_BYTES_MAX:
            return
        if len(self.spares) == SPARES_MAX:
            del self.spares[0]
        self.spares.append(buffer)


def _is_unused(buffer: bytearray) -> bool:
    """Return whether no view is left: Python refuses to resize a bytearray that has views."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


class FrameReceiver:
    """Assembles the frames of one connection: writable views that nothing else refers to."""

    __slots__ = (
        "_buffers",
        "_large",
        "_large_counted",
        "_large_filled",
        "_large_size",
        "_reach",
        "_rest",
        "_scratch",
        "charged",
        "frame_bytes_max",
        "memory",
        "wanted",
    )

    def __init__(self, frame_bytes_max: int, buffers: FrameBuffers | None = None) -> None:
        """`buffers` may be shared with other receivers of the same thread."""
        self.frame_bytes_max = frame_bytes_max
        self._buffers = buffers or FrameBuffers()
        self._scratch = self._buffers.scratch
        self._reach = WINDOW_BYTES
        self._rest: bytes | bytearray = b""
        """The start of an incomplete frame that fits the reach and was waited for at most once."""
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_filled = 0
        self._large_counted = 0
        """The part of `charged` that belongs to the large frame."""
        self.memory: RequestMemory | None = None
        """Counts large frames before they are received; None counts nothing."""
        self.charged = 0
        """Bytes of this connection that `memory` counts."""
        self.wanted = 0
        """Size of the frame that waits for memory; 0 if none does."""

    @property
    def share_received(self) -> float:
        """The part of a large frame that has arrived, between 0 and 1; 1 if there is none."""
        return 1.0 if self._large is None else self._large_filled / self._large_size

    def writable(self) -> memoryview:
        """Return where the next bytes of the stream go: never empty, valid until `received`."""
        assert not self.wanted, "the connection waits for memory"
        if self._large is not None:
            return memoryview(self._large)[self._large_filled : self._large_size]
        rest_size = len(self._rest)
        if rest_size:
            self._scratch[:rest_size] = self._rest
        return memoryview(self._scratch)[rest_size : self._reach]

    def received(self, bytes_count: int) -> list[memoryview]:
        """Take `bytes_count` bytes that are in `writable()`; return the frames that they complete.

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
                raise PeerError(
                    f"frame of {size} bytes, at most {self.frame_bytes_max} are accepted"
                )
            end = position + _SIZE.size + size
            if end > filled:
                is_waited_for = not position and bool(self._rest)
                self._reach = self._reach_for(size, filled, len(frames))
                if is_waited_for or _SIZE.size + size > self._reach:
                    self._begin_large(position + _SIZE.size, filled, size)
                    return frames
                break
            frames.append(memoryview(scratch[position + _SIZE.size : end]))
            position = end
        self._rest = scratch[position:filled] if position < filled else b""
        return frames

    def _reach_for(self, size: int, filled: int, frames_count: int) -> int:
        """Return the size of the next read, after a read that ends inside a frame of `size`."""
        if _SIZE.size + size > SCRATCH_BYTES // 2 or frames_count > FRAMES_PER_READ_MAX:
            return WINDOW_BYTES
        return SCRATCH_BYTES if filled == self._reach else self._reach

    def begin_waiting(self) -> None:
        """Go on with the frame that waited: `memory` counts it by now."""
        size, start = self.wanted, self._rest
        self.wanted = 0
        self.charged += size
        self._large_counted = size
        self._fill_large(start, size)

    def suspend(self) -> None:
        """Hold no memory for a large frame that has hardly begun: the connection is not read."""
        large = self._large
        if large is None or not self._large_counted or self._large_filled > SCRATCH_BYTES:
            return
        self.wanted = self._large_size
        self._rest = large[: self._large_filled]
        self._large = None
        self._large_counted = 0
        self._buffers.give(large)

    def settle(self, waiting_bytes: int) -> None:
        """Count the large frame under way and `waiting_bytes` of complete frames, no others."""
        if self.memory is None:
            return
        excess = self.charged - self._large_counted - waiting_bytes
        self.charged -= excess
        if excess > 0:
            self.memory.give(excess)
        elif excess < 0:
            self.memory.take_anyway(-excess)

    def drop(self) -> None:
        """Receive no more: the connection is closed."""
        self._large = None
        self._large_counted = 0
        self.settle(0)

    def _begin_large(self, start: int, end: int, size: int) -> None:
        memory = self.memory
        if memory is not None:
            if size <= WINDOW_BYTES:
                memory.take_anyway(size)
            elif not memory.take(size):
                self.wanted = size
                self._rest = self._scratch[start:end]
                return
            self.charged += size
            self._large_counted = size
        self._fill_large(memoryview(self._scratch)[start:end], size)

    def _fill_large(self, start: bytes | bytearray | memoryview, size: int) -> None:
        self._large = self._buffers.take(size)
        self._large_size = size
        self._large_filled = len(start)
        self._large[: self._large_filled] = start
        self._rest = b""

    def _received_large(self, large: bytearray, bytes_count: int) -> list[memoryview]:
        self._large_filled += bytes_count
        if self._large_filled < self._large_size:
            return []
        frame = memoryview(large)[: self._large_size]
        self._large = None
        self._large_counted = 0
        self._buffers.give(large)
        return [frame]


def frame_size_prefix(size: int) -> bytes:
    """Encode the length prefix of a frame."""
    return _SIZE.pack(size)
