"""The level of a cluster's formats, and its znode. Pure.

A level stands for the versions of all formats on disks, in topics and in ZooKeeper together. A
version of the package reads the levels up to `FORMAT_LEVEL`, and writes the level that the znode
says. The znode is raised by `heliograph upgrade --finalize` alone. So the version before works on
the same data until then, and its brokers refuse to start afterwards.

Raise `FORMAT_LEVEL` together with any format that the version before cannot read.
"""

from __future__ import annotations

from typing import Final

from local_cluster.controller.model.znode_json import decode_json, encode_json, integer_of

FORMAT_LEVEL: Final = 1
"""Highest level that this version reads and writes."""
FIRST_LEVEL: Final = 1
"""Level of a cluster without the znode."""
_VERSION: Final = 1


def encode_level(level: int) -> bytes:
    """Return the payload of the znode."""
    return encode_json({"version": _VERSION, "level": level})


def decode_level(payload: bytes) -> int:
    """Return the level. Raises UnreadableZnodeError."""
    return integer_of(decode_json(payload), "level", FIRST_LEVEL)


def level_problem(level: int) -> str | None:
    """Return why this version may not work at a level; None if it may."""
    if level <= FORMAT_LEVEL:
        return None
    return (
        f"the cluster's formats have level {level}, and this version of heliograph reads levels up"
        f" to {FORMAT_LEVEL}: a newer version was made final by `heliograph upgrade --finalize`;"
        " install that version or a newer one"
    )
