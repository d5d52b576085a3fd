"""Reads the cluster's znodes into the controller's nouns, leaving watches behind.

Guarantees: a payload that is not Kafka's is logged and left out, never guessed at; a topic that an
old tool wrote without an id gets one, conditional on the znode's version.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from local_cluster.controller.decisions.fsm import new_partition
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_image import BrokerEndpoints, PartitionState, TopicState
from local_cluster.controller.model.cluster_state import Loaded, Reassignment, SeenTopic
from local_cluster.controller.zk.coordination import (
    READ_MANY_MAX,
    CommitConflict,
    Coordination,
    SetPayload,
    Znode,
)
from local_cluster.controller.zk.term import Term

log = logging.getLogger(__name__)

CALLS_IN_FLIGHT_MAX: Final = 512
TOPIC_ID_ATTEMPTS_MAX: Final = 5

Key = TypeVar("Key")
Value = TypeVar("Value")


class ReadState(NamedTuple):
    """A state znode, and when it was last written."""

    state: PartitionState
    modified_zxid: int


class ClusterReader:
    """Reads for one term of one controller."""

    def __init__(
        self,
        coordination: Coordination,
        term: Term,
        new_uuid: Callable[[], uuid.UUID],
        *,
        keeps_tails: bool = True,
    ) -> None:
        """`keeps_tails`: what an in-sync replica has survives any crash of its broker."""
        self._coordination = coordination
        self._term = term
        self._keeps_tails = keeps_tails
        self._new_uuid = new_uuid

    async def everything(self) -> tuple[Loaded, frozenset[str]]:
        """(all that a controller needs, names of topics that nobody can read).

        Every watched path has its watch set before its read.
        """
        brokers = await self.brokers()
        marked = frozenset(await self._coordination.children(znodes.DELETE_TOPICS, watch=True))
        broker_configs = await self._broker_configs()
        names = await self._coordination.children(znodes.TOPICS, watch=True)
        found = await self.topics(names)
        seen = {name: topic for name, topic in found.items() if topic is not None}
        keys = [(name, partition) for name, topic in seen.items() for partition in topic.replicas]
        states = await self.states({key: seen[key[0]].replicas[key[1]] for key in keys})
        outlived = set()
        restarted = set()
        newest_epoch = max((each.broker_epoch for each in brokers.values()), default=-1)
        topics = {}
        for name, topic in seen.items():
            partitions = {}
            for partition, ids in sorted(topic.replicas.items()):
                read = states.get((name, partition))
                partitions[partition] = read.state if read else new_partition(partition, ids)
                leader = brokers.get(read.state.leader) if read else None
                if read and leader and leader.broker_epoch > read.modified_zxid:
                    outlived.add((name, partition))
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
            frozenset(outlived),
            frozenset() if self._keeps_tails else frozenset(restarted),
            reassigning,
            broker_configs,
            # One that went between the two reads may have gone in any way.
            is_whole=len(seen) == len(names),
        )
        return loaded, frozenset(names) - found.keys()

    async def brokers(self) -> dict[int, BrokerEndpoints]:
        """All registrations; watches their list and each of them."""
        names = await self._coordination.children(znodes.BROKER_IDS, watch=True)
        ids = [int(name) for name in names if name.isdecimal()]
        found = await gather_bounded(ids, self._broker)
        return {broker_id: broker for broker_id, broker in found if broker is not None}

    async def topics(self, names: Iterable[str]) -> dict[str, SeenTopic | None]:
        """The named topics, None for one that is gone; an unreadable one is left out."""
        found = dict(await gather_bounded(names, self._assignment))
        there = [name for name, topic in found.items() if isinstance(topic, znodes.TopicAssignment)]
        # After the topics: a tool writes the configs of a topic before the topic.
        paths = {name: znodes.topic_config_path(name) for name in there}
        configs = await self._read_many(paths)
        return {
            name: None
            if topic is None
            else seen_topic(topic, _read_configs(paths[name], configs[name]))
            for name, topic in found.items()
            if not isinstance(topic, ValueError)
        }

    async def topic_names(self) -> tuple[str, ...]:
        return await self._coordination.children(znodes.TOPICS, watch=True)

    async def marked(self) -> frozenset[str]:
        return frozenset(await self._coordination.children(znodes.DELETE_TOPICS, watch=True))

    async def states(
        self,
        replicas: Mapping[tuple[str, int], tuple[int, ...]],
    ) -> dict[tuple[str, int], ReadState]:
        """States of partitions, given their replicas; one without a znode is left out."""

        found = await self._read_many({key: znodes.state_path(*key) for key in replicas})
        states = {}
        for key, znode in found.items():
            state = None if znode is None else _read_state(key, znode, replicas[key])
            if state is not None:
                states[key] = state
        return states

    async def configs(self, topic: str) -> dict[str, str]:
        """A topic's configs; none where the znode is missing or unreadable."""
        return await self._configs(znodes.topic_config_path(topic))

    async def broker_configs(self, entity: str) -> dict[str, str]:
        """The dynamic configs of a broker, or of "<default>"; none where there is no znode."""
        return await self._configs(znodes.broker_config_path(entity))

    # -- inside -----------------------------------------------------------------------------

    async def _configs(self, path: str) -> dict[str, str]:
        return _read_configs(path, await self._coordination.read(path))

    async def _broker_configs(self) -> dict[str, dict[str, str]]:
        names = await self._coordination.children(znodes.BROKER_CONFIGS)
        found = await gather_bounded(names, self.broker_configs)
        return {entity: configs for entity, configs in found if configs}

    async def _read_many(self, paths: Mapping[Key, str]) -> dict[Key, Znode | None]:
        """A znode per key, None where there is none."""
        keys = list(paths)
        parts = [
            tuple(keys[start : start + READ_MANY_MAX])
            for start in range(0, len(keys), READ_MANY_MAX)
        ]

        async def read(part: tuple[Key, ...]) -> list[Znode | None]:
            return await self._coordination.read_many([paths[key] for key in part])

        return {
            key: znode
            for part, found in await gather_bounded(parts, read)
            for key, znode in zip(part, found, strict=True)
        }

    async def _broker(self, broker_id: int) -> BrokerEndpoints | None:
        path = znodes.broker_id_path(broker_id)
        znode = await self._coordination.read(path, watch=True)
        if znode is None:
            return None
        try:
            return znodes.decode_broker(broker_id, znode.payload, broker_epoch=znode.created_zxid)
        except (ValueError, KeyError, TypeError) as error:
            log.error("%s is unreadable, the broker is ignored: %s", path, error)
            return None

    async def _assignment(self, name: str) -> znodes.TopicAssignment | ValueError | None:
        """What the topic's znode says, an id in it; watches it."""
        path = znodes.topic_path(name)
        for _ in range(TOPIC_ID_ATTEMPTS_MAX):
            znode = await self._coordination.read(path, watch=True)
            if znode is None:
                return None
            try:
                assignment = znodes.decode_topic(znode.payload)
            except (ValueError, AttributeError, TypeError) as error:
                log.error("%s is unreadable, the topic is ignored: %s", path, error)
                return ValueError(str(error))
            if assignment.topic_id is not None:
                return assignment
            await self._add_topic_id(path, znode, assignment)
        return ValueError(f"{path} changes too fast")

    async def _add_topic_id(
        self, path: str, znode: Znode, assignment: znodes.TopicAssignment
    ) -> None:
        payload = znodes.encode_topic(
            znodes.TopicAssignment(
                self._new_uuid(), assignment.replicas, assignment.adding, assignment.removing
            )
        )
        # On a conflict somebody else changed the topic; the caller reads it again either way.
        with contextlib.suppress(CommitConflict):
            op = SetPayload(path, payload, znode.version)
            await self._term.commit(self._coordination, (op,))


