"""How clients of ZooKeeper authenticate themselves, and TLS: ZooKeeper's digest scheme.

Settings name a file or an environment variable that holds the password, and never hold it. Pure;
controller/zk/kazoo_security.py reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

from local_cluster.client.auth.security import ClientSecurity, Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """How to connect to one ZooKeeper. The default is plain text without a user."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    username: str | None = None
    password: Secret | None = None
    tls: bool = False
    """Whether the addresses are those of ZooKeeper's secureClientPort."""
    ca_file: str | None = None
    """PEM of the authorities that may sign the servers' certificates, beside the system's."""
    certificate_file: str | None = None
    """PEM of this side's certificate, for servers that demand one."""
    key_file: str | None = None
    """PEM of its private key; default: it is in `certificate_file` too."""
    key_password: Secret | None = None
    check_hostname: bool = True
    """Whether a server's certificate must name the host of the connection."""

    def __post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` go together")
        if self.username is not None and (":" in self.username or not self.username):
            raise ValueError("ZooKeeper's `username` is not empty and has no colon")
        files = (self.ca_file, self.certificate_file, self.key_file, self.key_password)
        if not self.tls and files != (None, None, None, None):
            raise ValueError("certificates and keys need `tls: true`")
        if self.certificate_file is None and (self.key_file or self.key_password):
            raise ValueError("a key needs its `certificate_file`")

    @property
    def authenticates(self) -> bool:
        return self.username is not None

    @property
    def user(self) -> tuple[str | None, Secret | None]:
        """The name, and the place of the password."""
        return self.username, self.password

    @property
    def of_connection(self) -> ClientSecurity:
        """The TLS of a connection, as for a broker."""
        if not self.tls:
            return ClientSecurity()
        return ClientSecurity(
            protocol="SSL",
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
            key_password=self.key_password,
            check_hostname=self.check_hostname,
        )


NO_ZOOKEEPER_USER: Final = ZooKeeperSecurity()
