"""What a broker may ask of the control plane: topics, partitions, producer ids.

Guarantees: what a cancelled or timed out caller began is finished; a topic that two clients use at
once is created once; topics are created and deleted by the controller alone.

Not here: being a member of the cluster (cluster_member.py), decisions (fsm.py).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.active.active_controller import ActiveController
from local_cluster.controller.decisions.isr_requests import IsrProposal, IsrResult
from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.member import isr_messages, membership
from local_cluster.controller.member.auto_creation import AutoCreation
from local_cluster.controller.member.cluster_member import ClusterMember
from local_cluster.controller.member.config_writer import (
    ConfigPlan,
    write_broker_configs,
    write_topic_configs,
)
from local_cluster.controller.member.inter_broker import ControllerLine
from local_cluster.controller.member.request_work import RequestWork
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_image import PartitionState, ReplicaReport
from local_cluster.controller.model.cluster_state import Reassignment
from local_cluster.controller.model.delta_json import decode_reply, encode_hand_over
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicCreation, TopicSpec
from local_cluster.controller.zk.coordination import Coordination, CoordinationUnavailable, Create
from local_cluster.controller.zk.zk_shell import KazooCoordination
from local_cluster.network import ConnectToPeer, connect_to_peer
from local_cluster.settings import BrokerSettings
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

PUBLISH_WAIT_MS_MAX: Final = 1_000
"""How long an answer waits until the other brokers know of what was created."""
CONTROLLER_CALL_MS_MAX: Final = 10_000
HAND_OVER_RETRY_MS: Final = 200


class ControlPlane:
    """One per broker."""

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
        open_line: ConnectToPeer = connect_to_peer,
        report: Callable[[], ReplicaReport] = ReplicaReport,
    ) -> None:
        """`bound_ports` gives the port of listeners whose settings leave it open; `report` says
        what this broker's disks do not allow.

        The caller holds the lock of `settings.log_dirs[0]`: the session of this broker's former run
        is kept there and ended by `start`.
        """
        self._settings = settings
        self._clock = clock
        self._cache = cache
        self._new_uuid = new_uuid
        self._coordination: Coordination = coordination or KazooCoordination(
            settings.zookeeper_connect,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            session_directory=Path(settings.log_dirs[0]),
        )
        self._member = ClusterMember(
            settings,
            clock,
            cache,
            on_change,
            bound_ports=dict(bound_ports or {}),
            coordination=self._coordination,
            new_topic_id=self._new_topic_id,
            open_line=open_line,
            report=report,
        )
        self._controller_line = ControllerLine(cache, settings.inter_broker_listener, open_line)
        self._work = RequestWork()
        self._auto_creation = AutoCreation(
            settings, cache, self._member, self._work, self._create_topic
        )

    @property
    def is_controller(self) -> bool:
        return self._member.controller is not None

    @property
    def is_connected(self) -> bool:
        """Whether ZooKeeper answers, as far as is known."""
        return self._member.is_connected

    async def start(self) -> None:
        """Register and take part in the election; on return one is over.

        Raises CoordinationUnavailable, or KafkaError(duplicate_broker_registration).
        """
        await self._member.start()

    async def stop(self) -> None:
        """Leave the cluster: the registration and the controller's znode go at once."""
        await self._work.cancel()
        self._controller_line.close()
        await self._member.stop()

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Whether the condition, asked after every change of the cache, came true in time."""
        return await self._member.wait_until(condition, timeout_ms)

    async def wait_informed(self, timeout_ms: int) -> bool:
        """Whether this broker got an image of the cluster, itself in it, in time."""
        return await self._member.wait_informed(timeout_ms)

    def take_delta(self, payload: bytes) -> bytes:
        """Another broker's CLUSTER_DELTA: apply it; the reply's body."""
        return self._member.take_delta(payload)

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self, specs: Sequence[TopicSpec], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[TopicCreation]:
        """Create topics; one result per spec, in order.

        Raises KafkaError for all of them: not_controller, request_timed_out.
        """
        controller = self._require_controller()
        created = await self._work.finish(
            controller.create_topics(specs, validate_only=validate_only), timeout_ms
        )
        if not validate_only:
            await self._published(controller)
        return created

    async def delete_topics(
        self, names: Sequence[str], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        """Delete topics and wait until they are gone; request_timed_out where a broker that
        holds a replica is away: the deletion goes on when it is back.

        Raises KafkaError for all of them: not_controller, request_timed_out.
        """
        controller = self._require_controller()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        results = await self._work.finish(controller.delete_topics(names), timeout_ms)
        waited = {name for name, error in results.items() if error is None}
        left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        gone = await self._member.wait_until(
            lambda: waited.isdisjoint(controller.state.deletions), left_ms
        )
        if not gone:
            for name in waited & controller.state.deletions.keys():
                results[name] = KafkaError(
                    ErrorCode.request_timed_out,
                    "the topic is marked and will be deleted when every broker that holds a "
                    "replica is back",
                )
        await self._published(controller)
        return results

    async def create_partitions(
        self,
        specs: Sequence[PartitionsSpec],
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> dict[str, KafkaError | None]:
        """Add partitions. Raises KafkaError for all of them."""
        controller = self._require_controller()
        results = await self._work.finish(
            controller.create_partitions(specs, validate_only=validate_only), timeout_ms
        )
        if not validate_only:
            await self._published(controller)
        return results

    async def alter_topic_configs(
        self, name: str, plan: ConfigPlan, *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> None:
        """Change a topic's configs, on any broker, and wait until this one goes by them.

        Raises KafkaError: what `plan` raises, unknown_topic_or_partition, request_timed_out.
        """
        write = write_topic_configs(self._coordination, name, plan, validate_only=validate_only)
        wanted = await self._work.finish_write(write, timeout_ms)

        def applied() -> bool:
            topic = self._cache.topics.get(name)
            return topic is None or topic.configs == wanted

        if not validate_only:
            # It is written; a controller that is away takes it over later.
            await self._member.wait_until(applied, PUBLISH_WAIT_MS_MAX)

    async def alter_broker_configs(
        self,
        entity: str,
        plan: ConfigPlan,
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> None:
        """Change the dynamic configs of a broker, or of "<default>", as those of a topic.

        Raises KafkaError: what `plan` raises, request_timed_out.
        """
        write = write_broker_configs(self._coordination, entity, plan, validate_only=validate_only)
        wanted = await self._work.finish_write(write, timeout_ms)
        if not validate_only:
            await self._member.wait_until(
                lambda: self._cache.broker_configs.get(entity, {}) == wanted, PUBLISH_WAIT_MS_MAX
            )

    async def auto_create_topic(self, name: str) -> KafkaError | None:
        """Create a topic that a client used, through whichever broker controls.

        None when this broker knows the topic. Asked twice, it is created once.
        """
        return await self._auto_creation.create(name)

    async def _create_topic(self, spec: TopicSpec, timeout_ms: int) -> KafkaError | None:
        (created,) = await self.create_topics([spec], timeout_ms=timeout_ms)
        return created.error

    async def relieve(self, broker_id: int, broker_epoch: int) -> None:
        """As the controller: let others lead what a broker that shuts down leads.

        Raises KafkaError: not_controller, stale_broker_epoch, request_timed_out.
        """
        controller = self._require_controller()
        await self._work.finish(controller.relieve(broker_id, broker_epoch), CONTROLLER_CALL_MS_MAX)
        await self._published(controller)

    async def hand_over(self, timeout_ms: int) -> bool:
        """Before this broker stops: whether it leads nothing now that another could lead."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        left_ms = timeout_ms
        while left_ms > 0:
            try:
                await self._ask_to_be_relieved(left_ms)
                return await self._member.wait_until(
                    self._leads_nothing, deadline_ms - self._clock.monotonic_ms()
                )
            except KafkaError as error:
                log.info("the controller does not relieve this broker yet: %s", error)
            # Most likely the controller is stopping as well, and another is being elected.
            await asyncio.sleep(HAND_OVER_RETRY_MS / 1000)
            left_ms = deadline_ms - self._clock.monotonic_ms()
        return False

    async def _ask_to_be_relieved(self, timeout_ms: int) -> None:
        broker_id, broker_epoch = self._settings.broker_id, self._cache.broker_epoch
        if self._member.controller is not None:
            await self.relieve(broker_id, broker_epoch)
            return
        frame, position = await self._controller_line.call(
            ApiKey.HAND_OVER, 0, encode_hand_over(broker_id, broker_epoch), timeout_ms
        )
        reply = decode_reply(bytes(frame[position:]))
        if reply.error_code != ErrorCode.none:
            raise KafkaError(reply.error_code, reply.message)

    async def announce_replicas(self) -> None:
        """Have the controller, whoever it is, ask what of the replicas here is offline.

        Raises CoordinationUnavailable, or CommitConflict where the cluster has no such path.
        """
        payload = znodes.encode_log_dir_event(self._settings.broker_id)
        await self._coordination.commit(
            (Create(znodes.LOG_DIR_EVENT_PREFIX, payload, sequential=True),)
        )

    def _leads_nothing(self) -> bool:
        broker_id = self._settings.broker_id
        return not any(
            state.leader == broker_id and len(state.isr) > 1
            for topic in self._cache.topics.values()
            for state in topic.partitions.values()
        )

    async def alter_reassignments(
        self,
        requests: Sequence[ReassignmentRequest],
        *,
        may_change_factor: bool,
        timeout_ms: int,
    ) -> dict[tuple[str, int], KafkaError | None]:
        """Begin or cancel moves of replicas; one result per request. Raises KafkaError."""
        controller = self._require_controller()
        results = await self._work.finish(
            controller.alter_reassignments(requests, may_change_factor=may_change_factor),
            timeout_ms,
        )
        await self._published(controller)
        return results

    def reassignments(self) -> Mapping[tuple[str, int], tuple[PartitionState, Reassignment]]:
        """Moves that are under way, as the controller knows. Raises KafkaError."""
        state = self._require_controller().state
        return {
            (name, index): (state.topics[name].partitions[index], moving)
            for (name, index), moving in state.reassigning.items()
        }

    async def elect_leaders(
        self, partitions: Sequence[tuple[str, int]], *, unclean: bool, timeout_ms: int
    ) -> dict[tuple[str, int], KafkaError | None]:
        """Elections that somebody asks for; one result per partition. Raises KafkaError."""
        controller = self._require_controller()
        results = await self._work.finish(controller.elect_leaders(partitions, unclean), timeout_ms)
        await self._published(controller)
        return results

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrResult]:
        """Write the ISR that a leader proposes, as the controller. Raises KafkaError."""
        controller = self._require_controller()
        return await self._work.finish(
            controller.alter_partitions(broker_id, broker_epoch, proposals), CONTROLLER_CALL_MS_MAX
        )

    async def propose_isr(
        self,
        proposals: Sequence[IsrProposal],
        replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
    ) -> list[IsrResult]:
        """Ask whichever broker controls; one result per proposal, those of a topic adjacent.

        Raises KafkaError where the outcome is not known: the proposals may yet be written.
        """
        broker_id, broker_epoch = self._settings.broker_id, self._cache.broker_epoch
        if self._member.controller is not None:
            return await self.alter_partitions(broker_id, broker_epoch, proposals)
        fields = isr_messages.request_fields(broker_id, broker_epoch, proposals)
        version = isr_messages.VERSION
        body = messages.encode_request(ApiKey.ALTER_PARTITION, version, fields)
        frame, position = await self._controller_line.call(
            ApiKey.ALTER_PARTITION, version, body, CONTROLLER_CALL_MS_MAX
        )
        response = messages.decode_response(ApiKey.ALTER_PARTITION, version, frame, position)
        return isr_messages.read_response(response, proposals, replicas)

    async def allocate_producer_ids(self) -> range:
        """Reserve the next block of producer ids, from any broker. Raises KafkaError."""
        try:
            return await membership.reserve_producer_ids(
                self._coordination, self._settings.broker_id
            )
        except CoordinationUnavailable as error:
            raise KafkaError(
                ErrorCode.coordinator_not_available, f"ZooKeeper does not answer: {error}"
            ) from error

    # -- work -------------------------------------------------------------------------------

    def _require_controller(self) -> ActiveController:
        if self._member.controller is None:
            raise KafkaError(
                ErrorCode.not_controller, f"the controller is {self._cache.controller_id}"
            )
        return self._member.controller

    async def _published(self, controller: ActiveController) -> None:
        """Give the other brokers a moment to hear of it before the client does."""
        if self._member.publisher is not None:
            await self._member.publisher.wait_acknowledged(controller.sequence, PUBLISH_WAIT_MS_MAX)

    def _new_topic_id(self) -> uuid.UUID:
        """A random id whose text starts with no dash: it would look like a tool's option."""
        while True:
            candidate = self._new_uuid()
            if not znodes.encode_uuid(candidate).startswith("-"):
                return candidate
