"""Payloads of znodes about configs: of a topic or broker, and the change notifications.

They are those of Kafka 3.9.1 (kafka.zk.ZkData), key for key. Decoders raise UnreadableZnodeError on
anything else.
"""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.controller.model.znode_json import (
    decode_json,
    encode_json,
    string_of,
    strings_of,
)


def encode_config(configs: Mapping[str, str]) -> bytes:
    return encode_json({"version": 1, "config": dict(configs)})


def decode_config(payload: bytes) -> dict[str, str]:
    """Read the configs of an entity; an empty znode has none."""
    if not payload:
        return {}
    return strings_of(decode_json(payload), "config")


def encode_config_change(entity_type: str, entity_name: str) -> bytes:
    return encode_json({"version": 2, "entity_path": f"{entity_type}/{entity_name}"})


def decode_config_change(payload: bytes) -> tuple[str, str] | None:
    """Return (entity type, entity name) of a change notification; None for a nested entity."""
    body = decode_json(payload)
    if body.get("version") == 1:
        return string_of(body, "entity_type"), string_of(body, "entity_name")
    entity_type, _, name = string_of(body, "entity_path").partition("/")
    return None if "/" in name else (entity_type, name)
