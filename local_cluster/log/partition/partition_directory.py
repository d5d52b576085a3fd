"""The directory of one partition: its names over its life, and its topic id.

<topic>-<partition>                     its log
<topic>-<partition>.<topic id>-delete   to be deleted
<topic>-<partition>.<topic id>-stray    set aside: assigned to no replica here (KAFKA-7362)
<topic>-<partition>.<topic id>-future   a copy that is to replace the log (KIP-113)

`moved-here` inside marks a log that was such a copy. If two directories have one name, the marked
one is right; the mark is removed once the other is gone.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from local_cluster.log.disk.files import Files
from local_cluster.log.state.checkpoints import (
    PARTITION_METADATA,
    CheckpointCorruptError,
    Key,
    decode_partition_metadata,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
MOVED_HERE: Final = "moved-here"
FILE_NAME_BYTES_MAX: Final = 255


def parse_log_name(name: str) -> Key | None:
    """Return (topic, partition) of a directory name; None if it is not one of a partition."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def deleted_name(topic: str, partition: int, topic_id: UUID | None) -> str:
    """Return the name of a directory that is to be deleted, cut to the length of a file name."""
    suffix = f".{(topic_id or UUID(int=0)).hex}{DELETE_SUFFIX}"
    return f"{topic}-{partition}"[: FILE_NAME_BYTES_MAX - len(suffix)] + suffix


def stray_name(topic: str, partition: int, topic_id: UUID) -> str:
    """Return the name of a directory that no metadata assigns to this broker.

    A long topic name loses its end, never the partition, as in Kafka. The name also leaves room
    for `-delete` in place of `-stray`.
    """
    suffix = f"-{partition}.{topic_id.hex}"
    longest = max(len(STRAY_SUFFIX), len(DELETE_SUFFIX))
    return topic[: FILE_NAME_BYTES_MAX - len(suffix) - longest] + suffix + STRAY_SUFFIX


def future_name(topic: str, partition: int, topic_id: UUID) -> str:
    """Return the name of the directory of a copy before it is the replica.

    Raises KafkaError(invalid_topic_exception) where it is too long for a file name.
    """
    name = f"{topic}-{partition}.{topic_id.hex}{FUTURE_SUFFIX}"
    if len(name) > FILE_NAME_BYTES_MAX:
        raise KafkaError(ErrorCode.invalid_topic_exception, "The topic name is too long.")
    return name


def parse_future_name(name: str) -> tuple[str, int, UUID] | None:
    """Return (topic, partition, topic id) of a copy; None if it is not one of ours."""
    log_name, _, topic_id = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    key = parse_log_name(log_name)
    try:
        return None if key is None else (*key, UUID(hex=topic_id))
    except ValueError:
        return None


def load_topic_id(files: Files, directory: str) -> UUID | None:
    """Return the id in partition.metadata; None if there is no such file.

    Raises KafkaError(kafka_storage_error) where the file is not valid, OSError.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    try:
        return decode_partition_metadata(files.read_bytes(path))
    except CheckpointCorruptError as error:
        raise KafkaError(ErrorCode.kafka_storage_error, f"{path}: {error}") from error
