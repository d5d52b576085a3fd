"""Responses into a real socket pair, slices of real files, with a page cache that tests control."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.log.disk.cold_reads import CHUNK_BYTES, ColdReads
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.segment.segment import LogSlice
from local_cluster.server.outbox import SENDFILE_BYTES_MIN, Outbox, Part

FILE_BYTES = 3 * CHUNK_BYTES + 12_345
CONTENT = random.Random(4).randbytes(FILE_BYTES)


class FakePageCache:
    """Warm below `warm_until`. Loads move it up, once `gate` is open."""

    def __init__(self, warm_until: int) -> None:
        self.warm_until = warm_until
        self.gate = threading.Event()
        self.gate.set()
        self.loaded: list[tuple[int, int]] = []
        self.error: OSError | None = None

    def warm_bytes(self, fd: int, position: int, size_bytes: int) -> int:
        return max(min(self.warm_until - position, size_bytes), 0)

    def read_now(self, fd: int, size_bytes: int, position: int) -> bytes | None:
        is_warm = self.warm_bytes(fd, position, size_bytes) == size_bytes
        return os.pread(fd, size_bytes, position) if is_warm else None

    def load(self, fd: int, position: int, size_bytes: int, read_ahead_bytes: int) -> None:
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.loaded.append((position, size_bytes))
        self.warm_until = max(self.warm_until, position + size_bytes)


class Side:
    """An outbox and its peer."""

    def __init__(
        self, cache: FakePageCache, pair: tuple[socket.socket, socket.socket] | None = None
    ) -> None:
        self.cold_reads = ColdReads(cache)
        self.sock, self.peer = pair or socket.socketpair()
        ours = self.sock
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        self.peer.setblocking(False)
        self.drained = asyncio.Event()
        self.broken: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()
        self.outbox = Outbox(ours, self.cold_reads, self.drained.set, self.broken.set_result)

    def send(self, *parts: Part) -> None:
        self.outbox.add(parts)
        self.outbox.flush()

    async def receive(self, size_bytes: int) -> bytes:
        received = bytearray()
        async with asyncio.timeout(20):
            while len(received) < size_bytes:
                chunk = await asyncio.get_running_loop().sock_recv(self.peer, 1 << 20)
                assert chunk, f"the stream ended after {len(received)} bytes"
                received += chunk
        return bytes(received)

    def close(self) -> None:
        self.outbox.close()
        self.cold_reads.stop()
        self.peer.close()


@pytest.fixture
def cache() -> FakePageCache:
    return FakePageCache(FILE_BYTES)


@pytest.fixture
async def side(cache: FakePageCache) -> Iterator[Side]:  # type: ignore[misc]
    made = Side(cache)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "segment"
    file.write_bytes(CONTENT)
    return file


def piece(path: Path, position: int, size_bytes: int) -> LogSlice:
    return LogSlice(OsFiles().open(str(path)), position, size_bytes, 0)


async def test_parts_arrive_in_order_large_and_small(side: Side, path: Path) -> None:
    small, large = SENDFILE_BYTES_MIN - 1, 2 * CHUNK_BYTES + 7
    side.send(
        b"head", piece(path, 5, small), memoryview(b"-"), piece(path, 100, large), b"", b"tail"
    )
    expected = b"head" + CONTENT[5 : 5 + small] + b"-" + CONTENT[100 : 100 + large] + b"tail"
    assert await side.receive(len(expected)) == expected
    await asyncio.wait_for(side.drained.wait(), 10)
    assert side.outbox.is_empty


async def test_over_tcp_the_last_segment_is_not_held_back(cache: FakePageCache, path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        side = Side(cache, (server.accept()[0], peer))
    size_bytes = 2 * SENDFILE_BYTES_MIN
    for _ in range(3):
        side.send(b"head", piece(path, 100, size_bytes), b"tail")
        expected = b"head" + CONTENT[100 : 100 + size_bytes] + b"tail"
        assert await side.receive(len(expected)) == expected
    side.close()


async def test_more_buffers_than_one_system_call_takes(side: Side) -> None:
    parts = [b"%06d" % number for number in range(5_000)]
    side.send(*parts)
    assert await side.receive(30_000) == b"".join(parts)


@pytest.mark.parametrize("size_bytes", [100, FILE_BYTES])
async def test_cold_bytes_are_loaded_beside_the_loop(
    side: Side, cache: FakePageCache, path: Path, size_bytes: int
) -> None:
    cache.warm_until = 0
    cache.gate.clear()
    side.send(b"head", piece(path, 0, size_bytes), b"tail")
    assert await side.receive(4) == b"head"
    # The loop continues, and no bytes after the cold ones overtake them.
    await asyncio.sleep(0.05)
    with pytest.raises(BlockingIOError):
        side.peer.recv(1)
    cache.gate.set()
    expected = CONTENT[:size_bytes] + b"tail"
    assert await side.receive(len(expected)) == expected
    chunks = list(range(0, size_bytes, CHUNK_BYTES))
    assert [position for position, _ in cache.loaded] == chunks


async def test_pages_that_went_cold_again_inside_a_slice_are_loaded(
    side: Side, cache: FakePageCache, path: Path
) -> None:
    cache.warm_until = CHUNK_BYTES + 1
    side.send(piece(path, 0, FILE_BYTES))
    assert await side.receive(FILE_BYTES) == CONTENT
    assert cache.loaded[0] == (CHUNK_BYTES + 1, CHUNK_BYTES)


async def test_a_disk_error_of_a_cold_read_ends_the_stream(
    side: Side, cache: FakePageCache, path: Path
) -> None:
    cache.warm_until = 0
    cache.error = OSError(5, "Input/output error")
    side.send(piece(path, 0, FILE_BYTES))
    assert await asyncio.wait_for(side.broken, 10) is cache.error


async def test_a_slow_reader_delays_no_other(side: Side, cache: FakePageCache, path: Path) -> None:
    other = Side(cache)
    side.send(piece(path, 0, FILE_BYTES))
    other.send(piece(path, 0, FILE_BYTES))
    assert await other.receive(FILE_BYTES) == CONTENT
    assert not side.outbox.is_empty
    assert await side.receive(FILE_BYTES) == CONTENT
    other.close()


async def test_a_peer_that_closes_inside_a_slice_breaks_the_stream(side: Side, path: Path) -> None:
    side.send(piece(path, 0, FILE_BYTES))
    await side.receive(1)
    side.peer.close()
    assert isinstance(await asyncio.wait_for(side.broken, 10), ConnectionError)
    assert side.outbox.is_empty


@pytest.mark.parametrize("size_bytes", [100, 2 * CHUNK_BYTES])
async def test_a_file_shorter_than_its_slice_breaks_the_stream(
    side: Side, path: Path, size_bytes: int
) -> None:
    short = piece(path, FILE_BYTES - 50, size_bytes)
    side.send(short)
    error = await asyncio.wait_for(side.broken, 10)
    assert "early" in str(error)


async def test_closing_while_a_load_runs_sends_nothing_afterwards(
    side: Side, cache: FakePageCache, path: Path
) -> None:
    cache.warm_until = 0
    cache.gate.clear()
    side.send(piece(path, 0, FILE_BYTES))
    side.outbox.close()
    cache.gate.set()
    async with asyncio.timeout(10):
        while not cache.loaded:
            await asyncio.sleep(0.01)
        assert await asyncio.get_running_loop().sock_recv(side.peer, 1) == b""
    assert not side.broken.done()
