"""Writes a topic's configs to ZooKeeper, the way Kafka's tools and brokers do, from any broker.

The configs and the change notification are one commit that holds only for the topic as it was
read, so configs of a topic that is being deleted are not left behind and nobody's change is lost.
The controller sees the notification and tells every broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from local_cluster.controller import znodes
from local_cluster.controller.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    Create,
    SetPayload,
    ZkOp,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

CONFLICTS_MAX: Final = 5
"""How often one write is tried anew after somebody else was faster."""

ConfigPlan = Callable[[Mapping[str, str]], dict[str, str]]
"""From the configs as they are to the configs as they should be; raises KafkaError."""


async def write_topic_configs(
    coordination: Coordination, topic: str, plan: ConfigPlan, *, validate_only: bool
) -> dict[str, str]:
    """The configs after the change, which is only tried out with `validate_only`.

    Raises KafkaError, CoordinationUnavailable.
    """
    config_path = znodes.topic_config_path(topic)
    for _ in range(CONFLICTS_MAX):
        topic_znode = await coordination.read(znodes.topic_path(topic))
        deletion = await coordination.read(znodes.delete_topic_path(topic))
        if topic_znode is None or deletion is not None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist."
            )
        stored = await coordination.read(config_path)
        current = {} if stored is None else znodes.decode_config(stored.payload)
        wanted = plan(current)
        if validate_only:
            return wanted
        payload = znodes.encode_config(wanted)
        write: ZkOp = (
            Create(config_path, payload)
            if stored is None
            else SetPayload(config_path, payload, stored.version)
        )
        notification = Create(
            znodes.CONFIG_CHANGE_PREFIX,
            znodes.encode_config_change("topics", topic),
            sequential=True,
        )
        unchanged = CheckVersion(znodes.topic_path(topic), topic_znode.version)
        try:
            await coordination.commit((unchanged, write, notification))
        except CommitConflict:
            continue
        return wanted
    raise KafkaError(ErrorCode.request_timed_out, f"{config_path} changes too fast")
