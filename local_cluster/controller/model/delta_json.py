"""Bytes of the private inter-broker requests: a version byte, then JSON.

A response is the version byte and {"error_code", "error_message"}. The response to a delta also
reports what failed disks prevent, in {"offline", "undeleted"}. A refusal names the lowest
controller epoch that the broker accepts, in {"epoch_min"}.

Guarantee: a body of another version, or one that is not a delta, raises ValueError; it is never
read in part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from local_cluster.controller.model.cluster_image import (
    ALL_WELL,
    NO_EPOCH,
    BrokerEndpoints,
    ClusterDelta,
    PartitionState,
    ReplicaReport,
    TopicState,
)
from local_cluster.controller.model.znode_json import decode_uuid, encode_uuid
from local_cluster.foreign_json import parse_object
from local_cluster.wire.errors import ErrorCode

DELTA_VERSION: Final = 1


def encode_delta(delta: ClusterDelta) -> bytes:
    body = {
        "full": delta.full,
        "controller_id": delta.controller_id,
        "controller_epoch": delta.controller_epoch,
        "sequence": delta.sequence,
        "base_sequence": delta.base_sequence,
        "broker_epoch": delta.broker_epoch,
        "brokers": {
            str(broker_id): None if broker is None else _broker_body(broker)
            for broker_id, broker in delta.brokers.items()
        },
        "topics": {
            name: None if topic is None else _topic_body(topic)
            for name, topic in delta.topics.items()
        },
        "deletions": {name: encode_uuid(topic_id) for name, topic_id in delta.deletions.items()},
        "broker_configs": _configs_body(delta.broker_configs),
        "entity_configs": _configs_body(delta.entity_configs),
        "offline": {
            str(broker_id): None if partitions is None else _partitions_body(partitions)
            for broker_id, partitions in delta.offline.items()
        },
        "is_whole": delta.is_whole,
    }
    return _encode(body)


def decode_delta(payload: bytes) -> ClusterDelta:
    """Raises ValueError."""
    body = _decode(payload)
    try:
        return ClusterDelta(
            full=bool(body["full"]),
            controller_id=int(body["controller_id"]),
            controller_epoch=int(body["controller_epoch"]),
            sequence=int(body["sequence"]),
            base_sequence=int(body["base_sequence"]),
            broker_epoch=int(body["broker_epoch"]),
            brokers={
                int(broker_id): None if broker is None else _read_broker(int(broker_id), broker)
                for broker_id, broker in body["brokers"].items()
            },
            topics={
                name: None if topic is None else _read_topic(name, topic)
                for name, topic in body["topics"].items()
            },
            deletions={name: decode_uuid(text) for name, text in body["deletions"].items()},
            # Controllers of earlier releases send none.
            broker_configs=dict(body.get("broker_configs", {})),
            entity_configs=dict(body.get("entity_configs", {})),
            offline={
                int(broker_id): None if partitions is None else _read_partitions(partitions)
                for broker_id, partitions in body.get("offline", {}).items()
            },
            is_whole=bool(body.get("is_whole", False)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a cluster delta: {error!r}") from error


def _configs_body(
    entities: Mapping[str, Mapping[str, str] | None],
) -> dict[str, dict[str, str] | None]:
    return {
        entity: None if configs is None else dict(configs) for entity, configs in entities.items()
    }


def encode_hand_over(broker_id: int, broker_epoch: int) -> bytes:
    """Encode the body of a HAND_OVER request; its response is that of a delta."""
    return _encode({"broker_id": broker_id, "broker_epoch": broker_epoch})


def decode_hand_over(payload: bytes) -> tuple[int, int]:
    """Return (broker id, broker epoch). Raises ValueError."""
    body = _decode(payload)
    try:
        return int(body["broker_id"]), int(body["broker_epoch"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a HAND_OVER request: {error!r}") from error


class Reply(NamedTuple):
    """The response of a broker to a private request."""

    error_code: ErrorCode
    message: str = ""
    report: ReplicaReport = ALL_WELL
    epoch_min: int = NO_EPOCH
    """The lowest controller epoch that the broker accepts; NO_EPOCH if it does not say."""


def encode_reply(
    code: ErrorCode,
    message: str = "",
    report: ReplicaReport = ALL_WELL,
    epoch_min: int = NO_EPOCH,
) -> bytes:
    return _encode(
        {
            "error_code": int(code),
            "error_message": message,
            "offline": _partitions_body(report.offline),
            "undeleted": [encode_uuid(each) for each in sorted(report.undeleted)],
            "epoch_min": epoch_min,
        }
    )


def decode_reply(payload: bytes) -> Reply:
    """Raises ValueError."""
    body = _decode(payload)
    try:
        return Reply(
            ErrorCode(int(body["error_code"])),
            str(body["error_message"]),
            ReplicaReport(
                _read_partitions(body.get("offline", {})),
                frozenset(decode_uuid(text) for text in body.get("undeleted", ())),
            ),
            # Brokers of earlier releases leave it out.
            int(body.get("epoch_min", NO_EPOCH)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a response to a private request: {error!r}") from error


def _partitions_body(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    body: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        body.setdefault(topic, []).append(index)
    return body


def _read_partitions(body: dict[str, list[int]]) -> frozenset[tuple[str, int]]:
    return frozenset((topic, int(index)) for topic, indexes in body.items() for index in indexes)


def _broker_body(broker: BrokerEndpoints) -> dict[str, Any]:
    return {
        "rack": broker.rack,
        "epoch": broker.broker_epoch,
        "listeners": {name: [host, port] for name, (host, port) in broker.listeners.items()},
        "security_protocols": dict(broker.security_protocols),
    }


def _read_broker(broker_id: int, body: dict[str, Any]) -> BrokerEndpoints:
    return BrokerEndpoints(
        broker_id,
        body["rack"],
        {name: (str(host), int(port)) for name, (host, port) in body["listeners"].items()},
        int(body["epoch"]),
        dict(body["security_protocols"]),
    )


def _topic_body(topic: TopicState) -> dict[str, Any]:
    return {
        "id": encode_uuid(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [
            [p.partition, p.replicas, p.leader, p.leader_epoch, p.isr, p.zk_version]
            for p in topic.partitions.values()
        ],
    }


def _read_topic(name: str, body: dict[str, Any]) -> TopicState:
    partitions = {}
    for partition, replicas, leader, leader_epoch, isr, zk_version in body["partitions"]:
        partitions[int(partition)] = PartitionState(
            int(partition),
            tuple(replicas),
            int(leader),
            int(leader_epoch),
            tuple(isr),
            int(zk_version),
        )
    return TopicState(name, decode_uuid(body["id"]), partitions, dict(body["configs"]))


def _encode(body: dict[str, Any]) -> bytes:
    return bytes((DELTA_VERSION,)) + json.dumps(body, separators=(",", ":")).encode()


def _decode(payload: bytes) -> dict[str, Any]:
    if not payload or payload[0] != DELTA_VERSION:
        raise ValueError(f"private request of version {payload[:1].hex() or 'none'}")
    return parse_object(payload[1:])
