"""How brokers and commands use the ZooKeeper of a cluster, from the settings of a broker. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cluster.client.auth.security import Secret
from local_cluster.client.auth.zookeeper_security import NO_ZOOKEEPER_USER, ZooKeeperSecurity
from local_cluster.controller.model.znode_access import SET_ACL
from topology.model import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAccess:
    """Where a cluster's znodes are, and as whom they are used."""

    connect: str
    """Connect string with the chroot of the cluster."""
    security: ZooKeeperSecurity = NO_ZOOKEEPER_USER
    sets_acl: bool = False
    """Whether new znodes get Kafka's ACLs."""


def zookeeper_client(cluster: Cluster, directory: Path) -> ZooKeeperSecurity:
    """Return as whom a cluster's ZooKeeper is used; names of secrets start at `directory`."""
    security = cluster.zookeeper_security
    return NO_ZOOKEEPER_USER if security is None else security.client(directory)


def access_of_broker(files: Mapping[str, str]) -> ZooKeeperAccess:
    """Return the access of a broker by the files of its daemon; an older version may have written
    its settings."""
    (text,) = files.values()
    settings = json.loads(text)
    return ZooKeeperAccess(
        connect=settings["zookeeper_connect"],
        security=decode_zookeeper_security(settings.get("zookeeper_security")),
        sets_acl=settings.get("config", {}).get(SET_ACL) == "true",
    )


def decode_zookeeper_security(document: Mapping[str, Any] | None) -> ZooKeeperSecurity:
    """Read the result of `asdict`; None if an older version wrote none. Raises ValueError."""
    if document is None:
        return NO_ZOOKEEPER_USER
    places = {
        name: None if document.get(name) is None else Secret(**document[name])
        for name in ("password", "key_password")
    }
    return ZooKeeperSecurity(**{**document, **places})
