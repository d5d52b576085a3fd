"""Payloads of znodes about brokers and the cluster: registration, controller, ids, features.

They are those of Kafka 3.9.1 (kafka.zk.ZkData), key for key. Registrations may have keys of our own
behind those, which Kafka does not read. Registrations of older versions are read. Decoders raise
UnreadableZnodeError on anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from local_cluster.controller.model.cluster_image import BrokerEndpoints
from local_cluster.controller.model.znode_json import (
    UnreadableZnodeError,
    decimal_of,
    decode_json,
    encode_json,
    integer_of,
    string_of,
    strings_of,
)
from local_cluster.foreign_json import INT32_MAX

BROKER_VERSION: Final = 5
CONTROLLER_VERSION: Final = 2
INITIAL_CONTROLLER_EPOCH: Final = 0
LOG_DIR_FAILURE_EVENT: Final = 1
PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1
PORT_MAX: Final = 65_535

_NO_KEYS: Final[Mapping[str, Any]] = {}
_ENDPOINT: Final = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})$")


def encode_broker(
    endpoints: Sequence[tuple[str, str, int]],
    security_protocols: Mapping[str, str],
    *,
    rack: str | None,
    timestamp_ms: int,
    own_keys: Mapping[str, Any] = _NO_KEYS,
) -> bytes:
    """Encode the registration of a broker; `endpoints` are (listener name, host, port)."""
    plaintext = [e for e in endpoints if security_protocols[e[0]] == "PLAINTEXT"]
    # Clients too old to know endpoints read these; without a plaintext listener they can't connect.
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
        **own_keys,
    }
    return encode_json(body)


def decode_broker(broker_id: int, payload: bytes, *, broker_epoch: int) -> BrokerEndpoints:
    """Read a registration of any version from 1 to 5."""
    body = decode_json(payload)
    version = integer_of(body, "version", minimum=1)
    if version == 1:
        host, port = string_of(body, "host"), integer_of(body, "port", -1, PORT_MAX)
        return BrokerEndpoints(
            broker_id, None, {"PLAINTEXT": (host, port)}, broker_epoch, {"PLAINTEXT": "PLAINTEXT"}
        )
    listeners: dict[str, tuple[str, int]] = {}
    for name, host, port in _endpoints_of(body):
        listeners[name] = (host, port)
    # Before version 4 a listener was named after its security protocol.
    protocols = strings_of(body, "listener_security_protocol_map")
    rack = None if body.get("rack") is None else string_of(body, "rack")
    return BrokerEndpoints(
        broker_id, rack, listeners, broker_epoch, protocols or {name: name for name in listeners}
    )


def _endpoints_of(body: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (listener name, host, port) of a registration; port -1 stands for none."""
    endpoints = body.get("endpoints")
    if not isinstance(endpoints, list):
        raise UnreadableZnodeError("the broker registration has no list of endpoints")
    for endpoint in endpoints:
        match = _ENDPOINT.match(endpoint) if isinstance(endpoint, str) else None
        if match is None or not -1 <= int(match[3]) <= PORT_MAX:
            raise UnreadableZnodeError("the broker registration has an endpoint that is none")
        yield match[1], match[2], int(match[3])


def encode_controller(broker_id: int, *, timestamp_ms: int) -> bytes:
    return encode_json(
        {
            "version": CONTROLLER_VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(payload: bytes) -> int:
    """Return the broker id of the elected controller."""
    return integer_of(decode_json(payload), "brokerid", minimum=0)


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(payload: bytes) -> int:
    return decimal_of(payload.decode("ascii", "replace"), INT32_MAX)


def encode_log_dir_event(broker_id: int) -> bytes:
    """Encode the notification that a log directory of a broker failed (KIP-112)."""
    return encode_json({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE_EVENT})


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(payload: bytes) -> str:
    return string_of(decode_json(payload), "id")


def encode_feature() -> bytes:
    """Encode the features: none is finalized, feature versioning is enabled."""
    return encode_json({"features": {}, "version": 2, "status": 1})


def encode_producer_id_block(broker_id: int, block: range) -> bytes:
    """Encode a block of producer ids: its bounds as strings, the last id inclusive."""
    return encode_json(
        {
            "version": 1,
            "broker": broker_id,
            "block_start": str(block.start),
            "block_end": str(block.stop - 1),
        }
    )


def next_producer_id_block(payload: bytes) -> range:
    """Return the block after the stored one. Raises OverflowError if no ids are left."""
    start = decimal_of(string_of(decode_json(payload), "block_end")) + 1 if payload else 0
    if start > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise OverflowError("no producer ids are left")
    return range(start, start + PRODUCER_ID_BLOCK_SIZE)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
