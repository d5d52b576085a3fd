"""Connections to other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from local_cluster.controller.model.cluster_image import BrokerEndpoints
from local_cluster.coordinator_runtime.ports import CoordinatorBroker
from local_cluster.transactions.broker_connections import BrokerConnections
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from tests.unit.local_cluster.groups.doubles import FakeBroker

ADDRESS = ("broker", 9092)


class BrokenConnection:
    """A peer whose responses are unreadable."""

    is_closed = False

    async def send(self, api: ApiKey, version: int, body: tuple[bytes, ...]) -> Any:
        raise PeerError("not that message")

    def abort(self, reason: str) -> None:
        self.is_closed = True

    def when_closed(self, callback: Callable[[], None]) -> None:
        return


async def test_after_an_unreadable_response_the_next_call_reconnects() -> None:
    opened: list[BrokenConnection] = []

    async def connect(host: str, port: int) -> BrokenConnection:
        assert (host, port) == ADDRESS
        opened.append(BrokenConnection())
        return opened[-1]

    broker = FakeBroker()
    broker.metadata.brokers = {2: BrokerEndpoints(2, None, {"PLAINTEXT": ADDRESS})}
    connections = BrokerConnections(cast(CoordinatorBroker, broker), connect)
    for calls in (1, 2):
        with pytest.raises(KafkaError) as error:
            await connections.call(2, ApiKey.ADD_PARTITIONS_TO_TXN, {"transactions": []}, 5)
        assert error.value.code is ErrorCode.network_exception
        assert len(opened) == calls
        assert opened[-1].is_closed
