"""Requests to ZooKeeper that kazoo lacks or makes slowly, as request classes of kazoo.

A controller that takes over reads the state of every partition, and writes most of them. 10,000
single reads cost kazoo's threads and the loop 2.2 CPU-seconds; by multiRead (server 3.6 and later)
in requests of 500 they cost 0.05. kazoo's own transactions normalize every path; ours need none.

    request    (header(type 4, done 0, error -1), path, watch 0)*  header(-1, 1, -1)
    response   (header(type 4 or -1, done 0, error), payload and stat, or error)*  header(-1, 1, -1)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol import serialization
from kazoo.protocol.states import ZnodeStat

from local_cluster.controller.zk.coordination import (
    READ_MANY_MAX,
    CheckVersion,
    Create,
    Delete,
    SetPayload,
    ZkOp,
    Znode,
)
from local_cluster.controller.zk.kazoo_security import acl_of_new

_HEADER: Final = struct.Struct("!iBi")
"""Type, whether the message ends here, error code."""
_INT: Final = struct.Struct("!i")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_GET_DATA: Final = 4
_GET_DATA_HEADER: Final = _HEADER.pack(_GET_DATA, 0, -1)
_END: Final = _HEADER.pack(-1, 1, -1)
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2


class MultiRead:
    """ZooKeeper's multiRead; kazoo calls `serialize` and `deserialize`."""

    type: Final = 22

    def __init__(self, paths: Sequence[str]) -> None:
        """`paths` are absolute, chroot included."""
        assert len(paths) <= READ_MANY_MAX, "one request stays below ZooKeeper's 1 MiB"
        self._paths = paths

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for path in self._paths:
            encoded = path.encode()
            parts += (_GET_DATA_HEADER, _INT.pack(len(encoded)), encoded, b"\0")
        return b"".join((*parts, _END))

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[Znode | None]:
        """Return znodes in the order of the paths, None for a missing one. Raises kazoo's
        ZookeeperError for the first other error."""
        found: list[Znode | None] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return found
            (number,) = _INT.unpack_from(buffer, offset)
            offset += _INT.size
            if kind != _GET_DATA:
                if number != NoNodeError.code:
                    raise EXCEPTIONS[number]()
                found.append(None)
                continue
            # The length of a payload that was never set is -1.
            end = offset + max(number, 0)
            stat = ZnodeStat._make(_STAT.unpack_from(buffer, end))
            found.append(to_znode(buffer[offset:end], stat))
            offset = end + _STAT.size


def send_multi_read(client: KazooClient, paths: Sequence[str]) -> object:
    """Send one multiRead of paths below the chroot; return kazoo's asynchronous result."""
    return _send(client, MultiRead([client.chroot + path for path in paths]))


def send_multi(client: KazooClient, ops: Sequence[ZkOp], *, sets_acl: bool) -> object:
    """Send one transaction with paths below the chroot; return kazoo's asynchronous result.

    `sets_acl`: new znodes get Kafka's ACLs, else anybody may change them.
    """
    operations = [_operation(client.chroot, op, sets_acl=sets_acl) for op in ops]
    return _send(client, serialization.Transaction(operations))


def _operation(chroot: str, op: ZkOp, *, sets_acl: bool) -> object:
    match op:
        case Create(path, payload, ephemeral, sequential):
            flags = _EPHEMERAL * ephemeral | _SEQUENTIAL * sequential
            acl = acl_of_new(path, sets_acl=sets_acl)
            return serialization.Create(chroot + path, payload, acl, flags)
        case SetPayload(path, payload, version):
            return serialization.SetData(chroot + path, payload, version)
        case Delete(path, version):
            return serialization.Delete(chroot + path, version)
        case CheckVersion(path, version):
            return serialization.CheckVersion(chroot + path, version)


def _send(client: KazooClient, request: object) -> object:
    # As kazoo's own methods do.
    result = client.handler.async_result()
    client._call(request, result)
    return result


def to_znode(payload: bytes | None, stat: ZnodeStat) -> Znode:
    """Return kazoo's (payload, stat) as a Znode."""
    return Znode(payload or b"", stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner)
