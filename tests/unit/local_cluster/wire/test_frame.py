"""`frame`: frames are the same wherever the stream is cut, and their size is limited."""

from __future__ import annotations

import pytest

from local_cluster.wire.errors import PeerError
from local_cluster.wire.frame import (
    SCRATCH_BYTES,
    SPARES_MAX,
    WINDOW_BYTES,
    FrameBuffers,
    FrameReceiver,
    frame_size_prefix,
)
from local_cluster.wire.request_memory import RequestMemory

FRAMES = [
    b"",
    b"a",
    b"hello" * 3,
    b"w" * (WINDOW_BYTES - 4),
    *(bytes([index]) * (WINDOW_BYTES + index) for index in range(20)),
    b"l" * (WINDOW_BYTES * 3 + 1),
    b"s" * (SCRATCH_BYTES + 1),
    *(bytes([index]) * index for index in range(200)),
    b"tail",
]


class Stream:
    """The frames that a peer sends, and the frames that were received."""

    def __init__(self, frames: list[bytes], buffers: FrameBuffers | None = None) -> None:
        self.left = memoryview(b"".join(frame_size_prefix(len(each)) + each for each in frames))
        self.received: list[bytes] = []
        self._receiver = FrameReceiver(1_000_000, buffers)

    def step(self, bytes_max: int) -> None:
        window = self._receiver.writable()
        assert len(window) > 0
        count = min(bytes_max, len(window), len(self.left))
        window[:count] = self.left[:count]
        self.left = self.left[count:]
        self.received += [bytes(frame) for frame in self._receiver.received(count)]


@pytest.mark.parametrize("step_bytes", [1, 2, 3, 7, 1000, 4096, WINDOW_BYTES, 40_000, 10**9])
def test_any_cut_gives_the_same_frames(step_bytes: int) -> None:
    frames = FRAMES if step_bytes > 3 else [frame[:99] for frame in FRAMES]
    stream = Stream(frames)
    while stream.left:
        stream.step(step_bytes)
    assert stream.received == frames


def test_connections_of_one_loop_do_not_share_frames() -> None:
    shared = FrameBuffers()
    streams = [Stream(FRAMES, shared), Stream(FRAMES[::-1], shared), Stream(FRAMES[7:], shared)]
    while any(stream.left for stream in streams):
        for step_bytes, stream in zip((900, 17_001, 10**9), streams, strict=True):
            stream.step(step_bytes)
    assert [stream.received for stream in streams] == [FRAMES, FRAMES[::-1], FRAMES[7:]]


def receive_one(receiver: FrameReceiver, frame: bytes) -> memoryview:
    left = memoryview(frame_size_prefix(len(frame)) + frame)
    while True:
        window = receiver.writable()
        count = min(len(window), len(left))
        window[:count] = left[:count]
        left = left[count:]
        frames = receiver.received(count)
        if frames:
            return frames[0]


@pytest.mark.parametrize("size_bytes", [10, WINDOW_BYTES + 10, SCRATCH_BYTES * 2])
def test_a_frame_that_is_still_referenced_is_not_overwritten(size_bytes: int) -> None:
    receiver = FrameReceiver(1_000_000)
    contents = [bytes([index]) * size_bytes for index in range(SPARES_MAX * 3)]
    kept = [receive_one(receiver, content) for content in contents]
    assert [bytes(frame) for frame in kept] == contents
    views = [frame[5:9] for frame in kept]
    del kept
    receive_one(receiver, b"\xff" * size_bytes)
    assert [bytes(view) for view in views] == [content[5:9] for content in contents]


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


# -- the memory that all connections share -----------------------------------------------------

LARGE = b"l" * (SCRATCH_BYTES * 2)


def counted_receiver(bytes_max: int) -> tuple[FrameReceiver, RequestMemory]:
    receiver = FrameReceiver(1_000_000)
    receiver.memory = RequestMemory(bytes_max, lambda: 1)
    return receiver, receiver.memory


def feed(receiver: FrameReceiver, stream: bytes) -> tuple[list[bytes], bytes]:
    """Receive until a frame waits for memory; return the frames, and what was not received."""
    frames: list[bytes] = []
    while stream and not receiver.wanted:
        window = receiver.writable()
        count = min(len(window), len(stream))
        window[:count] = stream[:count]
        stream = stream[count:]
        frames += [bytes(frame) for frame in receiver.received(count)]
    return frames, stream


def test_a_large_frame_is_counted_by_its_announced_size_until_it_is_settled() -> None:
    receiver, memory = counted_receiver(1_000_000)
    frames, _ = feed(receiver, frame_size_prefix(len(LARGE)) + LARGE[:100])
    assert not frames
    assert memory.used == receiver.charged == len(LARGE)
    receiver.settle(0)
    assert memory.used == len(LARGE), "it is still on its way"
    frames, _ = feed(receiver, LARGE[100:])
    assert frames == [LARGE]
    receiver.settle(len(LARGE))
    assert memory.used == len(LARGE), "it waits for another limit"
    receiver.settle(0)
    assert memory.used == receiver.charged == 0


@pytest.mark.parametrize("cut", [1, 5, 100, WINDOW_BYTES, 10**9])
def test_a_frame_that_waited_for_memory_is_received_whole(cut: int) -> None:
    receiver, memory = counted_receiver(10)
    assert memory.take(10)
    small = b"small"
    stream = b"".join(frame_size_prefix(len(each)) + each for each in (small, LARGE, small))
    received: list[bytes] = []
    while stream:
        if receiver.wanted:
            assert receiver.wanted == len(LARGE)
            assert not receiver.charged
            memory.give(10)
            assert memory.take(receiver.wanted)
            receiver.begin_waiting()
        piece, stream = stream[:cut], stream[cut:]
        frames, left = feed(receiver, piece)
        received += frames
        stream = left + stream
        receiver.settle(0)
    assert received == [small, LARGE, small]
    assert memory.used == 0


def test_small_frames_need_no_memory() -> None:
    receiver, memory = counted_receiver(1)
    assert memory.take(1)
    frames, left = feed(receiver, (frame_size_prefix(5) + b"small") * 5_000)
    assert len(frames) == 5_000
    assert not left
    assert memory.used == 1
    frame = b"s" * WINDOW_BYTES
    stream = frame_size_prefix(len(frame)) + frame
    pieces = [stream[at : at + 1_000] for at in range(0, len(stream), 1_000)]
    assert [each for piece in pieces for each in feed(receiver, piece)[0]] == [frame]
    assert memory.used == 1 + len(frame), "it is counted, and has not waited"


def test_what_a_closed_connection_held_is_given_back() -> None:
    receiver, memory = counted_receiver(1_000_000)
    feed(receiver, frame_size_prefix(len(LARGE)) + b"l")
    assert memory.used == len(LARGE)
    receiver.drop()
    assert memory.used == 0
