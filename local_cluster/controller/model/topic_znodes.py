"""Payloads of znodes about topics: assignments, partition states, requests of old tools.

They are those of Kafka 3.9.1 (kafka.zk.ZkData), key for key. Topics of older versions are read.
Decoders raise UnreadableZnodeError on anything else.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from local_cluster.controller.model.cluster_image import NO_EPOCH, NO_LEADER, PartitionState
from local_cluster.controller.model.znode_json import (
    UnreadableZnodeError,
    broker_ids_of,
    decimal_of,
    decode_json,
    decode_uuid,
    encode_json,
    encode_uuid,
    integer_of,
    integers_of,
    object_of,
    objects_of,
    string_of,
)
from local_cluster.foreign_json import INT32_MAX

TOPIC_VERSION: Final = 3
STATE_VERSION: Final = 1
STATE_PAYLOADS_KEPT: Final = 1_024
"""Size of the caches of encoded and of decoded partition states."""


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Payload of /brokers/topics/T: the replicas of each partition."""

    topic_id: uuid.UUID | None
    """None in payloads of tools before Kafka 2.8; the controller then adds one."""
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


def encode_topic(assignment: TopicAssignment) -> bytes:
    assert assignment.topic_id is not None, "version 3 has a topic id"
    return encode_json(
        {
            "partitions": _replica_map(assignment.replicas),
            "topic_id": encode_uuid(assignment.topic_id),
            "adding_replicas": _replica_map(assignment.adding),
            "removing_replicas": _replica_map(assignment.removing),
            "version": TOPIC_VERSION,
        }
    )


def decode_topic(payload: bytes) -> TopicAssignment:
    """Read a topic of version 1, 2 or 3."""
    body = decode_json(payload)
    topic_id = body.get("topic_id")
    assignment = TopicAssignment(
        topic_id=None if topic_id is None else decode_uuid(topic_id),
        replicas=_replicas_of(body, "partitions"),
        adding=_replicas_of(body, "adding_replicas"),
        removing=_replicas_of(body, "removing_replicas"),
    )
    if not assignment.adding.keys() | assignment.removing.keys() <= assignment.replicas.keys():
        raise UnreadableZnodeError("znode payload reassigns a partition that it does not name")
    return assignment


def encode_state(state: PartitionState, *, controller_epoch: int) -> bytes:
    return _state_payload(controller_epoch, state.leader, state.leader_epoch, state.isr)


@functools.lru_cache(maxsize=STATE_PAYLOADS_KEPT)
def _state_payload(
    controller_epoch: int, leader: int, leader_epoch: int, isr: tuple[int, ...]
) -> bytes:
    # Many partitions have the same leader, epoch and ISR, and so the same bytes.
    return encode_json(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": STATE_VERSION,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
        }
    )


class StoredState(NamedTuple):
    """Payload of a state znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


@functools.lru_cache(maxsize=STATE_PAYLOADS_KEPT)
def decode_state(payload: bytes) -> StoredState:
    """Read a partition state. Cached, as many partitions have the same payload."""
    body = decode_json(payload)
    return StoredState(
        integer_of(body, "leader", NO_LEADER),
        integer_of(body, "leader_epoch", NO_EPOCH),
        broker_ids_of(body, "isr"),
        integer_of(body, "controller_epoch", NO_EPOCH),
    )


def decode_partitions(payload: bytes) -> set[tuple[str, int]]:
    """Return the partitions of an ISR change notification or a preferred replica election."""
    return {
        (string_of(entry, "topic"), integer_of(entry, "partition", minimum=0))
        for entry in objects_of(payload, "partitions")
    }


def decode_reassignments(payload: bytes) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the reassignments that a tool requests: replicas by (topic, partition).

    Whether they are possible is checked one by one: a wrong one does not cancel the others.
    """
    return {
        (string_of(entry, "topic"), integer_of(entry, "partition")): integers_of(entry, "replicas")
        for entry in objects_of(payload, "partitions")
    }


def encode_reassignments(replicas: Mapping[tuple[str, int], Sequence[int]]) -> bytes:
    return encode_json(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition, "replicas": list(ids)}
                for (topic, partition), ids in sorted(replicas.items())
            ],
        }
    )


def _replica_map(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(ids) for partition, ids in sorted(replicas.items())}


def _replicas_of(body: Mapping[str, Any], key: str) -> dict[int, tuple[int, ...]]:
    """Return the replicas by partition; none without the key."""
    found = object_of(body, key)
    replicas = {decimal_of(name, INT32_MAX): broker_ids_of(found, name) for name in found}
    if len(replicas) < len(found):
        raise UnreadableZnodeError(f"znode payload names a partition twice in {key!r}")
    return replicas
