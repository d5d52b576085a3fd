"""A topic is asked of the controller over the connection that proves who this broker is."""

from __future__ import annotations

from collections.abc import Callable

from local_cluster.controller.member.inter_broker import CREATE_TOPICS_VERSION, create_topic_at
from local_cluster.controller.model.cluster_image import BrokerEndpoints
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.network import PeerConnection
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

CONTROLLER = BrokerEndpoints(id=2, rack=None, listeners={"SECURE": ("127.0.0.1", 9093)})
SPEC = TopicSpec(name="t", partitions=3, replication_factor=1)


class Answering:
    """A connection whose peer answers CreateTopics with one error code."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.is_closed = False
        self.asked: list[tuple[ApiKey, int]] = []

    async def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> tuple[memoryview, int]:
        self.asked.append((api, version))
        topic = {"name": "t", "topic_id": None, "error_code": self.code, "error_message": None}
        return memoryview(messages.encode_response(api, version, {"topics": [topic]})), 0

    def abort(self, reason: str) -> None:
        self.is_closed = True

    def when_closed(self, callback: Callable[[], None]) -> None:
        raise AssertionError("not expected")


async def test_the_given_connection_is_used_and_closed() -> None:
    for code in (ErrorCode.none, ErrorCode.topic_already_exists):
        peer = Answering(code)

        async def connect(host: str, port: int, peer: PeerConnection = peer) -> PeerConnection:
            assert (host, port) == ("127.0.0.1", 9093)
            return peer

        error = await create_topic_at(CONTROLLER, "SECURE", SPEC, 1_000, connect=connect)
        assert (error.code if error else ErrorCode.none) is code
        assert peer.asked == [(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION)]
        assert peer.is_closed
