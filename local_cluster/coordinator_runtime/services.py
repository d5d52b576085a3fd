"""The part of the broker that a coordinator uses. The running broker fits it as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from local_cluster.clock import Clock
    from local_cluster.controller.model.metadata_cache import MetadataCache
    from local_cluster.replication.replica_set import ReplicaSet
    from local_cluster.settings import BrokerSettings
    from local_cluster.wire.errors import KafkaError


class TopicCreator(Protocol):
    """Creates the internal topics."""

    async def auto_create_topic(self, name: str) -> KafkaError | None:
        """Create the topic; None when this broker knows it."""
        ...


class CoordinatorServices(Protocol):
    """What both coordinators use."""

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
