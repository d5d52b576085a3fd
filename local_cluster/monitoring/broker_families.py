"""Metrics of a broker as a whole: replicas, controller, connections, disks, throttles.

Names are those that the JMX exporter's usual rules give Kafka's MBeans; what Kafka lacks starts
with `heliograph_`. Functions, each for one group of MBeans; none of them waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from local_cluster.controller.model.cluster_image import NO_LEADER
from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.monitoring.partition_rows import ReplicaCounts
from local_cluster.prometheus_text import Family, Sample, counter, gauge, samples
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.api import ApiKey
from local_cluster.wire.request_memory import RequestMemory

PURGATORIES: Final = {
    "Produce": (ApiKey.PRODUCE,),
    "Fetch": (ApiKey.FETCH,),
    "Rebalance": (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP),
}
"""Kafka's purgatory -> the APIs whose requests wait in it."""


RUNNING: Final = 3
"""Kafka's BrokerState of a broker that serves."""


def state_families(*, is_running: bool) -> Iterator[Family]:
    """Yield KafkaServer's state. A broker that starts or stops has no sample of it."""
    if is_running:
        yield gauge(
            "kafka_server_kafkaserver_brokerstate",
            "3 while the broker serves.",
            Sample(RUNNING),
        )


def replica_families(broker: MonitoredBroker, counts: ReplicaCounts) -> Iterator[Family]:
    """Yield ReplicaManager and the purgatories."""
    prefix = "kafka_server_replicamanager_"
    offline = len(broker.replicas.report().offline)
    isr = broker.isr_proposer
    for name, value, text in (
        ("partitioncount", counts.partitions, "Replicas that this broker serves."),
        ("leadercount", counts.leaders, "Partitions that this broker leads."),
        ("underreplicatedpartitions", counts.under_replicated, "Led, with a replica not in sync."),
        ("underminisrpartitioncount", counts.under_min_isr, "Led, below min.insync.replicas."),
        ("atminisrpartitioncount", counts.at_min_isr, "Led, with just min.insync.replicas."),
        ("offlinereplicacount", offline, "Replicas that a disk does not let this broker serve."),
        ("produceridcount", counts.producer_ids, "Producer ids that the logs remember."),
    ):
        yield gauge(prefix + name, text, Sample(value))
    yield counter(f"{prefix}isrshrinks_total", "ISRs that lost a member.", Sample(isr.shrinks))
    yield counter(f"{prefix}isrexpands_total", "ISRs that won a member.", Sample(isr.expands))
    yield counter(
        f"{prefix}failedisrupdates_total", "ISR changes that were refused.", Sample(isr.refused)
    )
    waiting = [(name, broker.meters.waiting(*keys)) for name, keys in PURGATORIES.items()]
    for name in ("purgatorysize", "numdelayedoperations"):
        yield gauge(
            f"kafka_server_delayedoperationpurgatory_{name}",
            "Requests that wait for a commit, for records or for members.",
            *samples("delayedOperation", waiting),
        )
    yield gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions of consumers.",
        Sample(len(broker.fetch_sessions)),
    )


class ClusterCounts:
    """Sums over all partitions of the cluster, as the controller has them."""

    def __init__(self) -> None:
        self.topics = 0
        self.partitions = 0
        self.offline = 0
        self.not_preferred = 0


def count_cluster(broker: MonitoredBroker, counts: ClusterCounts) -> Iterator[None]:
    """Count the partitions of the cluster, with a step for each topic."""
    for topic in tuple(broker.metadata.topics.values()):
        counts.topics += 1
        for state in topic.partitions.values():
            counts.partitions += 1
            if state.leader == NO_LEADER:
                counts.offline += 1
            elif state.leader != state.replicas[0]:
                counts.not_preferred += 1
        yield


def controller_families(broker: MonitoredBroker, counts: ClusterCounts) -> Iterator[Family]:
    """Yield KafkaController: as in Kafka, a broker that is not the controller reports 0."""
    is_active = broker.control_plane.is_controller
    prefix = "kafka_controller_kafkacontroller_"
    yield gauge(
        f"{prefix}activecontrollercount",
        "1 if this broker is the controller.",
        Sample(int(is_active)),
    )
    for name, value, text in (
        ("offlinepartitionscount", counts.offline, "Partitions without a leader."),
        ("preferredreplicaimbalancecount", counts.not_preferred, "Led by another replica."),
        ("globaltopiccount", counts.topics, "Topics of the cluster."),
        ("globalpartitioncount", counts.partitions, "Partitions of the cluster."),
        ("activebrokercount", len(broker.metadata.brokers), "Brokers that are registered."),
    ):
        yield gauge(prefix + name, text, Sample(value if is_active else 0))
    elections = broker.metadata.elections
    yield counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Leaders elected outside the ISR, while this broker was the controller.",
        Sample(elections.unclean),
    )
    yield counter(
        "kafka_controller_controllerstats_leaderelectionrateandtimems_count",
        "Leader elections, while this broker was the controller.",
        Sample(elections.elections),
    )
    if is_active:
        brokers = broker.metadata.brokers.values()
        yield gauge("kafka_brokers", "Brokers of the cluster.", Sample(len(brokers)))
        yield gauge(
            "kafka_broker_info",
            "1 for each broker of the cluster.",
            *(Sample(1, {"id": str(each.id), "address": each.host}) for each in brokers),
        )
    yield gauge(
        "heliograph_zookeeper_connected",
        "1 while ZooKeeper answers.",
        Sample(int(broker.control_plane.is_connected)),
    )


