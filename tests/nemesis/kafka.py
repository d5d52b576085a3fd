"""Three brokers of Apache Kafka 4.4 (KRaft, broker and controller in one) behind the proxy.

The same faults and workloads as against ours, to show that the checkers are right. There is no
ZooKeeper; what is between controllers goes through the proxy like what is between brokers.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.nemesis.cluster import (
    AUTHORIZER,
    NODES,
    REPLICA_LAG_MS_MAX,
    SESSION_TIMEOUT_MS,
    Cluster,
    ClusterOptions,
)
from tests.nemesis.links import CLIENT, Route
from tests.nemesis.network import Network
from tests.nemesis.workloads.workload import CONSUMER_GROUPS
from tests.support.kafka_from_maven import KafkaProcess, new_cluster_id
from tests.support.quiet_ports import quiet_ports

SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONFIG = {
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,"
    "CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": str(REPLICA_LAG_MS_MAX),
    # So that something is compacted and deleted within a life.
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    # As in configs/three-brokers.yaml.
    "auto.create.topics.enable": "true",
}


class KafkaCluster(Cluster):
    """The quorum of controllers says who is in charge."""

    async def controller(self) -> int:
        """The leader of the metadata quorum, as its members' files have it."""
        states = []
        for node in self.nodes:
            file = self.log_directory(node) / "__cluster_metadata-0" / "quorum-state"
            state = json.loads(file.read_text())
            states.append((state["leaderEpoch"], state["leaderId"]))
        return int(max(states)[1])


def kafka_cluster(directory: Path, options: ClusterOptions) -> KafkaCluster:
    """A cluster that does not run yet. Clocks cannot be set here."""
    assert options.clock_node is None, "only the clock of a Python process can be set"
    ports = quiet_ports(8 * len(NODES))
    direct, internal, quorum, client, peers, voters, users_direct, users = (
        ports[n::8] for n in range(8)
    )
    routes = []
    brokers = {}
    cluster_id = new_cluster_id()
    for place, node in enumerate(NODES):
        routes += [
            Route(client[place], direct[place], CLIENT, str(node)),
            Route(peers[place], internal[place], "", str(node)),
            Route(voters[place], quorum[place], "", str(node)),
            Route(users[place], users_direct[place], CLIENT, str(node)),
        ]
        home = directory / f"kafka-{node}"
        home.mkdir()
        config = {
            **CONFIG,
            **CONSUMER_GROUPS,
            "listeners": f"PLAINTEXT://127.0.0.1:{direct[place]},"
            f"INTERNAL://127.0.0.1:{internal[place]},CONTROLLER://127.0.0.1:{quorum[place]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client[place]},"
            f"INTERNAL://127.0.0.1:{peers[place]}",
            "controller.quorum.voters": ",".join(
                f"{each}@127.0.0.1:{port}" for each, port in zip(NODES, voters, strict=True)
            ),
        }
        if options.users:
            config |= {
                **AUTHORIZER,
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listeners": f"{config['listeners']},USERS://127.0.0.1:{users_direct[place]}",
                "advertised.listeners": f"{config['advertised.listeners']},"
                f"USERS://127.0.0.1:{users[place]}",
                "listener.name.users.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN} required;",
            }
        brokers[node] = KafkaProcess(home, direct[place], quorum[place], config,
                                     cluster_id=cluster_id, broker_id=node)  # fmt: skip
    return KafkaCluster("kafka", directory, brokers, Network(routes), client, None, options, users)
