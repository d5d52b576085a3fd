"""Reads and writes the generation of a topology file in the ZooKeeper of each cluster.

Guarantees: a znode changes only from the content that was read before.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from local_cluster.controller.model.znode_paths import TOPOLOGY_FILE
from local_cluster.controller.zk.kazoo_security import acl_of_new
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.zookeeper_client import connected
from topology.problems import DeployError
from topology.shared_file.generations import (
    Generation,
    NotAGeneration,
    decode_generation,
    encode_generation,
)

PATH: Final = TOPOLOGY_FILE
"""Under the chroot of each cluster."""
PORT_TIMEOUT_S: Final = 2.0
"""Seconds that a server may take to accept a connection."""
RESPONSE_TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 32
"""ZooKeepers that are read at the same time."""

logging.getLogger("kazoo").addHandler(logging.NullHandler())


class Overtaken(Exception):
    """Another host has written the znode since it was read."""


class Silent(Exception):
    """A ZooKeeper does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a ZooKeeper holds: a generation with the version of its znode, or neither."""

    generation: Generation | None = None
    version: int | None = None


def read_generations(places: Iterable[ZooKeeperAccess]) -> Mapping[str, Held | str]:
    """Return what each ZooKeeper holds, or why that is not known, by its connect string."""
    with ThreadPoolExecutor(CONNECTIONS_MAX) as pool:
        reading = {place.connect: pool.submit(_read, place) for place in places}
        return {connect: each.result() for connect, each in reading.items()}


def write_generation(place: ZooKeeperAccess, generation: Generation, held: Held) -> None:
    """Replace what a ZooKeeper held when it was read. Raises Overtaken or Silent.

    After Silent it is unknown whether the generation was written.
    """
    content = encode_generation(generation)
    with _client(place) as (client, path):
        try:
            if held.version is None:
                acl = acl_of_new(PATH, sets_acl=place.sets_acl)
                client.create(path, content, acl, makepath=True)
            else:
                client.set(path, content, version=held.version)
        except (BadVersionError, NodeExistsError, NoNodeError) as error:
            raise Overtaken(place.connect) from error


def _read(place: ZooKeeperAccess) -> Held | str:
    try:
        with _client(place) as (client, path):
            try:
                content, stat = client.get(path)
            except NoNodeError:
                return Held()
    except Silent as error:
        return str(error)
    try:
        return Held(generation=decode_generation(content), version=stat.version)
    except NotAGeneration as error:
        return f"{path} in ZooKeeper {place.connect}: {error}; a newer version may have written it"


@contextlib.contextmanager
def _client(place: ZooKeeperAccess) -> Iterator[tuple[KazooClient, str]]:
    """Yield a connected client and the path of the znode. Raises Silent."""
    servers, _, chroot = place.connect.partition("/")
    # kazoo tries again until its timeout, also where nothing listens.
    if not any(_accepts(each) for each in servers.split(",")):
        raise Silent(f"ZooKeeper {servers} does not answer")
    try:
        with connected(place, servers, timeout_s=RESPONSE_TIMEOUT_S) as client:
            yield client, f"/{chroot}{PATH}" if chroot else PATH
    except DeployError as error:
        raise Silent(str(error)) from error


def _accepts(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PORT_TIMEOUT_S).close()
    except OSError:
        return False
    return True
