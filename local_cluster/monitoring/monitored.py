"""The parts of a running broker that metrics are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from local_cluster.client_metrics.receiver import ClientMetrics
from local_cluster.clock import Clock
from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.counters.listener import ListenerCounters
from local_cluster.counters.requests import RequestMeters
from local_cluster.fetch_sessions.session_cache import FetchSessionCache
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.replication.isr_proposer import IsrProposer
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.server.broker_rights import BrokerRights
from local_cluster.server.log_cleaner import LogCleaner
from local_cluster.settings import BrokerSettings
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.wire.request_memory import RequestMemory

if TYPE_CHECKING:
    from local_cluster.security.authentication.tls_contexts import TlsContexts


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredBroker:
    """Read only, and only on the event loop."""

    settings: BrokerSettings
    clock: Clock
    metadata: MetadataCache
    control_plane: ControlPlane
    replicas: ReplicaSet
    log_directories: LogStore
    log_cleaner: LogCleaner
    isr_proposer: IsrProposer
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    fetch_sessions: FetchSessionCache
    cold_reads: ColdReads
    rights: BrokerRights
    meters: RequestMeters
    listeners: Mapping[str, ListenerCounters]
    """By name of the listener."""
    request_memory: RequestMemory
    certificates: Mapping[str, TlsContexts]
    """By name of the listener, if it has TLS."""
    quotas: ClientQuotas
    client_metrics: ClientMetrics
