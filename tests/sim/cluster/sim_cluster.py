"""A cluster of simulated brokers, as an observer sees it: ZooKeeper's znodes and the machines."""

from __future__ import annotations

import uuid
from functools import lru_cache
from random import Random

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.model.cluster_image import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    PartitionState,
)
from tests.sim.broker.sim_broker import SimBroker
from tests.sim.broker.sim_network import SimNetwork
from tests.sim.broker.sim_zookeeper import SimZooKeeper
from tests.sim.cluster.names import At
from tests.sim.cluster.scenarios import Scenario

TOPIC = "t"
UNCLEAN_TOPIC = "u"
SESSION_SECONDS = 3.0
"""The session timeout of group members."""
CONFIG = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(int(1000 * SESSION_SECONDS)),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "segment.bytes": "100000000",
    "log.segment.bytes": "100000000",
}
decode_topic = lru_cache(maxsize=64)(topic_znodes.decode_topic)


class SimCluster:
    """Brokers on one network and one ZooKeeper; all dice of a simulation are `random`."""

    topic = TOPIC
    unclean_partition = At(UNCLEAN_TOPIC, 0)

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.random = Random(seed)
        self.scenario = scenario
        self.unclean_topics = frozenset([UNCLEAN_TOPIC] if scenario.has_unclean_topic else [])
        self.network = SimNetwork(self.random)
        self.zookeeper = SimZooKeeper(self.random)
        self.brokers = {
            broker_id: SimBroker(
                broker_id,
                network=self.network,
                zookeeper=self.zookeeper,
                random=self.random,
                flush=scenario.flush,
                config=CONFIG,
                log_dirs=scenario.log_dirs,
            )
            for broker_id in range(1, scenario.brokers + 1)
        }
        self.partitions: list[At] = []
        """Partitions that the clients know."""
        self.is_healed = False
        """Whether the faults are over."""
        self.without_power: SimBroker | None = None
        """A broker that lost its page cache while its replicas may still be in sync."""

    def controller(self) -> SimBroker | None:
        """Return a broker that believes to be the controller."""
        for broker in self.brokers.values():
            if broker.is_alive and broker.control_plane.is_controller:
                return broker
        return None

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """The internal topics of the scenario."""
        has_groups = self.scenario.has_group or self.scenario.has_members
        groups = (OFFSETS_TOPIC,) if has_groups else ()
        return (*groups, TRANSACTIONS_TOPIC) if self.scenario.has_transactions else groups

    @property
    def topic_names(self) -> tuple[str, ...]:
        """All topics that exist, or soon will."""
        return (TOPIC, *self.unclean_topics, *self.internal_topics)

    def partitions_in_zookeeper(self) -> list[At]:
        """Return all partitions, by the topic znodes."""
        found = []
        for name in self.topic_names:
            znode = self.zookeeper.tree.get(znode_paths.topic_path(name))
            if znode is not None:
                found += [At(name, each) for each in decode_topic(znode.payload).replicas]
        return found

    def topic_id(self, name: str) -> uuid.UUID | None:
        """Return the id in the topic znode, None if there is no znode."""
        znode = self.zookeeper.tree.get(znode_paths.topic_path(name))
        return None if znode is None else decode_topic(znode.payload).topic_id

    def living_topic_id(self, name: str) -> uuid.UUID | None:
        """Return the id of a topic; None also if it is marked for deletion."""
        is_marked = znode_paths.delete_topic_path(name) in self.zookeeper.tree
        return None if is_marked else self.topic_id(name)

    def state_in_zookeeper(self, at: At) -> PartitionState | None:
        """Return the state in ZooKeeper, with the replicas of the topic znode, or None."""
        znode = self.zookeeper.tree.get(znode_paths.state_path(at.topic, at.partition))
        topic = self.zookeeper.tree.get(znode_paths.topic_path(at.topic))
        if znode is None or topic is None:
            return None
        replicas = decode_topic(topic.payload).replicas.get(at.partition)
        if replicas is None:
            return None
        state = topic_znodes.decode_state(znode.payload)
        return PartitionState(
            at.partition,
            replicas,
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            znode.version,
        )

    def is_reassigning(self, at: At) -> bool:
        """Return whether the topic znode adds or removes replicas of a partition."""
        znode = self.zookeeper.tree.get(znode_paths.topic_path(at.topic))
        if znode is None:
            return False
        topic = decode_topic(znode.payload)
        return at.partition in topic.adding or at.partition in topic.removing
