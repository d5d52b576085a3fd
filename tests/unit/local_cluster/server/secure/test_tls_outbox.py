"""Responses over TLS into a real socket pair, with a page cache that tests control."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local_cluster.log.disk.cold_reads import CHUNK_BYTES
from local_cluster.security.authentication.listener_security import TlsSettings
from local_cluster.security.authentication.tls_contexts import load_context
from local_cluster.server.outbox import Part
from local_cluster.server.secure.tls_outbox import ENCRYPT_BYTES_MAX, TlsOutbox
from tests.support.authority import Authority
from tests.unit.local_cluster.server.test_outbox import (
    CONTENT,
    FILE_BYTES,
    FakePageCache,
    Side,
    piece,
)


class TlsSide:
    """An outbox whose handshake is done, and a peer that decrypts."""

    def __init__(self, cache: FakePageCache, directory: Path) -> None:
        self.plain = Side(cache)
        self.plain.outbox.close()
        self.plain = Side(cache)
        authority = Authority(directory)
        context = load_context(TlsSettings(keystore_file=str(authority.issue("broker").pem)))
        to_us, from_us = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(to_us, from_us, server_side=True)
        trusting = ssl.create_default_context(cafile=str(authority.ca_file))
        self.to_peer = ssl.MemoryBIO()
        self.peer = trusting.wrap_bio(self.to_peer, to_us, server_hostname="127.0.0.1")
        for side in (self.peer, session, self.peer, session):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            self.to_peer.write(from_us.read())
        self.outbox = TlsOutbox(
            self.plain.sock,
            session,
            from_us,
            self.plain.cold_reads,
            self.plain.drained.set,
            self.plain.broken.set_result,
        )

    async def receive(self, size_bytes: int) -> bytes:
        received = bytearray()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(20):
            while len(received) < size_bytes:
                try:
                    plain = self.peer.read(size_bytes - len(received))
                    assert plain, "the TLS stream ended"
                    received += plain
                except ssl.SSLWantReadError:
                    chunk = await loop.sock_recv(self.plain.peer, 1 << 20)
                    assert chunk, f"the stream ended after {len(received)} bytes"
                    self.to_peer.write(chunk)
        return bytes(received)


@pytest.fixture
def cache() -> FakePageCache:
    return FakePageCache(FILE_BYTES)


@pytest.fixture
async def side(cache: FakePageCache, tmp_path: Path) -> AsyncIterator[TlsSide]:
    made = TlsSide(cache, tmp_path)
    yield made
    made.outbox.close()
    made.plain.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "segment"
    file.write_bytes(CONTENT)
    return file


async def test_parts_arrive_in_order_large_and_small(side: TlsSide, path: Path) -> None:
    large = memoryview(CONTENT[: 3 * ENCRYPT_BYTES_MAX + 1])
    pieces = piece(path, 5, 1_000), piece(path, 9, FILE_BYTES - 9)
    parts: list[Part] = [b"head", pieces[0], b"", large, pieces[1], b"tail"]
    expected = b"".join([b"head", CONTENT[5:1_005], large, CONTENT[9:], b"tail"])
    side.outbox.add(parts)
    side.outbox.flush()
    assert not side.outbox.is_empty, "more than the socket takes"
    assert await side.receive(len(expected)) == expected
    async with asyncio.timeout(20):
        await side.plain.drained.wait()
    assert side.outbox.is_empty


async def test_a_cold_slice_is_loaded_beside_the_loop(
    side: TlsSide, cache: FakePageCache, path: Path
) -> None:
    cache.warm_until = 0
    cache.gate.clear()
    side.outbox.add([b"head", piece(path, 0, 2 * CHUNK_BYTES)])
    side.outbox.flush()
    assert await side.receive(4) == b"head"
    side.outbox.flush()
    cache.gate.set()
    assert await side.receive(2 * CHUNK_BYTES) == CONTENT[: 2 * CHUNK_BYTES]
    assert cache.loaded[0] == (0, CHUNK_BYTES)


async def test_a_short_file_ends_the_stream(side: TlsSide, path: Path) -> None:
    path.write_bytes(CONTENT[:1_000])
    side.outbox.add([piece(path, 0, 5_000)])
    side.outbox.flush()
    assert "4000 bytes early" in str(await side.plain.broken)
    assert side.plain.sock.fileno() == -1


async def test_closing_ends_the_tls_stream_where_all_was_sent(side: TlsSide) -> None:
    side.outbox.add([b"all"])
    side.outbox.flush()
    side.outbox.close()
    assert await side.receive(3) == b"all"
    with pytest.raises(AssertionError, match="the TLS stream ended"):
        await side.receive(1)
