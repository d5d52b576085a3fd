"""KIP-951: an answer that refuses a partition may name who leads it now, and where that one is.

`CurrentLeader` stands in a tagged field of the partition, the endpoints in tagged field 0 of the
whole answer. Produce (v10) and Fetch (v16) share the layout.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.wire.primitives import write_string, write_unsigned_varint

_LEADER: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
NODE_ENDPOINTS_TAG: Final = 0


class CurrentLeader(NamedTuple):
    """Who leads a partition, as far as the answering broker knows; -1 for what it does not."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a broker is reached on the listener of the connection."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_current_leader(leader: CurrentLeader) -> bytes:
    """The tagged field's value."""
    return _LEADER.pack(*leader) + b"\0"


def decode_current_leader(value: memoryview) -> CurrentLeader:
    """Raises struct.error on short bytes."""
    return CurrentLeader(*_LEADER.unpack_from(value))


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields at the end of an answer."""
    if not endpoints:
        return b"\0"
    out = bytearray(write_unsigned_varint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        out += _INT32.pack(node_id) + write_string(host, flexible=True) + _INT32.pack(port)
        out += write_string(rack, flexible=True) + b"\0"
    return bytes((1, NODE_ENDPOINTS_TAG)) + write_unsigned_varint(len(out)) + out
