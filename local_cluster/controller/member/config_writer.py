"""SHELL: writes configs to ZooKeeper from any broker, as Kafka's tools and brokers do.

The configs and the change notification are one commit. The controller sees the notification and
informs every broker. A commit for a topic also checks the version of the topic znode, so it leaves
no configs behind for a deleted topic. No concurrent change is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from local_cluster.controller.model import config_znodes, znode_paths
from local_cluster.controller.zk.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    Create,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.zk.term import CONFLICTS_MAX
from local_cluster.wire.errors import ErrorCode, KafkaError

ConfigPlan = Callable[[Mapping[str, str]], dict[str, str]]
"""Maps the present configs to the wanted ones; raises KafkaError."""


async def write_topic_configs(
    coordination: Coordination, topic: str, plan: ConfigPlan, *, validate_only: bool
) -> dict[str, str]:
    """Change a topic's configs (with `validate_only` only check it); return the result.

    Raises KafkaError, CoordinationUnavailable.
    """
    for _ in range(CONFLICTS_MAX):
        topic_znode = await coordination.read(znode_paths.topic_path(topic))
        deletion = await coordination.read(znode_paths.delete_topic_path(topic))
        if topic_znode is None or deletion is not None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist."
            )
        unchanged = CheckVersion(znode_paths.topic_path(topic), topic_znode.version)
        path = znode_paths.topic_config_path(topic)
        notice = config_znodes.encode_config_change("topics", topic)
        wanted, ops = await _planned(coordination, path, notice, plan)
        if validate_only or await _is_committed(coordination, (unchanged, *ops)):
            return wanted
    raise KafkaError(
        ErrorCode.request_timed_out, f"other writers keep changing the configs of {topic}"
    )


async def write_broker_configs(
    coordination: Coordination, entity: str, plan: ConfigPlan, *, validate_only: bool
) -> dict[str, str]:
    """Change the dynamic configs of a broker, or of "<default>"; return the result.

    Raises KafkaError, CoordinationUnavailable.
    """
    path = znode_paths.broker_config_path(entity)
    notice = config_znodes.encode_config_change("brokers", entity)
    for _ in range(CONFLICTS_MAX):
        wanted, ops = await _planned(coordination, path, notice, plan)
        if validate_only or await _is_committed(coordination, ops):
            return wanted
    raise KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {path}")


async def write_entity_configs(
    coordination: Coordination, entity: str, plan: ConfigPlan, *, validate_only: bool
) -> dict[str, str]:
    """Change the configs of an entity such as "groups/etl"; return the result.

    Raises KafkaError, CoordinationUnavailable.
    """
    kind, _, name = entity.partition("/")
    path = znode_paths.entity_config_path(entity)
    parent = znode_paths.entity_config_path(kind)
    notice = config_znodes.encode_config_change(kind, name)
    for _ in range(CONFLICTS_MAX):
        parents = () if await coordination.read(parent) is not None else (Create(parent),)
        wanted, ops = await _planned(coordination, path, notice, plan)
        if validate_only or await _is_committed(coordination, (*parents, *ops)):
            return wanted
    raise KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {path}")


async def _planned(
    coordination: Coordination, path: str, notice: bytes, plan: ConfigPlan
) -> tuple[dict[str, str], tuple[ZkOp, ...]]:
    """Return the wanted configs, and the operations that write them and the notification."""
    stored = await coordination.read(path)
    wanted = plan({} if stored is None else config_znodes.decode_config(stored.payload))
    payload = config_znodes.encode_config(wanted)
    write: ZkOp = (
        Create(path, payload) if stored is None else SetPayload(path, payload, stored.version)
    )
    return wanted, (write, Create(znode_paths.CONFIG_CHANGE_PREFIX, notice, sequential=True))


async def _is_committed(coordination: Coordination, ops: Sequence[ZkOp]) -> bool:
    """Commit; return False if another writer was faster."""
    try:
        await coordination.commit(ops)
    except CommitConflict:
        return False
    return True
