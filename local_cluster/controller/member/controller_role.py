"""SHELL: this broker as the elected controller: it begins and ends its terms, one at a time.

Guarantees: a broker whose term ended controls nothing from that moment. A request of a former term
ends no later one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from functools import partial

from local_cluster.controller.active.active_controller import ActiveController
from local_cluster.controller.active.publisher import Publisher
from local_cluster.controller.member.controller_election import ensure_feature
from local_cluster.controller.member.inter_broker import connect_to_broker
from local_cluster.controller.member.metadata_updates import MetadataUpdates
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    ReplicaReport,
)
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.zk.coordination import Coordination
from local_cluster.controller.zk.term import Fenced, Term
from local_cluster.network import ConnectToPeer
from local_cluster.settings import BrokerSettings

log = logging.getLogger(__name__)


class ControllerRole:
    """The terms of one broker as the controller."""

    def __init__(
        self,
        settings: BrokerSettings,
        cache: MetadataCache,
        coordination: Coordination,
        updates: MetadataUpdates,
        *,
        new_topic_id: Callable[[], uuid.UUID],
        connect: ConnectToPeer,
        check_election: Callable[[], None],
    ) -> None:
        """`check_election` has the member check again which broker is elected."""
        self._settings = settings
        self._cache = cache
        self._coordination = coordination
        self._updates = updates
        self._new_topic_id = new_topic_id
        self._connect = connect
        self._check_election = check_election
        self._task: asyncio.Task[None] | None = None
        self.active: ActiveController | None = None
        """The controller of the present term, also while it loads."""
        self.publisher: Publisher | None = None

    @property
    def controller(self) -> ActiveController | None:
        """The controller of the present term, once it is loaded."""
        return self.active if self.active is not None and self.active.is_loaded else None

    async def begin(self, term: Term) -> None:
        """Begin a term. Raises CoordinationUnavailable; the term is over then."""
        await ensure_feature(self._coordination, term)
        publisher = Publisher(
            broker_id=self._settings.broker_id,
            listener=self._settings.inter_broker_listener,
            apply_locally=self._updates.apply_image,
            acknowledged=self._acknowledged,
            reachable_changed=self._reachable_changed,
            epoch_required=self._epoch_required,
            known=dict(self._cache.brokers),
            open_connection=partial(connect_to_broker, connect=self._connect),
        )
        controller = ActiveController(
            self._coordination,
            self._settings,
            term,
            publish=publisher.publish,
            fenced=self.end,
            new_uuid=self._new_topic_id,
            # A restarted term continues to count: no broker goes back within a controller epoch.
            sequence=self._cache.sequence_of(term.controller_epoch),
        )
        self.publisher = publisher
        self.active = controller
        try:
            await controller.load()
        except Fenced:
            await self.resign()
            self._check_election()
            return
        except Exception:
            # A controller that never loaded must not stay.
            await self.resign()
            raise
        if self.active is controller:
            self._task = asyncio.create_task(controller.run(), name="controller")

    def end(self, controller: ActiveController) -> None:
        """End the term of this controller at once; the member then calls `resign`.

        Does nothing for a controller of a former term.
        """
        if self.active is not controller:
            return
        log.warning("the term of controller epoch %d is over", controller.term.controller_epoch)
        self.active = None
        self._check_election()

    async def resign(self) -> None:
        """End the term, if any, with its task and its publisher."""
        self.active = None
        task, self._task = self._task, None
        publisher, self.publisher = self.publisher, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if publisher is not None:
            await publisher.close()

    # -- reports of the publisher -----------------------------------------------------------

    def _acknowledged(self, broker_id: int, image: ClusterImage, report: ReplicaReport) -> None:
        if self.active is None:
            return
        deleted = frozenset(image.deletions.values()) - report.undeleted
        if deleted:
            self.active.changes.note_deleted_replicas(broker_id, tuple(deleted))
        self.active.changes.note_offline_replicas(
            broker_id, image.brokers[broker_id].broker_epoch, report.offline
        )

    def _reachable_changed(self, broker: BrokerEndpoints, is_reachable: bool) -> None:
        if self.active is not None:
            self.active.changes.note_reachable(broker.id, broker.broker_epoch, is_reachable)

    def _epoch_required(self, epoch: int) -> None:
        """A broker refuses images of lower epochs than this.

        Either the stored epoch was lowered by hand before this election: then take a higher one.
        Or this broker was deposed: then find out which broker is the controller.
        """
        if self.active is None or epoch <= self.active.term.controller_epoch:
            return
        self._cache.observe_controller_epoch(epoch)
        self._check_election()
