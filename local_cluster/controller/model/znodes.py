"""Every path and payload in ZooKeeper, as Kafka 3.9 lays them out in ZooKeeper mode.

Guarantees: what is written here is what `kafka.zk.ZkData` of Kafka 3.9.1 writes, key for key; what
Kafka 3.9 and older tools wrote is read. Decoders raise ValueError on anything else, and never
return half of it.

Not here: reading and writing (zk_shell.py), what to write (fsm.py).
"""

from __future__ import annotations

import base64
import functools
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from local_cluster.controller.model.cluster_image import BrokerEndpoints, PartitionState

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
DELETE_TOPICS: Final = "/admin/delete_topics"
BROKER_CONFIGS: Final = "/config/brokers"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

PERSISTENT_PATHS: Final = (
    "/consumers",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/config",
    "/config/topics",
    "/config/clients",
    "/config/users",
    BROKER_CONFIGS,
    "/config/ips",
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/cluster",
)
"""Created at every start where absent, parents first."""

BROKER_VERSION: Final = 5
CONTROLLER_VERSION: Final = 2
TOPIC_VERSION: Final = 3
STATE_VERSION: Final = 1
INITIAL_CONTROLLER_EPOCH: Final = 0
LOG_DIR_FAILURE_EVENT: Final = 1
PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1
STATE_PAYLOADS_KEPT: Final = 1_024

_ENDPOINT: Final = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$")


def broker_id_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"/config/topics/{topic}"


def broker_config_path(entity: str) -> str:
    return f"{BROKER_CONFIGS}/{entity}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


# -- payloads ------------------------------------------------------------------------------------


def encode_broker(
    endpoints: Sequence[tuple[str, str, int]],
    security_protocols: Mapping[str, str],
    *,
    rack: str | None,
    timestamp_ms: int,
) -> bytes:
    """Registration of a broker; `endpoints` are (listener name, host, port)."""
    plaintext = [e for e in endpoints if security_protocols[e[0]] == "PLAINTEXT"]
    # Only for clients too old to know endpoints; without a plaintext listener they can't connect.
    host, port = (plaintext[0][1], plaintext[0][2]) if plaintext else (None, -1)
    body: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": dict(security_protocols),
        "endpoints": [f"{name}://{_bracketed(host)}:{port}" for name, host, port in endpoints],
    }
    if rack is not None:
        body["rack"] = rack
    body |= {
        "jmx_port": -1,
        "port": port,
        "host": host,
        "version": BROKER_VERSION,
        "timestamp": str(timestamp_ms),
    }
    return _encode(body)


def decode_broker(broker_id: int, payload: bytes, *, broker_epoch: int) -> BrokerEndpoints:
    """Read a registration of any version from 1 to 5."""
    body = _decode(payload)
    version = _integer(body, "version")
    if version < 1:
        raise ValueError(f"broker registration version {version}")
    if version == 1:
        host, port = _string(body, "host"), _integer(body, "port")
        return BrokerEndpoints(
            broker_id, None, {"PLAINTEXT": (host, port)}, broker_epoch, {"PLAINTEXT": "PLAINTEXT"}
        )
    listeners: dict[str, tuple[str, int]] = {}
    for endpoint in body["endpoints"]:
        match = _ENDPOINT.match(endpoint)
        if match is None:
            raise ValueError(f"broker endpoint {endpoint!r}")
        listeners[match[1]] = (match[2], int(match[3]))
    # Before version 4 a listener was named after its security protocol.
    protocols = body.get("listener_security_protocol_map") or {name: name for name in listeners}
    return BrokerEndpoints(broker_id, body.get("rack"), listeners, broker_epoch, dict(protocols))


