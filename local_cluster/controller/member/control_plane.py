"""The front of the control plane: what handlers and the other parts of the broker call.

Guarantees: work continues when its caller is cancelled or times out. A topic that two clients use
at once is created once. Only the controller creates and deletes topics.

Not here: membership (cluster_member.py), decisions (decisions/fsm.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.active.active_controller import ActiveController
from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.member.auto_creation import AutoCreation
from local_cluster.controller.member.cluster_member import ClusterMember
from local_cluster.controller.member.config_changes import ConfigChanges
from local_cluster.controller.member.controlled_shutdown import ControlledShutdown
from local_cluster.controller.member.inter_broker import ControllerConnection
from local_cluster.controller.member.metadata_updates import PUBLISH_WAIT_MS_MAX
from local_cluster.controller.member.producer_ids import reserve_producer_ids
from local_cluster.controller.member.request_tasks import RequestTasks
from local_cluster.controller.model import (
    broker_znodes,
    znode_json,
    znode_paths,
)
from local_cluster.controller.model.cluster_image import PartitionState, ReplicaReport
from local_cluster.controller.model.cluster_state import Reassignment
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model.topic_requests import (
    ChargePartitions,
    PartitionsSpec,
    TopicCreation,
    TopicSpec,
    free_of_charge,
)
from local_cluster.controller.zk.coordination import Coordination, Create, ZnodeFollower
from local_cluster.controller.zk.kazoo_coordination import KazooCoordination
from local_cluster.network import ConnectToPeer, connect_to_peer
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

CONTROLLER_CALL_MS_MAX: Final = 10_000


class ControlPlane:
    """The control plane of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        cache: MetadataCache,
        on_change: Callable[[Changes], None],
        *,
        bound_ports: Mapping[str, int] | None = None,
        coordination: Coordination | None = None,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
        connect: ConnectToPeer = connect_to_peer,
        report: Callable[[], ReplicaReport] = ReplicaReport,
    ) -> None:
        """`bound_ports` has the ports of listeners whose settings leave them open. `report` returns
        the offline replicas of this broker.

        The caller holds the lock of `settings.log_dirs[0]`. The session of this broker's former
        process is kept there, and `start` ends it.
        """
        self._settings = settings
        self._clock = clock
        self._cache = cache
        self._new_uuid = new_uuid
        self._coordination: Coordination = coordination or KazooCoordination(
            settings.zookeeper_connect,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            session_directory=Path(settings.log_dirs[0]),
            security=settings.zookeeper_security,
            sets_acl=settings.sets_znode_acls,
        )
        self._member = ClusterMember(
            settings,
            clock,
            cache,
            on_change,
            bound_ports=dict(bound_ports or {}),
            coordination=self._coordination,
            new_topic_id=self._new_topic_id,
            connect=connect,
            report=report,
        )
        self._connection = ControllerConnection(cache, settings.inter_broker_listener, connect)
        self._shutdown = ControlledShutdown(
            settings,
            clock,
            cache,
            self._member,
            self._connection,
            shut_down_here=self.controlled_shutdown,
        )
        self._tasks = RequestTasks()
        self.configs = ConfigChanges(self._coordination, cache, self._tasks, self._member.updates)
        self._auto_creation = AutoCreation(
            settings, cache, self._member, self._tasks, self._create_topic, connect
        )

    @property
    def is_controller(self) -> bool:
        return self._member.controller is not None

    @property
    def is_connected(self) -> bool:
        """Whether ZooKeeper answers, as far as is known."""
        return self._member.is_connected

    @property
    def coordination(self) -> Coordination:
        """ZooKeeper, for parts of the broker that keep znodes of their own."""
        return self._coordination

    def follow_znodes(self, follower: ZnodeFollower) -> None:
        """Tell a part of the broker of every watch and session event."""
        self._member.followers.append(follower)

    async def start(self) -> None:
        """Register and take part in the election; an election is over on return.

        Raises CoordinationUnavailable, or KafkaError(duplicate_broker_registration).
        """
        await self._member.start()

    async def stop(self) -> None:
        """Leave the cluster: the registration and the controller's znode go at once."""
        await self._tasks.cancel()
        self._connection.close()
        await self._member.stop()

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Return whether the condition, checked after every change, came true in time."""
        return await self._member.updates.wait_until(condition, timeout_ms)

    async def wait_informed(self, timeout_ms: int) -> bool:
        """Return whether this broker got, in time, an image that names it."""
        return await self._member.wait_informed(timeout_ms)

    def take_delta(self, payload: bytes) -> bytes:
        """Apply another broker's CLUSTER_DELTA; return the body of the response."""
        return self._member.updates.apply_delta(payload)

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self,
        specs: Sequence[TopicSpec],
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
        charge: ChargePartitions = free_of_charge,
    ) -> list[TopicCreation]:
        """Create topics; return one result per spec, in order. `charge` counts the valid ones.

        Raises KafkaError for all of them: not_controller, request_timed_out.
        """
        controller = self._require_controller()
        created = await self._tasks.run(
            controller.create_topics(specs, validate_only=validate_only, charge=charge), timeout_ms
        )
        if not validate_only:
            await self._published(controller)
        return created

    async def delete_topics(
        self,
        names: Sequence[str],
        *,
        timeout_ms: int = 30_000,
        charge: ChargePartitions = free_of_charge,
    ) -> dict[str, KafkaError | None]:
        """Delete topics and wait until they are purged; return one result per name.

        request_timed_out if a broker that holds a replica is away: the deletion continues when it
        is back. Raises KafkaError for all of them: not_controller, request_timed_out.
        """
        controller = self._require_controller()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        results = await self._tasks.run(controller.delete_topics(names, charge=charge), timeout_ms)
        waited = {name for name, error in results.items() if error is None}
        left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        gone = await self._member.updates.wait_until(
            lambda: waited.isdisjoint(controller.state.deletions), left_ms
        )
        if not gone:
            for name in waited & controller.state.deletions.keys():
                results[name] = KafkaError(
                    ErrorCode.request_timed_out,
                    "the topic is marked; it is deleted when every broker that holds a replica "
                    "is back",
                )
        await self._published(controller)
        return results

    async def create_partitions(
        self,
        specs: Sequence[PartitionsSpec],
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
        charge: ChargePartitions = free_of_charge,
    ) -> dict[str, KafkaError | None]:
        """Add partitions; return one result per topic. Raises KafkaError for all of them."""
        controller = self._require_controller()
        results = await self._tasks.run(
            controller.create_partitions(specs, validate_only=validate_only, charge=charge),
            timeout_ms,
        )
        if not validate_only:
            await self._published(controller)
        return results

    async def auto_create_topic(self, name: str) -> KafkaError | None:
        """Create a topic that a client used, through the controller.

        Return None once this broker knows the topic. Concurrent calls for one topic create it once.
        """
        return await self._auto_creation.create(name)

    async def _create_topic(self, spec: TopicSpec, timeout_ms: int) -> KafkaError | None:
        (created,) = await self.create_topics([spec], timeout_ms=timeout_ms)
        return created.error

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> None:
        """As the controller: move leadership off a broker that shuts down.

        Raises KafkaError: not_controller, stale_broker_epoch, request_timed_out.
        """
        controller = self._require_controller()
        await self._tasks.run(
            controller.controlled_shutdown(broker_id, broker_epoch), CONTROLLER_CALL_MS_MAX
        )
        await self._published(controller)

    async def request_controlled_shutdown(self, timeout_ms: int) -> bool:
        """Before this broker stops: have its leadership moved.

        Return whether it leads, in time, nothing that another replica could lead.
        """
        return await self._shutdown.request(timeout_ms)

    async def announce_replicas(self) -> None:
        """Have the controller ask every broker for its offline replicas.

        Raises CoordinationUnavailable, or CommitConflict if the cluster has no such path.
        """
        payload = broker_znodes.encode_log_dir_event(self._settings.broker_id)
        await self._coordination.commit(
            (Create(znode_paths.LOG_DIR_EVENT_PREFIX, payload, sequential=True),)
        )

    async def alter_reassignments(
        self,
        requests: Sequence[ReassignmentRequest],
        *,
        may_change_factor: bool,
        timeout_ms: int,
    ) -> dict[tuple[str, int], KafkaError | None]:
        """Start or cancel reassignments; return one result per request. Raises KafkaError."""
        controller = self._require_controller()
        results = await self._tasks.run(
            controller.alter_reassignments(requests, may_change_factor=may_change_factor),
            timeout_ms,
        )
        await self._published(controller)
        return results

    def reassignments(self) -> Mapping[tuple[str, int], tuple[PartitionState, Reassignment]]:
        """Return the reassignments in progress, as the controller. Raises KafkaError."""
        state = self._require_controller().state
        return {
            (name, index): (state.topics[name].partitions[index], reassignment)
            for (name, index), reassignment in state.reassigning.items()
        }

    async def elect_leaders(
        self, partitions: Sequence[tuple[str, int]], *, unclean: bool, timeout_ms: int
    ) -> dict[tuple[str, int], KafkaError | None]:
        """Hold requested elections; return one result per partition. Raises KafkaError."""
        controller = self._require_controller()
        results = await self._tasks.run(controller.elect_leaders(partitions, unclean), timeout_ms)
        await self._published(controller)
        return results

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrResult]:
        """As the controller: write the ISRs that a leader proposes. Raises KafkaError."""
        controller = self._require_controller()
        return await self._tasks.run(
            controller.alter_partitions(broker_id, broker_epoch, proposals), CONTROLLER_CALL_MS_MAX
        )

    async def propose_isr(
        self,
        proposals: Sequence[IsrProposal],
        replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
    ) -> list[IsrResult]:
        """Propose ISRs to the controller; return one result per proposal.

        Proposals of one topic must be adjacent. Raises KafkaError if the outcome is unknown: the
        controller may still write the proposals.
        """
        broker_id, broker_epoch = self._settings.broker_id, self._cache.broker_epoch
        if self._member.controller is not None:
            return await self.alter_partitions(broker_id, broker_epoch, proposals)
        return await self._connection.alter_partitions(
            broker_id, broker_epoch, proposals, replicas, CONTROLLER_CALL_MS_MAX
        )

    async def allocate_producer_ids(self) -> range:
        """Reserve the next block of producer ids, from any broker. Raises KafkaError."""
        return await reserve_producer_ids(self._coordination, self._settings.broker_id)

    # -- internal ---------------------------------------------------------------------------

    def _require_controller(self) -> ActiveController:
        if self._member.controller is None:
            raise KafkaError(
                ErrorCode.not_controller, f"the controller is {self._cache.controller_id}"
            )
        return self._member.controller

    async def _published(self, controller: ActiveController) -> None:
        """Give the other brokers a moment to apply a change before its response is sent."""
        if self._member.role.publisher is not None:
            await self._member.role.publisher.wait_acknowledged(
                controller.sequence, PUBLISH_WAIT_MS_MAX
            )

    def _new_topic_id(self) -> uuid.UUID:
        """Return a random id whose text has no leading dash: tools would take it for an option."""
        while True:
            candidate = self._new_uuid()
            if not znode_json.encode_uuid(candidate).startswith("-"):
                return candidate
