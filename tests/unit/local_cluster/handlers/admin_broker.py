"""A broker double for admin handlers, and a client that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from local_cluster.client_metrics.receiver import ClientMetrics
from local_cluster.clock import SystemClock
from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    TopicState,
    difference,
)
from local_cluster.controller.model.encoded_topics import EncodedTopics
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.handlers.cluster.p03_metadata import metadata
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from tests.unit.local_cluster.controller.member.control_plane_member import Member
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class Broker:
    """The services that admin handlers use, over a control plane on a ZooKeeper in memory."""

    def __init__(self, server: FakeZooKeeper, broker_id: int = 1, **config: str) -> None:
        self.member = Member(server, broker_id, **config)
        self.settings = self.member.plane._settings
        self.control_plane = self.member.plane
        self.metadata: MetadataCache = self.member.cache
        self.configs = CurrentConfigs(self.settings, self.metadata)
        self.encoded_topics = EncodedTopics(self.metadata)
        self.quotas = ClientQuotas({})
        self.clock = SystemClock()
        self.client_metrics = ClientMetrics(self.settings, self.clock, self.metadata)
        self.denied: set[tuple[str, str]] = set()

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, name: str
    ) -> bool:
        return (operation, name) not in self.denied

    may = holds = authorize

    def holds_for_topic(self, context: RequestContext, operation: str, topic: str) -> bool:
        return (operation, "kafka-cluster") not in self.denied

    def show(
        self, *topics: TopicState, brokers: Mapping[int, BrokerEndpoints] | None = None
    ) -> None:
        """Apply an image to the metadata cache, as of a later controller."""
        live = brokers if brokers is not None else dict(self.metadata.brokers)
        image = ClusterImage(1, 99, 1, live, {t.name: t for t in topics}, {})
        self.metadata.apply(difference(None, image, self.metadata.broker_epoch))


async def ask(
    function: Callable[..., Any],
    api: ApiKey,
    version: int,
    broker: Broker,
    fields: Mapping[str, Any],
    listener: str = "P",
) -> Any:
    """Send a request through codec and handler; return the response as a client reads it."""
    body = messages.encode_request(api, version, fields)
    request = messages.decode_request(api, version, memoryview(body), 0)
    context = RequestContext(api, version, 1, "test", "User:ANONYMOUS", listener, "h", 1)
    reply = function(cast(BrokerServices, broker), context, request)
    if asyncio.iscoroutine(reply):
        reply = await reply
    is_encoded = isinstance(reply, bytes)
    answer = reply if is_encoded else messages.encode_response(api, version, reply)
    return messages.decode_response(api, version, memoryview(answer), 0)


async def ask_metadata(broker: Broker, version: int = 12, listener: str = "P", **given: Any) -> Any:
    fields = {
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
        **given,
    }
    return await ask(metadata, ApiKey.METADATA, version, broker, fields, listener)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "topic_id": None} for name in names]


def other(broker_id: int, **listeners: tuple[str, int]) -> BrokerEndpoints:
    return BrokerEndpoints(broker_id, "r9", listeners, broker_id)
