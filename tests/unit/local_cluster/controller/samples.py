"""Brokers and topics for tests of the control plane."""

from __future__ import annotations

import uuid

from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    UNWRITTEN,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.settings import BrokerSettings, Listener

SETTINGS = BrokerSettings(
    cluster="c",
    broker_id=1,
    listeners=(Listener(name="P", host="h", port=1),),
    inter_broker_listener="P",
    zookeeper_connect="",
    log_dirs=("",),
    ready_file="",
    config={"num.partitions": "3"},
)


def broker(broker_id: int, *, epoch: int = 0, rack: str | None = None) -> BrokerEndpoints:
    """Return a broker with one listener; its epoch defaults to ten times its id."""
    return BrokerEndpoints(
        broker_id,
        rack,
        {"PLAINTEXT": (f"host{broker_id}", 9092)},
        epoch or broker_id * 10,
        {"PLAINTEXT": "PLAINTEXT"},
    )


def brokers(*ids: int) -> dict[int, BrokerEndpoints]:
    return {broker_id: broker(broker_id) for broker_id in ids}


def partition(
    index: int,
    *replicas: int,
    leader: int | None = None,
    epoch: int = 0,
    isr: tuple[int, ...] | None = None,
    version: int = 0,
) -> PartitionState:
    """Return a partition; by default its first replica leads and all are in sync."""
    return PartitionState(
        index,
        replicas,
        replicas[0] if leader is None else leader,
        epoch,
        replicas if isr is None else isr,
        version,
    )


def unwritten(index: int, *replicas: int) -> PartitionState:
    return PartitionState(index, replicas, NO_LEADER, -1, (), UNWRITTEN)


def topic_id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def topic(name: str, *partitions: PartitionState, **configs: str) -> TopicState:
    return TopicState(
        name,
        topic_id(name),
        {each.partition: each for each in partitions},
        {key.replace("_", "."): value for key, value in configs.items()},
    )
