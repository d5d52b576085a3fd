"""The formats of Kafka's small text files, as pure functions over bytes.

- offset checkpoints (recovery-point-offset-checkpoint, replication-offset-checkpoint,
  log-start-offset-checkpoint, cleaner-offset-checkpoint): version 0, the number of lines, then
  `topic partition offset`
- leader-epoch-checkpoint: version 0, the number of lines, then `epoch start_offset`
- partition.metadata: `version: 0` and `topic_id: <22 characters, URL-safe base64>`
- meta.properties: `version=0`, `broker.id`, `cluster.id`
- .kafka_cleanshutdown: JSON with a version

Every decoder raises CheckpointCorruptError and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from local_cluster.log.state.epochs import EpochEntry

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

OFFSET_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 19
_VERSION: Final = 0

Key = tuple[str, int]
"""Topic and partition."""


class CheckpointCorruptError(ValueError):
    """A file that is not in its format."""


def encode_offsets(offsets: Mapping[Key, int]) -> bytes:
    lines = [
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    ]
    return _encode_lines(lines)


def decode_offsets(content: bytes) -> dict[Key, int]:
    offsets = {}
    for line in _decode_lines(content):
        try:
            topic, partition, offset = line.split()
            offsets[topic, _number(partition)] = _number(offset)
        except ValueError as error:
            raise CheckpointCorruptError(f"not `topic partition offset`: {line!r}") from error
    return offsets


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    return _encode_lines([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def decode_epochs(content: bytes) -> list[EpochEntry]:
    entries = []
    for line in _decode_lines(content):
        try:
            epoch, start_offset = line.split()
            entries.append(EpochEntry(_number(epoch), _number(start_offset)))
        except ValueError as error:
            raise CheckpointCorruptError(f"not `epoch offset`: {line!r}") from error
    return entries


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {encode_topic_id(topic_id)}".encode()


def decode_partition_metadata(content: bytes) -> UUID:
    fields = _decode_properties(content, ":")
    if fields.get("version") != str(_VERSION):
        raise CheckpointCorruptError(f"partition.metadata of version {fields.get('version')}")
    return decode_topic_id(fields.get("topic_id", ""))


def encode_topic_id(topic_id: UUID) -> str:
    """Return Kafka's text of a Uuid: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> UUID:
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError) as error:
        raise CheckpointCorruptError(f"not a topic id: {text!r}") from error


def encode_meta_properties(broker_id: int, cluster_id: str) -> bytes:
    return f"#\nversion={_VERSION}\nbroker.id={broker_id}\ncluster.id={cluster_id}\n".encode()


def decode_meta_properties(content: bytes) -> tuple[int, str]:
    """Return (broker id, cluster id)."""
    fields = _decode_properties(content, "=")
    try:
        return _number(fields["broker.id"]), fields["cluster.id"]
    except (KeyError, ValueError) as error:
        raise CheckpointCorruptError(f"meta.properties: {fields}") from error


def encode_clean_shutdown() -> bytes:
    return json.dumps({"version": _VERSION, "brokerEpoch": -1}).encode()


def _encode_lines(lines: list[str]) -> bytes:
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _decode_lines(content: bytes) -> list[str]:
    try:
        lines = content.decode().splitlines()
        version, count = _number(lines[0]), _number(lines[1])
    except (UnicodeDecodeError, ValueError, IndexError) as error:
        raise CheckpointCorruptError(f"checkpoint without a header: {content[:64]!r}") from error
    if version != _VERSION:
        raise CheckpointCorruptError(f"checkpoint of version {version}")
    entries = [line for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CheckpointCorruptError(f"{len(entries)} lines, the header says {count}")
    return entries


def _number(text: str) -> int:
    """Return a number from 0 to 2**63 - 1. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX or int(text) > OFFSET_MAX:
        raise ValueError(f"not a number from 0 to {OFFSET_MAX}: {text[:40]!r}")
    return int(text)


def _decode_properties(content: bytes, separator: str) -> dict[str, str]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise CheckpointCorruptError(f"not text: {content[:64]!r}") from error
    fields = {}
    for line in text.splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith("#"):
            fields[name.strip()] = value.strip()
    return fields
