"""How long a peer has to prove who it is, whatever it sends meanwhile."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from local_cluster.server.secure import sasl_session, tls_connection
from tests.support.authority import Authority
from tests.unit.local_cluster.server.served_listeners import Client, log_in, request, serving

LIMIT_MS = 200


async def chatter(client: Client, content: bytes) -> None:
    """Send a byte now and then, until the connection ends."""
    while not client.writer.is_closing():
        client.writer.write(content)
        await asyncio.sleep(LIMIT_MS / 5_000)


async def test_a_handshake_has_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tls_connection, "HANDSHAKE_MS_MAX", LIMIT_MS)
    async with serving(Authority(tmp_path)) as broker:
        silent = await broker.connect_plainly("SECURE")
        slow = await broker.connect_plainly("SECURE")
        # The start of a record of 16 KiB, which is not finished.
        slow.writer.write(b"\x16\x03\x01\x40\x00")
        sending = asyncio.create_task(chatter(slow, b"\1"))
        assert await silent.has_ended()
        assert await slow.has_ended()
        sending.cancel()
    assert f"no handshake within {LIMIT_MS} ms" in caplog.text


async def test_an_authentication_has_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sasl_session, "AUTHENTICATION_MS_MAX", LIMIT_MS)
    async with serving(Authority(tmp_path)) as broker:
        user = await broker.connect("PASSWORDS")
        await log_in(user, "alice")
        silent = await broker.connect("PASSWORDS")
        asking = await broker.connect("PASSWORDS")
        sending = asyncio.create_task(chatter(asking, request(100)))
        assert await silent.has_ended()
        while await asking.reader.read(1 << 16):
            pass
        sending.cancel()
        assert await user.asks(100) == 7, "who has proved it may stay"
    assert f"not authenticated within {LIMIT_MS} ms" in caplog.text
