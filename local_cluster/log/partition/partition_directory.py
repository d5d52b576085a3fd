"""The directory of one partition: its names over its life, and its topic id.

<topic>-<partition>                     its log
<topic>-<partition>.<topic id>-delete   on its way out
<topic>-<partition>.<topic id>-stray    nobody assigns it to this broker (KAFKA-7362)
<topic>-<partition>.<topic id>-future   a copy that is to replace it (KIP-113)

`moved-here` in it says that it was such a copy: of two directories with one name it is the right
one, until the other is gone.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from local_cluster.log.disk.files import Files
from local_cluster.log.state import checkpoints as c
from local_cluster.wire.errors import ErrorCode, KafkaError

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
MOVED_HERE: Final = "moved-here"
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


def future_name(topic: str, partition: int, topic_id: UUID) -> str:
    """What the directory of a copy is called before it is the replica.

    Raises KafkaError(invalid_topic_exception) where that is too long for a file name.
    """
    name = f"{topic}-{partition}.{topic_id.hex}{FUTURE_SUFFIX}"
    if len(name) > FILE_NAME_BYTES_MAX:
        raise KafkaError(ErrorCode.invalid_topic_exception, "The topic name is too long.")
    return name


def parse_future_name(name: str) -> tuple[str, int, UUID] | None:
    """(topic, partition, topic id) of a copy, None if it is not one of ours."""
    log_name, _, topic_id = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    key = parse_log_name(log_name)
    try:
        return None if key is None else (*key, UUID(hex=topic_id))
    except ValueError:
        return None


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
