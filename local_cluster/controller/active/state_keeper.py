"""SHELL: the controller's state over one term: one event, the writes that it leads to, the image.

The FSM decides; what it wants written is written, and the outcome is the next event, until nothing
is left to write. Then the brokers are given the image that is true now. Under the controller's
lock.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence

from local_cluster.controller.active.cluster_reader import ClusterReader
from local_cluster.controller.active.replica_writer import ReplicaWriter
from local_cluster.controller.active.state_writer import StateWriter, Written
from local_cluster.controller.active.topic_eraser import TopicEraser
from local_cluster.controller.decisions import fsm
from local_cluster.controller.decisions.reassignments import PlannedReplicas
from local_cluster.controller.model.cluster_image import NO_LEADER, UNWRITTEN, ClusterImage
from local_cluster.controller.model.cluster_state import (
    ClearMark,
    ClusterState,
    EraseTopic,
    Event,
    FinishReassignments,
    TopicPartition,
    WriteState,
)
from local_cluster.controller.zk.coordination import Coordination
from local_cluster.controller.zk.term import CONFLICTS_MAX, Term
from local_cluster.wire.errors import KafkaError

log = logging.getLogger(__name__)


class StateKeeper:
    """All methods raise Fenced or CoordinationUnavailable where nothing is known for sure."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        broker_id: int,
        initial: ClusterState,
        *,
        reader: ClusterReader,
        replicas: ReplicaWriter,
        publish: Callable[[ClusterImage], None],
        moves_changed: Callable[[str], None],
        sequence: int = 0,
    ) -> None:
        """`publish` is given every new image; `moves_changed` a topic of which moves are over;
        `sequence` is that of the last image published in this controller epoch."""
        self.state = initial
        self.sequence = sequence
        """Of the image published last."""
        self.is_whole = False
        """Whether the state has every topic that there is."""
        self._term = term
        self._broker_id = broker_id
        self._reader = reader
        self._replicas = replicas
        self._writer = StateWriter(coordination, term)
        self._eraser = TopicEraser(coordination, term)
        self._publish = publish
        self._moves_changed = moves_changed
        self._published: ClusterImage | None = None

    async def apply(self, event: Event) -> None:
        """Run the FSM until nothing is left to write, then publish."""
        events = collections.deque([event])
        conflicts = 0
        moving = self.state.reassigning.keys()
        while events:
            decided = fsm.step(self.state, events.popleft())
            self.state = decided.state
            writes = [effect for effect in decided.effects if isinstance(effect, WriteState)]
            written, overtaken = await self.write(writes)
            if written:
                events.append(fsm.StatesWritten(written))
            if overtaken and conflicts < CONFLICTS_MAX:
                conflicts += 1
                events.append(await self.read_states(overtaken))
            elif overtaken:
                log.error("states that cannot be written are left as they are: %s", overtaken)
            for effect in decided.effects:
                if isinstance(effect, EraseTopic) and await self._eraser.erase(effect.name):
                    events.append(fsm.TopicErased(effect.name))
                elif isinstance(effect, FinishReassignments):
                    events.extend(await self._finish_reassignments(effect))
                elif isinstance(effect, ClearMark):
                    await self._eraser.clear_mark(effect.name)
        # Done, or gone with their topics.
        for name in {name for name, _ in moving - self.state.reassigning.keys()}:
            self._moves_changed(name)
        self.publish_image(again=isinstance(event, fsm.Loaded))

    async def write(self, writes: Sequence[WriteState]) -> tuple[Written, list[TopicPartition]]:
        """(states with their new versions, partitions that somebody else wrote first).

        The caller applies what became of them.
        """
        return await self._writer.write(writes, self.state)

    async def read_states(self, keys: Iterable[TopicPartition]) -> fsm.StatesRead:
        """What is written of these partitions now."""
        known = {
            (name, partition): self.state.topics[name].partitions[partition]
            for name, partition in keys
            if name in self.state.topics and partition in self.state.topics[name].partitions
        }
        read = await self._reader.states({key: state.replicas for key, state in known.items()})
        # A state that is gone keeps its epoch here, so that the next one does not go back.
        lost = {
            key: state._replace(leader=NO_LEADER, zk_version=UNWRITTEN)
            for key, state in known.items()
            if key not in read
        }
        return fsm.StatesRead(lost | {key: each.state for key, each in read.items()})

    async def _finish_reassignments(self, effect: FinishReassignments) -> list[Event]:
        plans = {i: PlannedReplicas(ids, None) for i, ids in effect.replicas.items()}
        seen = await self._replicas.write(effect.topic, plans, self.state)
        if isinstance(seen, KafkaError):
            log.error("moved replicas of %s are not noted: %s", effect.topic, seen)
            return []
        log.info("replicas of %s were moved: %s", effect.topic, dict(effect.replicas))
        return [fsm.TopicsSeen({effect.topic: seen})]

    def publish_image(self, *, again: bool) -> None:
        """Publish what differs; `again`, even what does not, so that every broker answers."""
        image = ClusterImage(
            controller_id=self._broker_id,
            controller_epoch=self._term.controller_epoch,
            sequence=self.sequence,
            brokers=self.state.brokers,
            topics=self.state.topics,
            deletions={n: each.topic.topic_id for n, each in self.state.deletions.items()},
            broker_configs=self.state.broker_configs,
            offline=self.state.offline,
            is_whole=self.is_whole,
        )
        if image == self._published and not again:
            return
        self.sequence += 1
        self._published = dataclasses.replace(image, sequence=self.sequence)
        self._publish(self._published)