def encode_controller(broker_id: int, *, timestamp_ms: int) -> bytes:
    return _encode(
        {
            "version": CONTROLLER_VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(payload: bytes) -> int:
    """Broker id of the elected controller."""
    return _integer(_decode(payload), "brokerid")


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(payload: bytes) -> int:
    return int(payload.decode())


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Payload of /brokers/topics/T: where the replicas are to be."""

    topic_id: uuid.UUID | None
    """None in what tools wrote before Kafka 2.8; the controller then adds one."""
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


def encode_topic(assignment: TopicAssignment) -> bytes:
    assert assignment.topic_id is not None, "version 3 has a topic id"
    return _encode(
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
    body = _decode(payload)
    topic_id = body.get("topic_id")
    return TopicAssignment(
        topic_id=None if topic_id is None else decode_uuid(topic_id),
        replicas=_read_replica_map(body.get("partitions", {})),
        adding=_read_replica_map(body.get("adding_replicas", {})),
        removing=_read_replica_map(body.get("removing_replicas", {})),
    )


def encode_state(state: PartitionState, *, controller_epoch: int) -> bytes:
    return _state_payload(controller_epoch, state.leader, state.leader_epoch, state.isr)


@functools.lru_cache(maxsize=STATE_PAYLOADS_KEPT)
def _state_payload(
    controller_epoch: int, leader: int, leader_epoch: int, isr: tuple[int, ...]
) -> bytes:
    """Many partitions have the same leader, epoch and ISR, and so the same bytes."""
    return _encode(
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
    """As `encode_state` wrote it, or Kafka; asked the same again and again."""
    body = _decode(payload)
    return StoredState(
        _integer(body, "leader"),
        _integer(body, "leader_epoch"),
        tuple(int(replica) for replica in body["isr"]),
        _integer(body, "controller_epoch"),
    )


def encode_log_dir_event(broker_id: int) -> bytes:
    """A broker's word that a log directory of it failed (KIP-112)."""
    return _encode({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE_EVENT})


def encode_config(configs: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(configs)})


def decode_config(payload: bytes) -> dict[str, str]:
    """Read an entity's configs; an empty znode has none."""
    if not payload:
        return {}
    configs = _decode(payload).get("config") or {}
    if not isinstance(configs, dict):
        raise ValueError(f"znode payload has no object 'config': {payload[:100]!r}")
    return {str(name): str(value) for name, value in configs.items()}


def encode_config_change(entity_type: str, entity_name: str) -> bytes:
    return _encode({"version": 2, "entity_path": f"{entity_type}/{entity_name}"})


def decode_config_change(payload: bytes) -> tuple[str, str] | None:
    """(entity type, entity name) of a config change notification; None for a nested entity."""
    body = _decode(payload)
    if body.get("version") == 1:
        return _string(body, "entity_type"), _string(body, "entity_name")
    entity_type, _, name = _string(body, "entity_path").partition("/")
    return None if "/" in name else (entity_type, name)


def decode_partitions(payload: bytes) -> set[tuple[str, int]]:
    """What an ISR change notification or a preferred replica election names."""
    return {
        (_string(entry, "topic"), _integer(entry, "partition"))
        for entry in _entries(payload, "partitions")
    }


def decode_reassignments(payload: bytes) -> dict[tuple[str, int], tuple[int, ...]]:
    """What a tool asks to move: replicas by (topic, partition)."""
    return {
        (_string(entry, "topic"), _integer(entry, "partition")): _integers(entry, "replicas")
        for entry in _entries(payload, "partitions")
    }


def encode_reassignments(replicas: Mapping[tuple[str, int], Sequence[int]]) -> bytes:
    return _encode(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition, "replicas": list(ids)}
                for (topic, partition), ids in sorted(replicas.items())
            ],
        }
    )


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(payload: bytes) -> str:
    return _string(_decode(payload), "id")


def encode_feature() -> bytes:
    """No finalized features, feature versioning enabled."""
    return _encode({"features": {}, "version": 2, "status": 1})


def encode_producer_id_block(broker_id: int, block: range) -> bytes:
    """A block of producer ids; Kafka stores its bounds as strings, the last id inclusive."""
    return _encode(
        {
            "version": 1,
            "broker": broker_id,
            "block_start": str(block.start),
            "block_end": str(block.stop - 1),
        }
    )


def next_producer_id_block(payload: bytes) -> range:
    """The block after the one that is stored. Raises OverflowError when ids have run out."""
    start = int(_string(_decode(payload), "block_end")) + 1 if payload else 0
    if start > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise OverflowError("producer ids have run out")
    return range(start, start + PRODUCER_ID_BLOCK_SIZE)


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's text of a UUID: base64url of its 16 bytes, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


# -- inside --------------------------------------------------------------------------------------


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _replica_map(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(ids) for partition, ids in sorted(replicas.items())}


def _read_replica_map(body: Any) -> dict[int, tuple[int, ...]]:
    return {int(partition): tuple(int(i) for i in ids) for partition, ids in body.items()}


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _decode(payload: bytes) -> dict[str, Any]:
    body = json.loads(payload)
    if not isinstance(body, dict):
        raise ValueError(f"znode payload is not a JSON object: {payload[:100]!r}")
    return body


def _entries(payload: bytes, key: str) -> list[dict[str, Any]]:
    entries = _decode(payload).get(key)
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError(f"znode payload has no list of objects {key!r}")
    return entries


def _integers(body: Mapping[str, Any], key: str) -> tuple[int, ...]:
    values = body.get(key)
    if not isinstance(values, list):
        raise ValueError(f"znode payload has no list {key!r}")
    try:
        return tuple(int(value) for value in values)
    except TypeError as error:
        raise ValueError(f"znode payload has no list of integers {key!r}") from error


def _integer(body: Mapping[str, Any], key: str) -> int:
    try:
        return int(body[key])
    except (KeyError, TypeError) as error:
        raise ValueError(f"znode payload has no integer {key!r}") from error


def _string(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ValueError(f"znode payload has no string {key!r}")
    return value
