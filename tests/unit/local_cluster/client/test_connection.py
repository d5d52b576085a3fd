"""Brokers that accept a connection and do not answer: the errors name them."""

from __future__ import annotations

import asyncio
import socket

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


async def test_the_error_of_a_silent_broker_names_its_address_and_the_timeout() -> None:
    """A stopped process: the kernel accepts its connections, and no request is answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(KafkaError) as caught:
            await connect("127.0.0.1", port, client_id="test", timeout_ms=50)
    assert caught.value.code == ErrorCode.network_exception
    assert caught.value.message == f"127.0.0.1:{port} does not answer within 50 ms"


async def test_the_error_of_a_broker_that_falls_silent_later_names_it_too() -> None:
    loop = asyncio.get_running_loop()

    async def connect_without_negotiation(host: str, port: int) -> Connection:
        _, connection = await loop.create_connection(lambda: Connection("test"), host, port)
        connection.versions = {int(ApiKey.METADATA): (0, 12)}
        return connection

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = KafkaClient(
            f"127.0.0.1:{port}", request_timeout_ms=50, connect=connect_without_negotiation
        )
        async with client:
            with pytest.raises(KafkaError) as caught:
                await client.metadata([])
    assert caught.value.code == ErrorCode.request_timed_out
    assert caught.value.message == f"127.0.0.1:{port} does not answer within 50 ms"
