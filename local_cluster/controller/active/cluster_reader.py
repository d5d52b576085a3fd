"""SHELL: reads the cluster's znodes for the controller, and sets watches on them.

Guarantees: a payload that is not Kafka's is logged and left out, never guessed. A topic that an old
tool wrote without an id gets one, by a write conditional on the znode's version.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from local_cluster.controller.model import (
    broker_znodes,
    config_znodes,
    topic_znodes,
    znode_paths,
)
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    PartitionState,
    TopicState,
    unwritten_partition,
)
from local_cluster.controller.model.cluster_state import Reassignment
from local_cluster.controller.model.events import Loaded, SeenTopic
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.bulk_reads import gather_bounded, read_by_key
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    SetPayload,
    Znode,
)
from local_cluster.controller.zk.term import Term

log = logging.getLogger(__name__)

TOPIC_ID_ATTEMPTS_MAX: Final = 5


class ReadState(NamedTuple):
    """A partition state, and when it was last written."""

    state: PartitionState
    modified_zxid: int


class ClusterReader:
    """The reads of one term."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        new_uuid: Callable[[], uuid.UUID],
        *,
        fsync: bool = True,
    ) -> None:
        """`fsync`: no crash of a broker loses what its in-sync replicas reported."""
        self._coordination = coordination
        self._term = term
        self._keeps_tails = fsync
        self._new_uuid = new_uuid

    async def everything(self) -> tuple[Loaded, frozenset[str]]:
        """Return (the whole cluster, names of unreadable topics).

        The watch of every watched path is set before its read.
        """
        brokers = await self.brokers()
        marked = frozenset(await self._coordination.children(znode_paths.DELETE_TOPICS, watch=True))
        broker_configs = await self._broker_configs()
        entity_configs = await self._entity_configs()
        names = await self._coordination.children(znode_paths.TOPICS, watch=True)
        found = await self.topics(names)
        seen = {name: topic for name, topic in found.items() if topic is not None}
        keys = [(name, partition) for name, topic in seen.items() for partition in topic.replicas]
        states = await self.states({key: seen[key[0]].replicas[key[1]] for key in keys})
        restarted_leaders = set()
        restarted = set()
        newest_epoch = max((each.broker_epoch for each in brokers.values()), default=-1)
        topics = {}
        for name, topic in seen.items():
            partitions = {}
            for partition, ids in sorted(topic.replicas.items()):
                read = states.get((name, partition))
                partitions[partition] = read.state if read else unwritten_partition(partition, ids)
                leader = brokers.get(read.state.leader) if read else None
                if read and leader and leader.broker_epoch > read.modified_zxid:
                    restarted_leaders.add((name, partition))
                if read and newest_epoch > read.modified_zxid:
                    restarted |= {
                        ((name, partition), replica)
                        for replica in read.state.isr
                        if replica in brokers and brokers[replica].broker_epoch > read.modified_zxid
                    }
            topics[name] = TopicState(name, topic.topic_id, partitions, dict(topic.configs))
        reassigning = {
            (name, index): each
            for name, topic in seen.items()
            for index, each in topic.reassigning.items()
        }
        loaded = Loaded(
            brokers,
            topics,
            marked,
            frozenset(restarted_leaders),
            frozenset() if self._keeps_tails else frozenset(restarted),
            reassigning,
            broker_configs,
            entity_configs,
            # A topic that vanished between the two reads may not have been deleted.
            is_whole=len(seen) == len(names),
        )
        return loaded, frozenset(names) - found.keys()

    async def brokers(self) -> dict[int, BrokerEndpoints]:
        """Return all registrations; watch their list and each of them."""
        names = await self._coordination.children(znode_paths.BROKER_IDS, watch=True)
        ids = [int(name) for name in names if name.isdecimal()]
        found = await gather_bounded(ids, self._broker)
        return {broker_id: broker for broker_id, broker in found if broker is not None}

    async def topics(self, names: Iterable[str]) -> dict[str, SeenTopic | None]:
        """Return topics by name, None for a missing one; an unreadable one is left out."""
        found = dict(await gather_bounded(names, self._assignment))
        there = [
            name for name, topic in found.items() if isinstance(topic, topic_znodes.TopicAssignment)
        ]
        # After the topics: a tool writes the configs of a topic before the topic itself.
        paths = {name: znode_paths.topic_config_path(name) for name in there}
        configs = await read_by_key(self._coordination, paths)
        return {
            name: None
            if topic is None
            else seen_topic(topic, _read_configs(paths[name], configs[name]))
            for name, topic in found.items()
            if not isinstance(topic, ValueError)
        }

    async def topic_names(self) -> tuple[str, ...]:
        return await self._coordination.children(znode_paths.TOPICS, watch=True)

    async def marked(self) -> frozenset[str]:
        return frozenset(await self._coordination.children(znode_paths.DELETE_TOPICS, watch=True))

    async def states(
        self,
        replicas: Mapping[tuple[str, int], tuple[int, ...]],
    ) -> dict[tuple[str, int], ReadState]:
        """Return partition states, given the replicas; one without a znode is left out."""
        found = await read_by_key(
            self._coordination, {key: znode_paths.state_path(*key) for key in replicas}
        )
        states = {}
        for key, znode in found.items():
            state = None if znode is None else _read_state(key, znode, replicas[key])
            if state is not None:
                states[key] = state
        return states

    async def configs(self, topic: str) -> dict[str, str]:
        """Return a topic's configs; none if the znode is missing or unreadable."""
        return await self._configs(znode_paths.topic_config_path(topic))

    async def broker_configs(self, entity: str) -> dict[str, str]:
        """Return the dynamic configs of a broker, or of "<default>"; none without a znode."""
        return await self._configs(znode_paths.broker_config_path(entity))

    async def entity_configs(self, entity: str) -> dict[str, str]:
        """Return the configs of a group or client metrics subscription; none without a znode."""
        return await self._configs(znode_paths.entity_config_path(entity))

    # -- inside -----------------------------------------------------------------------------

    async def _configs(self, path: str) -> dict[str, str]:
        return _read_configs(path, await self._coordination.read(path))

    async def _broker_configs(self) -> dict[str, dict[str, str]]:
        names = await self._coordination.children(znode_paths.BROKER_CONFIGS)
        found = await gather_bounded(names, self.broker_configs)
        return {entity: configs for entity, configs in found if configs}

    async def _entity_configs(self) -> dict[str, dict[str, str]]:
        entities = [
            f"{kind}/{name}"
            for kind in znode_paths.ENTITY_KINDS
            for name in await self._coordination.children(znode_paths.entity_config_path(kind))
        ]
        found = await gather_bounded(entities, self.entity_configs)
        return {entity: configs for entity, configs in found if configs}

    async def _broker(self, broker_id: int) -> BrokerEndpoints | None:
        path = znode_paths.broker_id_path(broker_id)
        znode = await self._coordination.read(path, watch=True)
        if znode is None:
            return None
        try:
            return broker_znodes.decode_broker(
                broker_id, znode.payload, broker_epoch=znode.created_zxid
            )
        except UnreadableZnodeError as error:
            log.error("ignoring the broker of %s, it is unreadable: %s", path, error)
            return None

    async def _assignment(self, name: str) -> topic_znodes.TopicAssignment | ValueError | None:
        """Return the assignment of a topic, adding a missing topic id; watch the znode."""
        path = znode_paths.topic_path(name)
        for _ in range(TOPIC_ID_ATTEMPTS_MAX):
            znode = await self._coordination.read(path, watch=True)
            if znode is None:
                return None
            try:
                assignment = topic_znodes.decode_topic(znode.payload)
            except UnreadableZnodeError as error:
                log.error("ignoring the topic of %s, it is unreadable: %s", path, error)
                return ValueError(str(error))
            if assignment.topic_id is not None:
                return assignment
            await self._add_topic_id(path, znode, assignment)
        return ValueError(f"{path} changes too fast")

    async def _add_topic_id(
        self, path: str, znode: Znode, assignment: topic_znodes.TopicAssignment
    ) -> None:
        payload = topic_znodes.encode_topic(
            topic_znodes.TopicAssignment(
                self._new_uuid(), assignment.replicas, assignment.adding, assignment.removing
            )
        )
        # On a conflict another writer changed the topic. The caller reads it again either way.
        with contextlib.suppress(CommitConflict):
            op = SetPayload(path, payload, znode.version)
            await self._term.commit(self._coordination, (op,))


