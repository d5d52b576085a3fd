"""Disks: full, and bits that flip while a broker is stopped."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from tests.nemesis import small_disk
from tests.nemesis.cluster import Cluster, ClusterOptions
from tests.nemesis.faults.fault import Fault

NODE: Final = 2
"""It leads half of what the workloads write, and follows the other half."""
FLIPS: Final = 3
"""Per file."""


async def _fill(cluster: Cluster) -> None:
    small_disk.fill(cluster.log_directory(NODE))


async def _empty(cluster: Cluster) -> None:
    small_disk.empty(cluster.log_directory(NODE))


def _flip_bits(cluster: Cluster, pattern: str) -> list[Path]:
    """In the first half of the workloads' files: before what a kill may have torn."""
    randomly = random.Random(1)
    flipped = []
    for path in sorted(cluster.log_directory(NODE).glob(f"*-[0-9]*/{pattern}")):
        content = bytearray(path.read_bytes().rstrip(b"\0"))
        if path.parent.name.startswith("__") or len(content) < 64:
            continue
        size = path.stat().st_size
        for _ in range(FLIPS):
            content[randomly.randrange(len(content) // 2)] ^= 1 << randomly.randrange(8)
        path.write_bytes(content + bytes(size - len(content)))
        flipped.append(path)
    return flipped


async def _flip_log(cluster: Cluster) -> None:
    await cluster.kill(NODE)
    await cluster.sleep(2.0)
    if not _flip_bits(cluster, "*.log"):
        raise RuntimeError("no log was long enough to flip bits in")


async def _flip_indexes(cluster: Cluster) -> None:
    await cluster.kill(NODE)
    await cluster.sleep(2.0)
    _flip_bits(cluster, "*index")


FAULTS: Final = (
    Fault(
        name="full-disk",
        title="a broker's disk is full",
        inject=_fill,
        mend=_empty,
        options=ClusterOptions(small_disk_node=NODE),
        why_not=small_disk.why_not,
        systems=("ours",),
    ),
    Fault(
        name="bit-flip-log",
        title="bits flip in the logs of a killed broker",
        inject=_flip_log,
        hold_seconds=1.0,
        systems=("ours",),
    ),
    Fault(
        name="bit-flip-index",
        title="bits flip in the indexes of a killed broker",
        inject=_flip_indexes,
        hold_seconds=1.0,
        systems=("ours",),
    ),
)
