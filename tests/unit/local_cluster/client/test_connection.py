"""Brokers that accept a connection and then are silent: what the errors say."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


async def test_a_broker_that_is_silent_is_named_with_how_long_it_was_waited_for() -> None:
    """A stopped process: the kernel accepts its connections, and nobody answers."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(KafkaError) as caught:
            await connect("127.0.0.1", port, client_id="test", timeout_ms=50)
    assert caught.value.code == ErrorCode.network_exception
    assert caught.value.message == f"127.0.0.1:{port} does not answer within 50 ms"


async def test_a_broker_that_falls_silent_later_is_named_as_well() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    async with server, KafkaClient(f"127.0.0.1:{port}", request_timeout_ms=50) as client:
        _, connection = await loop.create_connection(lambda: Connection("test"), "127.0.0.1", port)
        connection.versions = {int(ApiKey.METADATA): (0, 12)}
        client._any = connection
        with pytest.raises(KafkaError) as caught:
            await client.metadata([])
    assert caught.value.code == ErrorCode.request_timed_out
    assert caught.value.message == f"127.0.0.1:{port} does not answer within 50 ms"
