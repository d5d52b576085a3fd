"""The directory of one partition: its name, the names on its way out, and its topic id."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from local_cluster.wire.errors import ErrorCode, KafkaError

from . import checkpoints as c
from .files import Files

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
"""Of a log of a topic that is no more, kept for people to look at; as Kafka names it."""
FILE_NAME_BYTES_MAX: Final = 255


def parse_log_name(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory name, None if it is not one of a partition."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def name_on_the_way_out(topic: str, partition: int, topic_id: UUID | None, suffix: str) -> str:
    """What a directory is renamed to, as long as a file name may be."""
    suffix = f".{(topic_id or UUID(int=0)).hex}{suffix}"
    return f"{topic}-{partition}"[: FILE_NAME_BYTES_MAX - len(suffix)] + suffix


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
