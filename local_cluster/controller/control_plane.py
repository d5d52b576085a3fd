"""SHELL: this broker's part in the control plane: member, perhaps controller, always informed.

    start() -> layout, cluster id, registration, election -> follow
    follow: a session event or a change of /controller -> look again at all of it (`_settle`)
    session LOST -> resign at once; the new session registers and takes part in the election

Guarantees: `on_change` is called after every change of the metadata cache, on the loop; a broker
whose session ended controls nothing any more; what a cancelled caller began is finished.

Not here: decisions (fsm.py), what the controller does (active_controller.py).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from local_cluster.clock import Clock
from local_cluster.controller import membership, znodes
from local_cluster.controller.active_controller import ActiveController
from local_cluster.controller.controller_client import create_topics_at
from local_cluster.controller.coordination import (
    Coordination,
    CoordinationUnavailable,
    SessionState,
)
from local_cluster.controller.delta_json import decode_delta, encode_reply
from local_cluster.controller.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model import NO_CONTROLLER, ClusterImage, difference
from local_cluster.controller.publisher import Publisher
from local_cluster.controller.term import Fenced, Term
from local_cluster.controller.topic_requests import (
    PartitionsSpec,
    TopicCreation,
    TopicSpec,
    auto_topic_spec,
    topic_name_problem,
)
from local_cluster.controller.zk_shell import KazooCoordination
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 100
PUBLISH_WAIT_MS_MAX: Final = 1_000
"""How long an answer waits until the other brokers know of what was created."""
AUTO_CREATE_TIMEOUT_MS: Final = 5_000

Result = TypeVar("Result")


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
    ) -> None:
        """`bound_ports` gives the port of listeners whose settings leave it open.

        The caller holds the lock of `settings.log_dir`: the session of this broker's former run
        is kept there and ended by `start`.
        """
        self._settings = settings
        self._clock = clock
        self._cache = cache
        self._on_change = on_change
        self._bound_ports = dict(bound_ports or {})
        self._new_uuid = new_uuid
        self._coordination: Coordination = coordination or KazooCoordination(
            settings.zookeeper_connect,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            session_directory=Path(settings.log_dir),
        )
        self._registered_session = 0
        self._controller: ActiveController | None = None
        self._publisher: Publisher | None = None
        self._term_task: asyncio.Task[None] | None = None
        self._follow_task: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[Any]] = set()
        self._look_again = asyncio.Event()
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._auto_creations: dict[str, asyncio.Task[KafkaError | None]] = {}

    @property
    def is_controller(self) -> bool:
        return self._controller is not None

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register and take part in the election; on return one is over.

        Raises CoordinationUnavailable, or KafkaError(duplicate_broker_registration).
        """
        self._coordination.subscribe(self._path_changed, self._session_changed)
        await self._coordination.start()
        await self._settle()
        self._follow_task = asyncio.create_task(self._follow(), name="cluster membership")

    async def stop(self) -> None:
        """Leave the cluster: the registration and the controller's znode go at once."""
        if self._follow_task is not None:
            self._follow_task.cancel()
            await asyncio.gather(self._follow_task, return_exceptions=True)
        await self._resign()
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        for _, future in self._waiters:
            future.cancel()
        await self._coordination.stop()

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Whether the condition, asked after every change of the cache, came true in time."""
        if condition():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiters.append(entry)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiters.remove(entry)
        return True

    async def wait_informed(self, timeout_ms: int) -> bool:
        """Whether this broker got an image of the cluster, itself in it, in time."""
        return await self.wait_until(
            lambda: self._settings.broker_id in self._cache.brokers, timeout_ms
        )

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self, specs: Sequence[TopicSpec], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[TopicCreation]:
        """Create topics; one result per spec, in order.

        Raises KafkaError for all of them: not_controller, request_timed_out.
        """
        controller = self._require_controller()
        created = await self._finish(
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
        results = await self._finish(controller.delete_topics(names), timeout_ms)
        waited = {name for name, error in results.items() if error is None}
        left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        gone = await self.wait_until(lambda: waited.isdisjoint(controller.state.deletions), left_ms)
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
        results = await self._finish(
            controller.create_partitions(specs, validate_only=validate_only), timeout_ms
        )
        if not validate_only:
            await self._published(controller)
        return results

    async def auto_create_topic(self, name: str) -> KafkaError | None:
        """Create a topic that a client used, through whichever broker controls.

        None when this broker knows the topic. Asked twice, it is created once.
        """
        problem = topic_name_problem(name)
        if problem is not None:
            return KafkaError(ErrorCode.invalid_topic_exception, problem)
        creation = self._auto_creations.get(name)
        if creation is None:
            creation = self._own(self._auto_create(name))
            self._auto_creations[name] = creation
            creation.add_done_callback(lambda _: self._auto_creations.pop(name))
        return await asyncio.shield(creation)

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

    def take_delta(self, payload: bytes) -> bytes:
        """Another broker's CLUSTER_DELTA: apply it; the reply's body."""
        try:
            delta = decode_delta(payload)
            changes = self._cache.apply(delta)
        except ValueError as error:
            return encode_reply(ErrorCode.invalid_request, str(error))
        except KafkaError as error:
            return encode_reply(error.code, error.message)
        if self._controller is not None and (
            delta.controller_epoch > self._controller.term.controller_epoch
        ):
            log.warning("broker %d controls now", delta.controller_id)
            self._look_again.set()
        self._tell(changes)
        return encode_reply(ErrorCode.none)

    # -- membership -------------------------------------------------------------------------

    def _path_changed(self, path: str | None) -> None:
        if path is None or path == znodes.CONTROLLER:
            self._look_again.set()
        if self._controller is not None and path != znodes.CONTROLLER:
            self._controller.touch(path)

    def _session_changed(self, state: SessionState) -> None:
        log.info("ZooKeeper session: %s", state.value)
        if state is SessionState.LOST:
            self._registered_session = 0
            self._end_term()
        if state is SessionState.CONNECTED:
            self._look_again.set()
            if self._controller is not None:
                self._controller.touch(None)

    async def _follow(self) -> None:
        while True:
            await self._look_again.wait()
            self._look_again.clear()
            try:
                await self._settle()
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper does not answer: %s", error)
                self._look_again.set()
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Exception:
                # The outermost shell of membership: without it the broker would be dead wood.
                log.exception("taking part in the cluster failed")
                self._look_again.set()
                await asyncio.sleep(RETRY_DELAY_MS / 1000)

    async def _settle(self) -> None:
        """Be registered, know the controller, and be it where nobody else is."""
        session_id = self._coordination.session_id
        if self._registered_session != session_id:
            await self._resign()
            await self._join()
            self._registered_session = session_id
        broker_id = self._settings.broker_id
        controller_id, term = await membership.elect(self._coordination, broker_id, self._clock)
        if term is None or self._controller is None or self._controller.term != term:
            await self._resign()
        self._tell(self._cache.observe_controller(controller_id))
        if term is not None and self._controller is None:
            await self._begin_term(term)

    async def _join(self) -> None:
        await membership.ensure_layout(self._coordination)
        self._cache.cluster_id = await membership.ensure_cluster_id(
            self._coordination, znodes.encode_uuid(self._topic_id())
        )
        payload = membership.registration_payload(
            self._settings, self._bound_ports, self._clock.now_ms()
        )
        self._cache.broker_epoch = await membership.register(
            self._coordination, self._settings, payload, self._clock
        )

    async def _begin_term(self, term: Term) -> None:
        await membership.ensure_feature(self._coordination, term)
        publisher = Publisher(
            broker_id=self._settings.broker_id,
            listener=self._settings.inter_broker_listener,
            apply_here=self._apply_here,
            acknowledged=self._acknowledged,
        )
        controller = ActiveController(
            self._coordination,
            self._settings,
            term,
            publish=publisher.publish,
            fenced=self._end_term,
            new_uuid=self._topic_id,
        )
        self._publisher = publisher
        self._controller = controller
        try:
            await controller.load()
        except Fenced:
            await self._resign()
            self._look_again.set()
            return
        except CoordinationUnavailable:
            await self._resign()
            raise
        if self._controller is controller:
            self._term_task = asyncio.create_task(controller.run(), name="controller")

    def _end_term(self) -> None:
        """Control nothing from here on; `_settle` clears up."""
        if self._controller is not None:
            log.warning("controller epoch %d is over here", self._controller.term.controller_epoch)
        self._controller = None
        self._look_again.set()

    async def _resign(self) -> None:
        self._controller = None
        task, self._term_task = self._term_task, None
        publisher, self._publisher = self._publisher, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if publisher is not None:
            await publisher.close()

    # -- images -----------------------------------------------------------------------------

    def _apply_here(self, image: ClusterImage) -> None:
        # A full delta: it is compared with what the cache has, so nothing is done twice.
        delta = difference(None, image, self._cache.broker_epoch)
        try:
            changes = self._cache.apply(delta)
        except KafkaError as error:
            log.warning("this broker refuses its own image: %s", error)
            return
        self._tell(changes)

    def _acknowledged(self, broker_id: int, image: ClusterImage) -> None:
        if self._controller is not None and image.deletions:
            self._controller.replicas_deleted(broker_id, tuple(image.deletions.values()))

    def _tell(self, changes: Changes) -> None:
        if changes:
            self._on_change(changes)
        for condition, future in tuple(self._waiters):
            if not future.done() and condition():
                future.set_result(None)

    # -- work -------------------------------------------------------------------------------

    def _require_controller(self) -> ActiveController:
        if self._controller is None:
            raise KafkaError(
                ErrorCode.not_controller, f"the controller is {self._cache.controller_id}"
            )
        return self._controller

    async def _published(self, controller: ActiveController) -> None:
        """Give the other brokers a moment to hear of it before the client does."""
        if self._publisher is not None:
            await self._publisher.wait_acknowledged(controller.sequence, PUBLISH_WAIT_MS_MAX)

    async def _finish(self, work: Coroutine[Any, Any, Result], timeout_ms: int) -> Result:
        """Wait for the work; it goes on when the caller's time or connection ends."""
        task = self._own(work)
        try:
            async with asyncio.timeout(max(timeout_ms, 1) / 1000):
                return await asyncio.shield(task)
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out, "the request goes on") from None

    def _own(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work_done)
        return task

    def _work_done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, KafkaError):
            log.error("work for a request failed", exc_info=error)

    async def _auto_create(self, name: str) -> KafkaError | None:
        spec = auto_topic_spec(name, self._settings)
        try:
            error = await self._create_anywhere(spec)
        except KafkaError as refusal:
            error = refusal
        if error is not None and error.code != ErrorCode.topic_already_exists:
            return error
        if await self.wait_until(lambda: name in self._cache.topics, AUTO_CREATE_TIMEOUT_MS):
            return None
        return KafkaError(ErrorCode.leader_not_available, f"topic '{name}' is being created")

    async def _create_anywhere(self, spec: TopicSpec) -> KafkaError | None:
        if self._controller is not None:
            (created,) = await self.create_topics([spec], timeout_ms=AUTO_CREATE_TIMEOUT_MS)
            return created.error
        controller = self._cache.brokers.get(self._cache.controller_id)
        if self._cache.controller_id == NO_CONTROLLER or controller is None:
            return KafkaError(ErrorCode.leader_not_available, "no controller is known")
        return await create_topics_at(
            controller, self._settings.inter_broker_listener, spec, AUTO_CREATE_TIMEOUT_MS
        )

    def _topic_id(self) -> uuid.UUID:
        """A random id whose text starts with no dash: it would look like a tool's option."""
        while True:
            candidate = self._new_uuid()
            if not znodes.encode_uuid(candidate).startswith("-"):
                return candidate
