"""The current leader of a partition, for responses that refuse the partition (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from local_cluster.controller.model.cluster_image import NO_EPOCH, NO_LEADER
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.current_leader import CurrentLeader, NodeEndpoint
from local_cluster.wire.errors import ErrorCode

WRONG_LEADER_ERRORS: Final = frozenset(
    {ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch}
)
"""Errors after which a client looks for another leader."""


def current_leader(broker: BrokerServices, topic: str, partition: int) -> CurrentLeader:
    """Return the partition's leader as this broker knows it."""
    state = broker.metadata.partition(topic, partition)
    if state is None:
        return CurrentLeader(NO_LEADER, NO_EPOCH)
    return CurrentLeader(state.leader, state.leader_epoch)


def node_endpoints(
    broker: BrokerServices, context: RequestContext, leaders: Iterable[CurrentLeader | None]
) -> list[NodeEndpoint]:
    """Return the leaders' endpoints on the client's listener, each once."""
    endpoints = []
    for leader_id in sorted({leader.leader_id for leader in leaders if leader is not None}):
        live = broker.metadata.brokers.get(leader_id)
        if live is not None and context.listener in live.listeners:
            host, port = live.listeners[context.listener]
            endpoints.append(NodeEndpoint(leader_id, host, port, live.rack))
    return endpoints
