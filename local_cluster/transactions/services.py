"""The part of the broker that the transaction coordinator uses. The running broker fits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from local_cluster.clock import Clock
    from local_cluster.controller.model.metadata_cache import MetadataCache
    from local_cluster.coordinator_runtime.services import TopicCreator
    from local_cluster.records.control import EndMarker
    from local_cluster.replication.replica_set import ReplicaSet
    from local_cluster.settings import BrokerSettings
    from local_cluster.transactions.producer_ids import ProducerIds


class OffsetMarkers(Protocol):
    """Writes markers to the partitions of `__consumer_offsets` that this broker leads."""

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Write a marker; the future is done when it is committed."""
        ...


class TransactionServices(Protocol):
    """`CoordinatorServices`, and what only transactions need."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def control_plane(self) -> TopicCreator: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def replicas(self) -> ReplicaSet: ...

    @property
    def groups(self) -> OffsetMarkers: ...

    @property
    def producer_ids(self) -> ProducerIds: ...