def seen_topic(assignment: topic_znodes.TopicAssignment, configs: Mapping[str, str]) -> SeenTopic:
    """Return a topic znode that has a topic id, with its configs."""
    assert assignment.topic_id is not None, "the caller adds a topic id"
    moving = sorted(assignment.adding.keys() | assignment.removing.keys())
    return SeenTopic(
        assignment.topic_id,
        assignment.replicas,
        configs,
        {
            index: Reassignment(
                assignment.adding.get(index, ()), assignment.removing.get(index, ())
            )
            for index in moving
        },
    )


def _read_configs(path: str, znode: Znode | None) -> dict[str, str]:
    try:
        return config_znodes.decode_config(znode.payload) if znode else {}
    except UnreadableZnodeError:
        log.error("%s is unreadable; using the default configs", path)
        return {}


def _read_state(key: tuple[str, int], znode: Znode, replicas: tuple[int, ...]) -> ReadState | None:
    try:
        stored = topic_znodes.decode_state(znode.payload)
    except UnreadableZnodeError as error:
        path = znode_paths.state_path(*key)
        log.error("the partition stays offline: %s is unreadable: %s", path, error)
        return None
    state = PartitionState(
        key[1], replicas, stored.leader, stored.leader_epoch, stored.isr, znode.version
    )
    return ReadState(state, znode.modified_zxid)