def seen_topic(assignment: znodes.TopicAssignment, configs: Mapping[str, str]) -> SeenTopic:
    """A topic znode that has a topic id, as the controller's nouns."""
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
        return znodes.decode_config(znode.payload) if znode else {}
    except ValueError:
        log.error("%s is unreadable; the defaults are gone by", path)
        return {}


def _read_state(key: tuple[str, int], znode: Znode, replicas: tuple[int, ...]) -> ReadState | None:
    try:
        stored = znodes.decode_state(znode.payload)
    except (ValueError, KeyError, TypeError) as error:
        path = znodes.state_path(*key)
        log.error("%s is unreadable, the partition stays offline: %s", path, error)
        return None
    state = PartitionState(
        key[1], replicas, stored.leader, stored.leader_epoch, stored.isr, znode.version
    )
    return ReadState(state, znode.modified_zxid)


async def gather_bounded(
    keys: Iterable[Key], ask: Callable[[Key], Awaitable[Value]]
) -> list[tuple[Key, Value]]:
    """(key, answer) of every key, CALLS_IN_FLIGHT_MAX at a time."""
    answers: list[tuple[Key, Value]] = []
    waiting = list(keys)
    for start in range(0, len(waiting), CALLS_IN_FLIGHT_MAX):
        part = waiting[start : start + CALLS_IN_FLIGHT_MAX]
        answers += zip(part, await asyncio.gather(*map(ask, part)), strict=True)
    return answers
