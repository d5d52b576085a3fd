"""The directory of one partition: its names over its life, and its topic id.

<topic>-<partition>                     its log
<topic>-<partition>.<topic id>-delete   on its way out
<topic>-<partition>.<topic id>-stray    nobody assigns it to this broker (KAFKA-7362)
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from local_cluster.wire.errors import ErrorCode, KafkaError

from . import checkpoints as c
from .files import Files

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FILE_NAME_BYTES_MAX: Final = 255


def parse_log_name(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory name, None if it is not one of a partition."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def deleted_name(topic: str, partition: int, topic_id: UUID | None) -> str:
    """What a directory is renamed to before it is removed, as long as a file name may be."""
    suffix = f".{(topic_id or UUID(int=0)).hex}{DELETE_SUFFIX}"
    return f"{topic}-{partition}"[: FILE_NAME_BYTES_MAX - len(suffix)] + suffix


def stray_name(topic: str, partition: int, topic_id: UUID) -> str:
    """What a directory is renamed to that no metadata assigns to this broker.

    Of a long topic name the end is left out, never the partition (as in Kafka), and the name it
    has on its way out is no longer than a file name may be either.
    """
    suffix = f"-{partition}.{topic_id.hex}"
    longest = max(len(STRAY_SUFFIX), len(DELETE_SUFFIX))
    return topic[: FILE_NAME_BYTES_MAX - len(suffix) - longest] + suffix + STRAY_SUFFIX


def load_topic_id(files: Files, directory: str) -> UUID | None:
    """The id in partition.metadata, None if there is no such file.

    Raises KafkaError(kafka_storage_error) where it cannot be right, OSError.
    """
    path = f"{directory}/{c.PARTITION_METADATA}"
    if not files.exists(path):
        return None
    try:
        return c.decode_partition_metadata(files.read_bytes(path))
    except c.CheckpointCorruptError as error:
        raise KafkaError(ErrorCode.kafka_storage_error, f"{path}: {error}") from error
