"""SHELL: clients of the ZooKeeper of a cluster, for commands. Each session is short."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from local_cluster.client.auth.security import SecurityError
from local_cluster.controller.zk.kazoo_security import client_options
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.problems import DeployError

PORT_TIMEOUT_S: Final = 2.0
"""Seconds that a server may take to accept a connection, and to say whether it serves."""
_ASKED: Final = b"srvr"
_NOT_SERVING: Final = b"This ZooKeeper instance is not"
"""What a node without a majority says to `srvr`, and what one that starts says."""


def answers(access: ZooKeeperAccess) -> bool:
    """Return whether a server may serve clients; kazoo would wait for one until its timeout.

    A server with TLS is only asked for a connection.
    """
    servers, _, _ = access.connect.partition("/")
    return any(_may_serve(each, asks=not access.security.tls) for each in servers.split(","))


def _may_serve(server: str, *, asks: bool) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PORT_TIMEOUT_S) as connection:
            if not asks:
                return True
            connection.sendall(_ASKED)
            return not connection.recv(len(_NOT_SERVING)).startswith(_NOT_SERVING)
    except OSError:
        return False


def new_client(access: ZooKeeperAccess, connect: str, *, timeout_s: float) -> KazooClient:
    """Return a client that is to be started; `timeout_s` is that of its session.

    `connect` may name other znodes than those of the cluster. Raises DeployError for a secret or a
    certificate that cannot be read.
    """
    try:
        options = client_options(access.security)
    except SecurityError as error:
        raise DeployError(f"ZooKeeper {connect}: {error}") from error
    return KazooClient(connect, timeout=timeout_s, **options)


@contextlib.contextmanager
def connected(access: ZooKeeperAccess, connect: str, *, timeout_s: float) -> Iterator[KazooClient]:
    """Yield a connected client; `timeout_s` is also that of the connection.

    Raises DeployError, for what the caller's requests meet as well.
    """
    client = new_client(access, connect, timeout_s=timeout_s)
    try:
        try:
            client.start(timeout=timeout_s)
        except KazooTimeoutError as error:
            raise DeployError(
                f"ZooKeeper {connect} does not answer within {timeout_s:g} s"
            ) from error
        yield client
    except KazooTimeoutError as error:
        raise DeployError(f"ZooKeeper {connect} does not answer") from error
    except KazooException as error:
        raise DeployError(f"ZooKeeper {connect}: {error!r}") from error
    finally:
        client.stop()
        client.close()
