"""Reading and writing what a cluster keeps below its chroot in ZooKeeper.

Guarantees: a chroot that was read did not change between the first and the last of two reads. A
chroot that is not empty is never written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from local_cluster.controller.zk.kazoo_security import acl_of_new
from topology.backup.document import Znodes, is_kept
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.zookeeper_client import connected
from topology.problems import DeployError

CONNECT_TIMEOUT_S: Final = 15.0
READS_MAX: Final = 5
"""Times that a chroot is read until two reads in a row agree."""
ZNODES_PER_TRANSACTION: Final = 200
OWN_OF_ZOOKEEPER: Final = "/zookeeper"


def read_znodes(access: ZooKeeperAccess) -> dict[str, bytes]:
    """Return the znodes of a cluster, parents first. Raises DeployError."""
    connect = access.connect
    with connected(access, connect, timeout_s=CONNECT_TIMEOUT_S) as client:
        before: dict[str, bytes] | None = None
        for _ in range(READS_MAX):
            found = dict(_walk(client, "/"))
            if found == before:
                return found
            before = found
    raise DeployError(f"{connect} changes all the time: {READS_MAX} reads differ; try again")


def write_znodes(access: ZooKeeperAccess, znodes: Znodes) -> None:
    """Write znodes into an empty or missing chroot, and read them back. Raises DeployError.

    They have the ACLs that a broker would give them.
    """
    connect, sets_acl = access.connect, access.sets_acl
    address, _, chroot = connect.partition("/")
    with connected(access, address, timeout_s=CONNECT_TIMEOUT_S) as client:
        if chroot:
            client.ensure_path(f"/{chroot}", acl=acl_of_new("/", sets_acl=sets_acl))
    with connected(access, connect, timeout_s=CONNECT_TIMEOUT_S) as client:
        if there := [path for path, _ in _walk(client, "/")]:
            raise DeployError(
                f"{connect} is not empty: it has {len(there)} znodes, such as {there[0]};"
                " nothing was written"
            )
        paths = sorted(znodes)
        for first in range(0, len(paths), ZNODES_PER_TRANSACTION):
            transaction = client.transaction()
            for path in paths[first : first + ZNODES_PER_TRANSACTION]:
                acl = acl_of_new(path, sets_acl=sets_acl)
                transaction.create(path, znodes[path], acl=acl)
            for result in transaction.commit():
                if isinstance(result, Exception):
                    raise DeployError(f"{connect} refuses a znode: {result!r}")
        if dict(_walk(client, "/")) != dict(znodes):
            raise DeployError(f"{connect} does not hold what was written; delete it and try again")


def _walk(client: KazooClient, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield each znode below a path, in depth-first order; those of sessions are left out."""
    try:
        children = sorted(client.get_children(path))
    except NoNodeError:
        return  # it was deleted meanwhile, or the chroot does not exist
    for name in children:
        child = f"{path.rstrip('/')}/{name}"
        if child == OWN_OF_ZOOKEEPER or not is_kept(child):
            continue
        try:
            data, stat = client.get(child)
        except NoNodeError:
            continue
        if stat.ephemeralOwner:
            continue
        yield child, data or b""
        yield from _walk(client, child)
