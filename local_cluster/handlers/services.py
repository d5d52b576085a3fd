"""What a handler gets besides its request: the request's context, and the broker's services.

`BrokerServices` is a Protocol, so that tests can pass a small double.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from local_cluster.client_metrics.receiver import ClientMetrics
    from local_cluster.clock import Clock
    from local_cluster.controller.member.control_plane import ControlPlane
    from local_cluster.controller.member.current_configs import CurrentConfigs
    from local_cluster.controller.model.encoded_topics import EncodedTopics
    from local_cluster.controller.model.metadata_cache import MetadataCache
    from local_cluster.fetch_sessions.follower_sessions import FollowerSessions
    from local_cluster.fetch_sessions.session_cache import FetchSessionCache
    from local_cluster.groups.coordinator import GroupCoordinator
    from local_cluster.log.directory.log_store import LogStore
    from local_cluster.log.disk.cold_reads import ColdReads
    from local_cluster.quotas.client_quotas import ClientQuotas
    from local_cluster.quotas.quota_store import QuotaStore
    from local_cluster.replication.log_dir_moves import LogDirMoves
    from local_cluster.replication.replica_set import ReplicaSet
    from local_cluster.security.authentication.user_store import UserStore
    from local_cluster.security.authorization.acl_store import AclStore
    from local_cluster.security.authorization.credential_access import CredentialAccess
    from local_cluster.security.authorization.mirror_producers import MirrorProducers
    from local_cluster.settings import BrokerSettings
    from local_cluster.transactions.coordinator import TransactionCoordinator
    from local_cluster.transactions.producer_ids import ProducerIds


class RequestContext(NamedTuple):
    """The client of a request, its connection, and the API version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    principal: str
    listener: str
    client_host: str
    connection_id: int
    request_bytes: int = 0
    """Of the header and the body, which a quota counts."""


class BrokerServices(Protocol):
    """The running broker, as its handlers see it."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def configs(self) -> CurrentConfigs:
        """The broker configs in use: dynamic ones, else those of the settings."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def control_plane(self) -> ControlPlane: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def encoded_topics(self) -> EncodedTopics: ...

    @property
    def replicas(self) -> ReplicaSet: ...

    @property
    def log_directories(self) -> LogStore: ...

    @property
    def log_dir_moves(self) -> LogDirMoves: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def cold_reads(self) -> ColdReads: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def follower_sessions(self) -> FollowerSessions: ...

    @property
    def client_metrics(self) -> ClientMetrics:
        """The receiver of the metrics that clients push."""
        ...

    @property
    def scram_users(self) -> UserStore:
        """The SCRAM users in ZooKeeper."""
        ...

    @property
    def quotas(self) -> ClientQuotas:
        """The quotas that this broker applies to its clients."""
        ...

    @property
    def quota_store(self) -> QuotaStore:
        """All quotas in ZooKeeper."""
        ...

    async def checkpoint(self, partitions: Collection[tuple[str, int]]) -> None:
        """Write the offset checkpoints of these partitions to disk. Raises OSError."""
        ...

    @property
    def acls(self) -> AclStore | None:
        """The ACLs; None without an authorizer."""
        ...

    @property
    def credential_access(self) -> CredentialAccess | None:
        """The rules on stored SCRAM credentials; None without an authorizer."""
        ...

    @property
    def mirror_producers(self) -> MirrorProducers | None:
        """The producer ids that only mirrors may write with; None if none is reserved."""
        ...

    @property
    def rights_version(self) -> int:
        """Grows when ACLs change. A response that waited since an earlier one checks again."""
        ...

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, name: str
    ) -> bool:
        """Return whether the principal may do `operation` (Kafka's name) on the resource.

        A denial is logged and counted.
        """
        ...

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        """Return whether the principal may do this on at least one resource of the type."""
        ...

    def holds(self, context: RequestContext, operation: str, resource_type: str, name: str) -> bool:
        """Return whether the principal has this right, which stands for another one.

        Without it ask `authorize` for the other. Nothing is noted, also not in a dry run.
        """
        ...

    def holds_for_topic(self, context: RequestContext, operation: str, topic: str) -> bool:
        """Return whether a right on the cluster stands for the same one on this topic.

        Without it ask `authorize` for the topic. Nothing is noted, also not in a dry run.
        """
        ...

    def may(self, context: RequestContext, operation: str, resource_type: str, name: str) -> bool:
        """Return the same as `authorize` without noting a denial, for lists of what is allowed."""
        ...
