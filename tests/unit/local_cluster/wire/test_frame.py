"""Frames survive every way a stream can be cut, and their size is capped."""

from __future__ import annotations

import pytest

from local_cluster.wire.errors import PeerError
from local_cluster.wire.frame import WINDOW_BYTES, FrameReceiver, frame_size_prefix

FRAMES = [b"", b"a", b"hello" * 3, bytes(WINDOW_BYTES - 4), bytes(WINDOW_BYTES * 3 + 1), b"tail"]


def receive(stream: bytes, step_bytes: int) -> list[bytes]:
    receiver = FrameReceiver(1_000_000)
    frames: list[bytes] = []
    position = 0
    while position < len(stream):
        window = receiver.writable()
        assert len(window) > 0
        count = min(step_bytes, len(window), len(stream) - position)
        window[:count] = stream[position : position + count]
        position += count
        frames += [bytes(frame) for frame in receiver.received(count)]
    return frames


@pytest.mark.parametrize("step_bytes", [1, 2, 3, 5, 7, 1000, 4096, WINDOW_BYTES, 10**9])
def test_any_cut_gives_the_same_frames(step_bytes: int) -> None:
    stream = b"".join(frame_size_prefix(len(frame)) + frame for frame in FRAMES)
    assert receive(stream, step_bytes) == FRAMES


def test_frames_are_writable_and_independent() -> None:
    receiver = FrameReceiver(100)
    stream = frame_size_prefix(2) + b"ab" + frame_size_prefix(2) + b"cd"
    receiver.writable()[: len(stream)] = stream
    first, second = receiver.received(len(stream))
    first[0] = 0x7A
    receiver.writable()[:4] = b"\xff\xff\xff\xff"
    assert (bytes(first), bytes(second)) == (b"zb", b"cd")


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_before_allocating(size: int) -> None:
    receiver = FrameReceiver(100)
    receiver.writable()[:4] = frame_size_prefix(size)
    with pytest.raises(PeerError, match=f"frame of {size} bytes"):
        receiver.received(4)
