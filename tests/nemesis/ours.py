"""Three brokers of ours and a ZooKeeper, all behind the proxy."""

from __future__ import annotations

from pathlib import Path

from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.settings import BrokerSettings, Listener
from tests.nemesis import clock, older
from tests.nemesis.cluster import (
    AUTHORIZER,
    NODES,
    REPLICA_LAG_MS_MAX,
    SESSION_TIMEOUT_MS,
    Cluster,
    ClusterOptions,
)
from tests.nemesis.links import CLIENT, ZOOKEEPER, Route
from tests.nemesis.network import Network
from tests.nemesis.workloads.workload import CONSUMER_GROUPS
from tests.support.cluster import DEVELOPMENT_CONFIG, PRESENT_CODE, BrokerProcess
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import THREE_BROKERS
from tests.support.zookeeper_process import ZooKeeperProcess


class OurCluster(Cluster):
    """Brokers keep to their log directories; ZooKeeper says who is in charge."""

    async def controller(self) -> int:
        async with self.client() as client:
            return (await client.metadata([])).controller_id


def our_cluster(directory: Path, options: ClusterOptions) -> OurCluster:
    """A cluster whose brokers do not run yet; its ZooKeeper does."""
    zookeeper = ZooKeeperProcess(directory / "zookeeper")
    ports = quiet_ports(7 * len(NODES))
    direct, internal, client, peers, keeper, users_direct, users = (ports[n::7] for n in range(7))
    code = older.unpacked(directory) if options.older_version else PRESENT_CODE
    routes = []
    brokers = {}
    for place, node in enumerate(NODES):
        routes += [
            Route(client[place], direct[place], CLIENT, str(node)),
            Route(peers[place], internal[place], "", str(node)),
            Route(keeper[place], zookeeper.server.port, str(node), ZOOKEEPER),
            Route(users[place], users_direct[place], CLIENT, str(node)),
        ]
        of_users = Listener(
            name="USERS",
            host="127.0.0.1",
            port=users_direct[place],
            advertised_port=users[place],
            security_protocol="SASL_PLAINTEXT",
            sasl=SaslSettings(mechanisms=("SCRAM-SHA-512",)),
        )
        home = directory / f"broker-{node}"
        home.mkdir()
        settings = BrokerSettings(
            cluster="nemesis",
            broker_id=node,
            listeners=(
                # The first one is the one that BrokerProcess knows.
                Listener(name="PLAINTEXT", host="127.0.0.1", port=direct[place],
                         advertised_port=client[place]),
                Listener(name="INTERNAL", host="127.0.0.1", port=internal[place],
                         advertised_port=peers[place]),
                *((of_users,) if options.users else ()),
            ),
            inter_broker_listener="INTERNAL",
            zookeeper_connect=f"127.0.0.1:{keeper[place]}/nemesis",
            zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
            log_dirs=(str(home / "log"),),
            ready_file=str(home / "ready.json"),
            config={
                **DEVELOPMENT_CONFIG,
                **THREE_BROKERS,
                **CONSUMER_GROUPS,
                **(AUTHORIZER if options.users else {}),
                "replica.lag.time.max.ms": str(REPLICA_LAG_MS_MAX),
                # So that something is compacted and deleted within a life.
                "log.cleaner.backoff.ms": "500",
                "log.retention.check.interval.ms": "1000",
            },
        )  # fmt: skip
        environment = clock.environment(home) if options.clock_node == node else {}
        brokers[node] = BrokerProcess(
            settings, home, port=direct[place], environment=environment, code=code
        )
    return OurCluster(
        "ours", directory, brokers, Network(routes), client, zookeeper, options, users
    )