def connection_families(broker: MonitoredBroker) -> Iterator[Family]:
    """Yield socket-server-metrics. A broker has one network processor, its event loop."""
    prefix = "kafka_server_socket_server_metrics_"
    at = {name: {"listener": name, "networkProcessor": "0"} for name in broker.listeners}
    counts = broker.listeners.items()
    yield gauge(
        f"{prefix}connection_count",
        "Open connections.",
        *(Sample(each.open_connections, at[name]) for name, each in counts),
    )
    yield counter(
        f"{prefix}connection_creation_total",
        "Connections that were accepted.",
        *(Sample(each.opened, at[name]) for name, each in counts),
    )
    yield counter(
        f"{prefix}connection_close_total",
        "Connections that ended.",
        *(Sample(each.closed, at[name]) for name, each in counts),
    )
    yield counter(
        f"{prefix}successful_authentication_total",
        "SASL authentications that succeeded.",
        *(Sample(each.authenticated, at[name]) for name, each in counts),
    )
    yield counter(
        f"{prefix}failed_authentication_total",
        "SASL authentications that failed.",
        *(Sample(each.refused, at[name]) for name, each in counts),
    )
    yield counter(
        "heliograph_limited_connections_total",
        "Connections that a limit refused.",
        *(
            Sample(count, {"listener": name, "limit": limit})
            for name, each in counts
            for limit, count in each.limited.items()
        ),
    )
    yield from memory_families(broker.request_memory)


def memory_families(memory: RequestMemory) -> Iterator[Family]:
    """Yield Kafka's metrics of queued.max.request.bytes; nothing of what is left without it."""
    if memory.bytes_max > 0:
        yield gauge(
            "kafka_network_socketserver_memorypoolavailable",
            "Bytes that requests may still take.",
            Sample(memory.available),
        )
    yield gauge(
        "kafka_network_socketserver_memorypoolused",
        "Bytes that requests take.",
        Sample(memory.used),
    )
    yield gauge(
        "heliograph_requests_waiting_for_memory",
        "Connections that wait for memory, and are not read.",
        Sample(memory.waiting),
    )
    yield counter(
        "kafka_server_socket_server_metrics_memorypooldepletedtime_total",
        "Milliseconds in which requests had to wait for memory.",
        Sample(memory.depleted_ns / 1e6),
    )


def certificate_families(broker: MonitoredBroker) -> Iterator[Family]:
    """Yield when certificates expire; nothing without TLS."""
    if broker.certificates:
        yield gauge(
            "heliograph_certificate_expiry_timestamp_seconds",
            "When the first certificate of the listener's chain expires.",
            *(
                Sample(each.expires_s, {"listener": name})
                for name, each in broker.certificates.items()
            ),
        )


def log_families(broker: MonitoredBroker) -> Iterator[Family]:
    """Yield LogManager, LogCleanerManager, and the state of the log directories."""
    store = broker.log_directories
    failed = [(each.path, int(store.failure(each) is not None)) for each in store.all]
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed.",
        Sample(sum(value for _, value in failed)),
    )
    yield gauge(
        "kafka_log_logmanager_logdirectoryoffline",
        "1 for a log directory that failed.",
        *samples("logDirectory", failed),
    )
    yield gauge(
        "heliograph_log_dir_full",
        "1 while a log directory has no space.",
        *samples("logDirectory", ((each.path, int(each.disk.is_full)) for each in store.live)),
    )
    yield gauge(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Logs that cannot be compacted for a while.",
        Sample(broker.log_cleaner.uncleanable_count(broker.clock.now_ms())),
    )
    yield counter(
        "heliograph_cold_reads_total",
        "Reads that were not in the page cache.",
        Sample(broker.cold_reads.loads),
    )


def throttle_families(throttle: ReplicationThrottle, now_ms: int) -> Iterator[Family]:
    """Yield the rates of throttled replication (KIP-73); `now_ms` is monotonic."""
    for side, of in (("leader", throttle.leader), ("follower", throttle.follower)):
        yield gauge(
            f"kafka_server_{side}replication_byte_rate",
            "Bytes per second of throttled replicas.",
            Sample(of.quota.rate(now_ms)),
        )
        yield gauge(
            f"heliograph_{side}_replication_throttled",
            "1 while the quota of throttled replicas is exceeded.",
            Sample(int(of.quota.is_exceeded(now_ms))),
        )


def count_transactions(broker: MonitoredBroker, states: Counter[str]) -> Iterator[None]:
    """Count the transactional ids of this coordinator by state, with a step for each."""
    _, transactions = broker.transactions.list_transactions()
    for each in transactions:
        states[each.state.value] += 1
        yield


def transaction_families(states: Counter[str]) -> Iterator[Family]:
    """Yield the transactional ids by state; a state without any has 0."""
    yield gauge(
        "heliograph_transactions",
        "Transactional ids that this broker coordinates, by state.",
        *samples("state", ((each.value, states[each.value]) for each in TransactionState)),
    )
