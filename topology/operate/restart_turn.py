"""The turn of one host to restart brokers of a cluster that several hosts share.

A turn is an ephemeral node in the cluster's ZooKeeper. It ends with the session of who holds it. So
a host that is lost, or an `up` that is killed, blocks nobody for longer than `SESSION_TIMEOUT_S`.
The next host then waits until all replicas are in sync, as after every restart.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final, Protocol

from kazoo.client import KazooState
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from local_cluster.controller.model.znode_paths import RESTART_TURN
from local_cluster.controller.zk.kazoo_security import acl_of_new
from topology.deployment.deployment import ClusterView, Deployment
from topology.deployment.zookeeper_access import ZooKeeperAccess, access_of_broker
from topology.operate.zookeeper_client import new_client

PATH: Final = RESTART_TURN
"""Under the cluster's chroot, while a host has the turn; its data is the host's name."""
SESSION_TIMEOUT_S: Final = 10.0
RESPONSE_TIMEOUT_S: Final = 5.0

logging.getLogger("kazoo").addHandler(logging.NullHandler())


class Turn(Protocol):
    """Whose turn it is to restart brokers of one cluster."""

    @property
    def is_taken(self) -> bool:
        """Whether another host had the turn at the last `take`."""
        ...

    def take(self) -> str | None:
        """Take the turn, or keep it. Return None if it was ours already, else a reason to wait.

        After the first success the caller has to look again: the last host has restarted others.
        """
        ...

    def close(self) -> None:
        """Give the turn up."""
        ...


class OwnTurn:
    """It is always the turn of the only host with brokers of a cluster."""

    is_taken = False

    def take(self) -> str | None:
        return None

    def close(self) -> None:
        return


class SharedTurn:
    """The turn in a cluster's ZooKeeper."""

    def __init__(self, access: ZooKeeperAccess, host: str, *, path: str = PATH) -> None:
        """`host` is what the others read in their reason to wait. Raises DeployError.

        `path` is the znode of another kind of turn.
        """
        self.is_taken = False
        self._path = path
        self._connect = access.connect
        self._acl = acl_of_new(path, sets_acl=access.sets_acl)
        self._host = host
        self._client = new_client(access, access.connect, timeout_s=SESSION_TIMEOUT_S)
        self._client.add_listener(self._on_state)
        self._is_ours = False
        """Set to False by kazoo's thread when the session is lost."""
        self._started = False

    def take(self) -> str | None:
        if not self._started:
            self._started = True
            self._client.start_async()
        if self._client.state != KazooState.CONNECTED:
            return f"ZooKeeper {self._connect} does not answer"
        if self._is_ours:
            return None
        try:
            holder = self._try()
        except (KazooException, KazooTimeoutError) as error:
            return f"ZooKeeper {self._connect}: {error!r}"
        self.is_taken = holder is not None
        if holder is None:
            self._is_ours = True
            return "it is this host's turn to restart brokers"
        return f"host {holder} restarts brokers of the cluster"

    def _try(self) -> str | None:
        """Return who has the turn, None if this session has it."""
        created = self._client.create_async(
            self._path, self._host.encode(), acl=self._acl, ephemeral=True
        )
        try:
            created.get(timeout=RESPONSE_TIMEOUT_S)
        except NodeExistsError:
            try:
                held, stat = self._client.get_async(self._path).get(timeout=RESPONSE_TIMEOUT_S)
            except NoNodeError:
                return "whose turn just ended"
            # The response to an earlier try may have been lost.
            is_own = stat.ephemeralOwner == self._client.client_id[0]
            return None if is_own else held.decode(errors="replace")
        return None

    def close(self) -> None:
        with contextlib.suppress(KazooException, KazooTimeoutError):
            if self._is_ours:
                self._client.delete_async(self._path).get(timeout=RESPONSE_TIMEOUT_S)
        if self._started:
            self._client.stop()
            self._client.close()

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self._is_ours = False


def turn_of(deployment: Deployment, cluster: ClusterView) -> Turn:
    """Return the turn for a cluster: shared if other hosts have brokers of it."""
    here = {daemon.key: daemon for daemon in deployment.daemons}
    own = [here[broker.daemon] for broker in cluster.brokers if broker.daemon in here]
    if not own or len(own) == len(cluster.brokers):
        return OwnTurn()
    return SharedTurn(access_of_broker(own[0].files), own[0].host)
