"""Writes configs to ZooKeeper, the way Kafka's tools and brokers do, from any broker.

The configs and the change notification are one commit; that of a topic's holds only for the topic
as it was read. So configs of a topic that is being deleted are not left behind, and nobody's change
is lost. The controller sees the notification and tells every broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from local_cluster.controller.model import znodes
from local_cluster.controller.zk.coordination import (
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
    for _ in range(CONFLICTS_MAX):
        topic_znode = await coordination.read(znodes.topic_path(topic))
        deletion = await coordination.read(znodes.delete_topic_path(topic))
        if topic_znode is None or deletion is not None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist."
            )
        unchanged = CheckVersion(znodes.topic_path(topic), topic_znode.version)
        path = znodes.topic_config_path(topic)
        notice = znodes.encode_config_change("topics", topic)
        wanted, ops = await _planned(coordination, path, notice, plan)
        if validate_only or await _is_committed(coordination, (unchanged, *ops)):
            return wanted
    raise KafkaError(ErrorCode.request_timed_out, f"configs of {topic} change too fast")


async def write_broker_configs(
    coordination: Coordination, entity: str, plan: ConfigPlan, *, validate_only: bool
) -> dict[str, str]:
    """The dynamic configs of a broker, or of "<default>", after the change.

    Raises KafkaError, CoordinationUnavailable.
    """
    path = znodes.broker_config_path(entity)
    notice = znodes.encode_config_change("brokers", entity)
    for _ in range(CONFLICTS_MAX):
        wanted, ops = await _planned(coordination, path, notice, plan)
        if validate_only or await _is_committed(coordination, ops):
            return wanted
    raise KafkaError(ErrorCode.request_timed_out, f"{path} changes too fast")


async def _planned(
    coordination: Coordination, path: str, notice: bytes, plan: ConfigPlan
) -> tuple[dict[str, str], tuple[ZkOp, ...]]:
    """The configs as they should be, and the operations that make them so and say so."""
    stored = await coordination.read(path)
    wanted = plan({} if stored is None else znodes.decode_config(stored.payload))
    payload = znodes.encode_config(wanted)
    write: ZkOp = (
        Create(path, payload) if stored is None else SetPayload(path, payload, stored.version)
    )
    return wanted, (write, Create(znodes.CONFIG_CHANGE_PREFIX, notice, sequential=True))


async def _is_committed(coordination: Coordination, ops: Sequence[ZkOp]) -> bool:
    """Whether nobody else was faster."""
    try:
        await coordination.commit(ops)
    except CommitConflict:
        return False
    return True
