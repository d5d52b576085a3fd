"""Length-prefixed frames out of a byte stream, for both sides of a connection.

Made for `asyncio.BufferedProtocol`: the transport receives straight into `writable()`. A frame
that fits the small window is copied out of it (a few microseconds at most); a larger one gets a
buffer of its own size and is received into it without a copy. The size is checked against the
cap before anything is allocated.
"""

from __future__ import annotations

import struct
from typing import Final

from .errors import PeerError

_SIZE: Final = struct.Struct(">i")
WINDOW_BYTES: Final = 16 * 1024


class FrameReceiver:
    """Assembles frames; every frame is a writable memoryview that nobody else refers to."""

    __slots__ = ("_large", "_large_filled", "_window", "_window_filled", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._window = bytearray(WINDOW_BYTES)
        self._window_filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0

    def writable(self) -> memoryview:
        """Where the next bytes of the stream belong; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._window)[self._window_filled :]

    def received(self, bytes_count: int) -> list[memoryview]:
        """Take note of bytes that were put into `writable()`; the frames completed by them.

        Raises PeerError for a negative size or one above the cap.
        """
        if self._large is not None:
            self._large_filled += bytes_count
            if self._large_filled < len(self._large):
                return []
            frame = memoryview(self._large)
            self._large = None
            return [frame]
        self._window_filled += bytes_count
        frames: list[memoryview] = []
        position = 0
        filled = self._window_filled
        while filled - position >= 4:
            (size,) = _SIZE.unpack_from(self._window, position)
            if size < 0 or size > self.frame_bytes_max:
                raise PeerError(f"frame of {size} bytes, at most {self.frame_bytes_max} are taken")
            end = position + 4 + size
            if end > filled:
                if 4 + size > WINDOW_BYTES:
                    self._begin_large(position + 4, filled, size)
                    return frames
                break
            frames.append(memoryview(self._window[position + 4 : end]))
            position = end
        if position:
            self._window[: filled - position] = self._window[position:filled]
            self._window_filled = filled - position
        return frames

    def _begin_large(self, start: int, end: int, size: int) -> None:
        self._large = bytearray(size)
        self._large_filled = end - start
        self._large[: self._large_filled] = memoryview(self._window)[start:end]
        self._window_filled = 0


def frame_size_prefix(size: int) -> bytes:
    """The four bytes before a frame."""
    return _SIZE.pack(size)
