"""CLUSTER_DELTA: which listener and which principal may send it."""

from __future__ import annotations

from typing import cast

from local_cluster.controller.model.cluster_image import (
    ClusterImage,
    difference,
)
from local_cluster.controller.model.delta_json import decode_reply, encode_delta
from local_cluster.handlers.cluster.cluster_delta import cluster_delta
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.samples import partition, topic
from tests.unit.local_cluster.handlers.admin_broker import Broker


class TestClusterDelta:
    def push(self, broker: Broker, listener: str) -> ErrorCode:
        image = ClusterImage(2, 99, 1, {}, {"a": topic("a", partition(0, 2))}, {})
        payload = encode_delta(difference(None, image, broker.metadata.broker_epoch))
        context = RequestContext(ApiKey.CLUSTER_DELTA, 0, 1, None, "p", listener, "h", 1)
        reply = cluster_delta(cast(BrokerServices, broker), context, memoryview(payload))
        assert isinstance(reply, bytes)
        return decode_reply(reply)[0]

    async def test_only_the_inter_broker_listener_accepts_it(self, broker: Broker) -> None:
        assert self.push(broker, "OUT") is ErrorCode.cluster_authorization_failed
        assert "a" not in broker.metadata.topics
        assert self.push(broker, "P") is ErrorCode.none
        assert "a" in broker.metadata.topics

    async def test_it_needs_cluster_action(self, broker: Broker) -> None:
        broker.denied = {("CLUSTER_ACTION", "kafka-cluster")}
        assert self.push(broker, "P") is ErrorCode.cluster_authorization_failed
