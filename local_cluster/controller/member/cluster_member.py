"""SHELL: this broker as a member of its cluster: registered, perhaps controller, informed.

    start() -> layout, cluster id, registration, election -> follow
    follow: a session event or a change of /controller -> look again at all of it (`_settle`)
    session LOST -> resign at once; the new session registers and takes part in the election

Guarantees: `on_change` is called after every change of the metadata cache, on the loop; a broker
whose session ended controls nothing any more; one where a part fails over a change takes part, and
controls, all the same, and that part is told again.

Not here: requests (control_plane.py), what a controller does (active_controller.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.active.active_controller import ActiveController
from local_cluster.controller.active.cluster_events import EVERYTHING
from local_cluster.controller.active.publisher import Publisher
from local_cluster.controller.member import membership
from local_cluster.controller.member.controller_watch import ControllerWatch
from local_cluster.controller.member.inter_broker import open_broker_line
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    ReplicaReport,
    difference,
)
from local_cluster.controller.model.delta_json import decode_delta, encode_reply
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.zk.coordination import (
    Coordination,
    CoordinationUnavailable,
    SessionState,
)
from local_cluster.controller.zk.term import Fenced, Term
from local_cluster.network import ConnectToPeer
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 100
UNTAKEN_DELAY_MS: Final = 1_000
"""Until it is told again who controls, where not everything here took that up."""


class ClusterMember:
    """One per broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        cache: MetadataCache,
        on_change: Callable[[Changes], None],
        *,
        bound_ports: Mapping[str, int],
        coordination: Coordination,
        new_topic_id: Callable[[], uuid.UUID],
        open_line: ConnectToPeer,
        report: Callable[[], ReplicaReport] = ReplicaReport,
    ) -> None:
        """`report` says what this broker's disks do not allow, after every change. `on_change`
        raises KafkaError where not everything here took a change up."""
        self._report = report
        self._open_line = open_line
        self._active: ActiveController | None = None
        self.publisher: Publisher | None = None
        self._settings = settings
        self._clock = clock
        self._cache = cache
        self._on_change = on_change
        self._is_untaken = False
        """Whether not everything here took up what it was told last."""
        self._bound_ports = bound_ports
        self._coordination = coordination
        self._new_topic_id = new_topic_id
        self._registered_session = 0
        self.is_connected = False
        """Whether ZooKeeper answers, as far as is known."""
        self._term_task: asyncio.Task[None] | None = None
        self._follow_task: asyncio.Task[None] | None = None
        self._watch = ControllerWatch(settings, cache, coordination, open_line)
        self._watch_task: asyncio.Task[None] | None = None
        self._look_again = asyncio.Event()
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    @property
    def controller(self) -> ActiveController | None:
        """The controller while this broker is it, and knows what it controls."""
        return self._active if self._active is not None and self._active.is_loaded else None

    async def start(self) -> None:
        """Register and take part in the election; on return one is over.

        A connection that breaks meanwhile is waited for. Raises CoordinationUnavailable where
        there is none to begin with, or KafkaError(duplicate_broker_registration).
        """
        self._coordination.subscribe(self._path_changed, self._session_changed)
        await self._coordination.start()
        self.is_connected = True
        while True:
            try:
                await self._settle()
                break
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper went away while this broker joined: %s", error)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
        self._follow_task = asyncio.create_task(self._follow(), name="cluster membership")
        self._watch_task = asyncio.create_task(self._watch.run(), name="controller watch")

    async def stop(self) -> None:
        """Leave the cluster: the registration and the controller's znode go at once."""
        for task in (self._follow_task, self._watch_task):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._resign()
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

    def take_delta(self, payload: bytes) -> bytes:
        """Another broker's CLUSTER_DELTA: apply it; the reply's body."""
        try:
            delta = decode_delta(payload)
        except ValueError as error:
            return encode_reply(ErrorCode.invalid_request, str(error))
        try:
            changes = self._cache.apply(delta)
        except KafkaError as error:
            epoch_min = self._cache.controller_epoch
            if delta.full and error.code is ErrorCode.invalid_update_version:
                # Whoever controls in an epoch counts up: this is another one, in the same epoch.
                epoch_min += 1
            return encode_reply(error.code, error.message, epoch_min=epoch_min)
        if self._active is not None and (
            delta.controller_epoch > self._active.term.controller_epoch
        ):
            log.warning("broker %d controls now", delta.controller_id)
            self._look_again.set()
        try:
            self._tell(changes)
        except KafkaError as error:
            return encode_reply(error.code, error.message)
        return encode_reply(ErrorCode.none, report=self._report())

    # -- membership -------------------------------------------------------------------------

    def _path_changed(self, path: str | None) -> None:
        if path is None or path == znodes.CONTROLLER:
            self._look_again.set()
        if self._active is not None and path != znodes.CONTROLLER:
            self._active.news.touch(path)

    def _session_changed(self, state: SessionState) -> None:
        log.info("ZooKeeper session: %s", state.value)
        self.is_connected = state is SessionState.CONNECTED
        if state is SessionState.LOST:
            self._registered_session = 0
            if self._active is not None:
                self._end_term(self._active)
            self._look_again.set()
        if state is SessionState.CONNECTED:
            self._look_again.set()
            if self._active is not None:
                self._active.news.touch(EVERYTHING)

    async def _follow(self) -> None:
        while True:
            # A controller's publisher tells again what was not taken up; who controls, nobody but
            # this broker itself.
            is_due = self._is_untaken and self._active is None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNTAKEN_DELAY_MS / 1000 if is_due else None):
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
        controller_id, term = await membership.elect(
            self._coordination, broker_id, self._clock, self._cache.controller_epoch
        )
        if term is None or self._active is None or self._active.term != term:
            await self._resign()
        try:
            self._tell(self._cache.observe_controller(controller_id))
        except KafkaError as error:
            # A defect of this broker must not leave the cluster without a controller.
            log.warning("broker %d is the controller, but here: %s", controller_id, error)
        if term is not None and self._active is None:
            await self._begin_term(term)

    async def _join(self) -> None:
        await membership.ensure_layout(self._coordination)
        self._cache.cluster_id = await membership.ensure_cluster_id(
            self._coordination, znodes.encode_uuid(self._new_topic_id())
        )
        # Before the registration: from there on a controller that was deposed and has not noticed
        # may tell this run of replicas and topics as they were, and what it leaves out is dropped.
        self._cache.observe_controller_epoch(
            await membership.read_controller_epoch(self._coordination)
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
            answering=self._answering,
            epoch_wanted=self._epoch_wanted,
            known=dict(self._cache.brokers),
            open_line=partial(open_broker_line, open_line=self._open_line),
        )
        controller = ActiveController(
            self._coordination,
            self._settings,
            term,
            publish=publisher.publish,
            fenced=self._end_term,
            new_uuid=self._new_topic_id,
            # A term that is begun anew goes on counting: no broker goes back within an epoch.
            sequence=self._cache.sequence_of(term.controller_epoch),
        )
        self.publisher = publisher
        self._active = controller
        try:
            await controller.load()
        except Fenced:
            await self._resign()
            self._look_again.set()
            return
        except Exception:
            # Kept, it would be a controller that never has loaded.
            await self._resign()
            raise
        if self._active is controller:
            self._term_task = asyncio.create_task(controller.run(), name="controller")

    def _end_term(self, controller: ActiveController) -> None:
        """Control nothing from here on; `_settle` clears up. One of a former term ends nothing."""
        if self._active is not controller:
            return
        log.warning("controller epoch %d is over here", controller.term.controller_epoch)
        self._active = None
        self._look_again.set()

    async def _resign(self) -> None:
        self._active = None
        task, self._term_task = self._term_task, None
        publisher, self.publisher = self.publisher, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if publisher is not None:
            await publisher.close()

    # -- images -----------------------------------------------------------------------------

    def _apply_here(self, image: ClusterImage) -> ReplicaReport | None:
        """What the disks here do not allow; None where the image was refused, or not everything
        here took it up: then it comes again."""
        # A full delta: it is compared with what the cache has, so nothing is done twice.
        delta = difference(None, image, self._cache.broker_epoch)
        try:
            changes = self._cache.apply(delta)
        except KafkaError as error:
            log.warning("this broker refuses its own image: %s", error)
            return None
        try:
            self._tell(changes)
        except KafkaError as error:
            # Nobody's write failed: what the image says is so, whoever goes by it.
            log.warning("image %d is told here again: %s", image.sequence, error)
            return None
        return self._report()

    def _acknowledged(self, broker_id: int, image: ClusterImage, report: ReplicaReport) -> None:
        if self._active is None:
            return
        deleted = frozenset(image.deletions.values()) - report.undeleted
        if deleted:
            self._active.news.replicas_deleted(broker_id, tuple(deleted))
        self._active.news.replicas_reported(
            broker_id, image.brokers[broker_id].broker_epoch, report.offline
        )

    def _answering(self, broker: BrokerEndpoints, answers: bool) -> None:
        if self._active is not None:
            self._active.news.broker_answers(broker.id, broker.broker_epoch, answers)

    def _epoch_wanted(self, epoch: int) -> None:
        """A broker refuses what is of an epoch below: this broker was elected by one that somebody
        put back, and takes a higher one; or it was deposed, and finds out who controls."""
        if self._active is None or epoch <= self._active.term.controller_epoch:
            return
        self._cache.observe_controller_epoch(epoch)
        self._look_again.set()

    def _tell(self, changes: Changes) -> None:
        """Raises KafkaError where not everything here took it up."""
        try:
            if changes or self._is_untaken:
                self._is_untaken = True
                self._on_change(changes)
                self._is_untaken = False
        finally:
            # They go by the cache, which has it.
            if changes:
                self._watch.look()
            for condition, future in tuple(self._waiters):
                if not future.done() and condition():
                    future.set_result(None)
