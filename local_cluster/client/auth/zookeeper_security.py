"""How clients of ZooKeeper authenticate themselves: ZooKeeper's digest scheme.

Settings name a file or an environment variable that holds the password, and never hold it. Pure;
controller/zk/kazoo_security.py reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

from local_cluster.client.auth.security import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """How to connect to one ZooKeeper. The default is without a user."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    username: str | None = None
    password: Secret | None = None

    def __post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` go together")
        if self.username is not None and (":" in self.username or not self.username):
            raise ValueError("ZooKeeper's `username` is not empty and has no colon")

    @property
    def authenticates(self) -> bool:
        return self.username is not None


NO_ZOOKEEPER_USER: Final = ZooKeeperSecurity()
