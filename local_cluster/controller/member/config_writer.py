"""SHELL: writes configs to ZooKeeper from any broker, as Kafka's tools and brokers do.

The configs and the change notification are one commit. The controller sees the notification and
informs every broker. A commit for a topic also checks the version of the topic znode, so it leaves
no configs behind for a deleted topic. No concurrent change is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from local_cluster.controller.model import config_znodes, znode_paths
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    Create,
    Delete,
    SetPayload,
    ZkOp,
    Znode,
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


async def write_client_configs(
    coordination: Coordination, path: str, plan: ConfigPlan, *, validate_only: bool
) -> None:
    """Change the configs of a user, a client id, both, or an address.

    As in Kafka 3.9, a znode without configs and children is deleted, and so is the user above it if
    the user has nothing else. Raises KafkaError, CoordinationUnavailable.
    """
    kind, _, name = path.removeprefix(f"{znode_paths.CONFIGS}/").partition("/")
    notice = config_znodes.encode_config_change(kind, name)
    for _ in range(CONFLICTS_MAX):
        stored = await coordination.read(path)
        present = _stored_configs(path, stored)
        wanted = plan(present)
        if validate_only or wanted == present:
            return
        if wanted:
            payload = config_znodes.encode_config(wanted)
            ops: tuple[ZkOp, ...] = (
                (*await _missing_parents(coordination, path), Create(path, payload))
                if stored is None
                else (SetPayload(path, payload, stored.version),)
            )
        else:
            assert stored is not None, "configs that are deleted were stored"
            ops = await _removal(coordination, path, stored.version)
        change = Create(znode_paths.CONFIG_CHANGE_PREFIX, notice, sequential=True)
        if await _is_committed(coordination, (*ops, change)):
            return
    raise KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {path}")


async def _missing_parents(coordination: Coordination, path: str) -> tuple[Create, ...]:
    """Return what creates the znodes above one, as far as they do not exist."""
    missing: list[Create] = []
    parent = path.rpartition("/")[0]
    while parent and await coordination.read(parent) is None:
        missing.append(Create(parent))
        parent = parent.rpartition("/")[0]
    return tuple(reversed(missing))


async def _removal(coordination: Coordination, path: str, version: int) -> tuple[ZkOp, ...]:
    """Return what takes the configs of a znode away, and all znodes that are then of no use."""
    if await coordination.children(path):
        return (SetPayload(path, config_znodes.encode_config({}), version),)
    ops: list[ZkOp] = [Delete(path, version)]
    folder, _, name = path.rpartition("/")
    user_path = folder.rpartition("/")[0]
    if user_path.rpartition("/")[0] != znode_paths.USER_CONFIGS:
        return tuple(ops)
    # The client ids of a user. A sibling that is created meanwhile makes the commit fail.
    if await coordination.children(folder) == (name,):
        ops.append(Delete(folder))
        user = await coordination.read(user_path)
        if user is not None and not _stored_configs(user_path, user):
            ops.append(Delete(user_path, user.version))
    return tuple(ops)


async def _planned(
    coordination: Coordination, path: str, notice: bytes, plan: ConfigPlan
) -> tuple[dict[str, str], tuple[ZkOp, ...]]:
    """Return the wanted configs, and the operations that write them and the notification."""
    stored = await coordination.read(path)
    wanted = plan(_stored_configs(path, stored))
    payload = config_znodes.encode_config(wanted)
    write: ZkOp = (
        Create(path, payload) if stored is None else SetPayload(path, payload, stored.version)
    )
    return wanted, (write, Create(znode_paths.CONFIG_CHANGE_PREFIX, notice, sequential=True))


def _stored_configs(path: str, znode: Znode | None) -> dict[str, str]:
    """Return the configs to change. Raises KafkaError if they cannot be read."""
    try:
        return {} if znode is None else config_znodes.decode_config(znode.payload)
    except UnreadableZnodeError as error:
        raise KafkaError(
            ErrorCode.unknown_server_error,
            f"{path} in ZooKeeper is unreadable: repair or delete it there",
        ) from error


async def _is_committed(coordination: Coordination, ops: Sequence[ZkOp]) -> bool:
    """Commit; return False if another writer was faster."""
    try:
        await coordination.commit(ops)
    except CommitConflict:
        return False
    return True
