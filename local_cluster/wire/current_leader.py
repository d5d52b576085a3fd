"""KIP-951: a response that refuses a partition may name its current leader and the endpoint.

`CurrentLeader` is a tagged field of the partition; the endpoints are tagged field 0 of the
response. Produce (v10) and Fetch (v16) share the layout.
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
    """A partition's leader, as the responding broker knows it; -1 for unknown."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """The endpoint of a broker on the listener of the connection."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_current_leader(leader: CurrentLeader) -> bytes:
    """Encode the value of the tagged field."""
    return _LEADER.pack(*leader) + b"\0"


def decode_current_leader(value: memoryview) -> CurrentLeader:
    """Decode the value of the tagged field. Raises struct.error for too few bytes."""
    return CurrentLeader(*_LEADER.unpack_from(value))


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the tagged fields at the end of a response."""
    if not endpoints:
        return b"\0"
    out = bytearray(write_unsigned_varint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        out += _INT32.pack(node_id) + write_string(host, flexible=True) + _INT32.pack(port)
        out += write_string(rack, flexible=True) + b"\0"
    return bytes((1, NODE_ENDPOINTS_TAG)) + write_unsigned_varint(len(out)) + out
