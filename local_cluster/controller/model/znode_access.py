"""Who may do what with a znode, as Kafka 3.9 decides it (kafka.zk.ZkData.defaultAcls). Pure.

With zookeeper.set.acl a znode belongs to whoever created it. The world may read it, unless it holds
secrets. /consumers stays open, because consumers of old write below it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from local_cluster.controller.model import znode_paths

SET_ACL: Final = "zookeeper.set.acl"
"""Kafka's broker config."""
SENSITIVE_ROOTS: Final = (
    znode_paths.USER_CONFIGS,
    znode_paths.BROKER_CONFIGS,
    "/delegation_token/tokens",
)
"""Kafka's SensitiveRootPaths: SCRAM credentials, passwords of listeners, keys of tokens."""
SECURE_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    znode_paths.CONTROLLER,
    znode_paths.CONTROLLER_EPOCH,
    znode_paths.ISR_CHANGE_NOTIFICATION,
    znode_paths.PRODUCER_ID_BLOCK,
    znode_paths.LOG_DIR_EVENTS,
    "/delegation_token",
    "/migration",
    znode_paths.FEATURE,
    znode_paths.ACLS,
    znode_paths.ACL_CHANGES,
    "/kafka-acl-extended",
    znode_paths.PREFIXED_ACL_CHANGES,
    znode_paths.DECLARED_RIGHTS,
    znode_paths.MIRROR_PRODUCERS,
    znode_paths.TOPOLOGY_FILE,
    znode_paths.RESTART_TURN,
    znode_paths.UPGRADE_PLAN,
    znode_paths.UPGRADE_TURN,
    znode_paths.FORMAT_LEVEL,
)
"""Roots that a migration secures: Kafka's SecureRootPaths, and our own."""


class ZnodeAccess(Enum):
    """Who may use a znode."""

    OPEN = "open"
    """Everybody may do everything."""
    WORLD_READABLE = "world-readable"
    """Its creator may do everything, the world may read."""
    CREATOR_ONLY = "creator-only"
    """Its creator may do everything, the world nothing."""


def access_of(path: str, *, sets_acl: bool) -> ZnodeAccess:
    """Return the access of a znode; `path` is below the chroot, "/" is the chroot itself."""
    if not sets_acl or path == znode_paths.CONSUMERS:
        return ZnodeAccess.OPEN
    is_sensitive = any(path == root or path.startswith(f"{root}/") for root in SENSITIVE_ROOTS)
    return ZnodeAccess.CREATOR_ONLY if is_sensitive else ZnodeAccess.WORLD_READABLE
