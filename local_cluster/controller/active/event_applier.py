"""SHELL: applies events to the controller's state, writes their effects, publishes the image.

decisions/fsm.py decides. Its effects are written, and their outcome is the next event, until
nothing is left to write. Then the resulting image goes to the brokers. Runs under the controller's
lock.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence

from local_cluster.controller.active.assignment_writer import AssignmentWriter
from local_cluster.controller.active.cluster_reader import ClusterReader
from local_cluster.controller.active.state_writer import StateWriter, Written
from local_cluster.controller.active.topic_purger import TopicPurger
from local_cluster.controller.decisions import fsm
from local_cluster.controller.decisions.reassignments import PlannedReplicas
from local_cluster.controller.model import events
from local_cluster.controller.model.cluster_image import NO_LEADER, UNWRITTEN, ClusterImage
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.events import (
    ClearDeletionMark,
    CompleteReassignments,
    Event,
    PurgeTopic,
    WriteState,
)
from local_cluster.controller.zk.coordination import Coordination
from local_cluster.controller.zk.term import CONFLICTS_MAX, Term
from local_cluster.wire.errors import KafkaError

log = logging.getLogger(__name__)


class EventApplier:
    """The state of one term. A method raises Fenced, or CoordinationUnavailable if the outcome
    of a write is unknown."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        broker_id: int,
        initial: ClusterState,
        *,
        reader: ClusterReader,
        assignments: AssignmentWriter,
        publish: Callable[[ClusterImage], None],
        reassignments_changed: Callable[[str], None],
        sequence: int = 0,
    ) -> None:
        """`publish` gets every new image, `reassignments_changed` a topic whose reassignments
        ended. `sequence` is that of the last image published in this controller epoch."""
        self.state = initial
        self.sequence = sequence
        """Sequence of the image that was published last."""
        self.is_whole = False
        """Whether the state has every topic of the cluster."""
        self._term = term
        self._broker_id = broker_id
        self._reader = reader
        self._assignments = assignments
        self._writer = StateWriter(coordination, term)
        self._purger = TopicPurger(coordination, term)
        self._publish = publish
        self._reassignments_changed = reassignments_changed
        self._published: ClusterImage | None = None

    async def apply(self, event: Event) -> None:
        """Apply an event and its consequences until nothing is left to write, then publish."""
        pending = collections.deque([event])
        conflicts = 0
        reassigning = self.state.reassigning.keys()
        while pending:
            decided = fsm.step(self.state, pending.popleft())
            self.state = decided.state
            writes = [effect for effect in decided.effects if isinstance(effect, WriteState)]
            written, conflicting = await self.write(writes)
            if written:
                pending.append(events.StatesWritten(written))
            if conflicting and conflicts < CONFLICTS_MAX:
                conflicts += 1
                pending.append(await self.read_states(conflicting))
            elif conflicting:
                log.error("giving up: other writers keep changing the states of %s", conflicting)
            for effect in decided.effects:
                if isinstance(effect, PurgeTopic) and await self._purger.purge(effect.name):
                    pending.append(events.TopicPurged(effect.name))
                elif isinstance(effect, CompleteReassignments):
                    pending.extend(await self._complete_reassignments(effect))
                elif isinstance(effect, ClearDeletionMark):
                    await self._purger.clear_mark(effect.name)
        # Reassignments that completed, or went with their topics.
        for name in {name for name, _ in reassigning - self.state.reassigning.keys()}:
            self._reassignments_changed(name)
        self.publish_image(again=isinstance(event, events.Loaded))

    async def write(self, writes: Sequence[WriteState]) -> tuple[Written, list[TopicPartition]]:
        """Return (states with their new versions, partitions that another writer wrote first).

        The caller applies the outcome.
        """
        return await self._writer.write(writes, self.state)

    async def read_states(self, keys: Iterable[TopicPartition]) -> events.StatesRead:
        """Read the states of these partitions from ZooKeeper."""
        known = {
            (name, partition): self.state.topics[name].partitions[partition]
            for name, partition in keys
            if name in self.state.topics and partition in self.state.topics[name].partitions
        }
        read = await self._reader.states({key: state.replicas for key, state in known.items()})
        # A partition without a state znode keeps its epoch, so that leader epochs never go back.
        lost = {
            key: state._replace(leader=NO_LEADER, zk_version=UNWRITTEN)
            for key, state in known.items()
            if key not in read
        }
        return events.StatesRead(lost | {key: each.state for key, each in read.items()})

    async def _complete_reassignments(self, effect: CompleteReassignments) -> list[Event]:
        plans = {i: PlannedReplicas(ids, None) for i, ids in effect.replicas.items()}
        seen = await self._assignments.write(effect.topic, plans, self.state)
        if isinstance(seen, KafkaError):
            log.error("cannot complete reassignments of %s: %s", effect.topic, seen)
            return []
        log.info("reassignments of %s are complete: %s", effect.topic, dict(effect.replicas))
        return [events.TopicsSeen({effect.topic: seen})]

    def publish_image(self, *, again: bool) -> None:
        """Publish the image if it changed; `again`: in any case, so that every broker reports."""
        image = ClusterImage(
            controller_id=self._broker_id,
            controller_epoch=self._term.controller_epoch,
            sequence=self.sequence,
            brokers=self.state.brokers,
            topics=self.state.topics,
            deletions={n: each.topic.topic_id for n, each in self.state.deletions.items()},
            broker_configs=self.state.broker_configs,
            entity_configs=self.state.entity_configs,
            offline=self.state.offline,
            is_whole=self.is_whole,
        )
        if image == self._published and not again:
            return
        self.sequence += 1
        self._published = dataclasses.replace(image, sequence=self.sequence)
        self._publish(self._published)
