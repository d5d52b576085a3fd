"""Which files of a table are worth a compaction. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

SMALL_BYTES: Final = 64 * 1024 * 1024
"""Files below this size are rewritten."""
TARGET_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of the files that become one."""
GROUP_FILES_MIN: Final = 4
"""Fewer small files stay as they are: to rewrite them would cost more than to read them."""


class FileSize(NamedTuple):
    """A file of the table."""

    path: str
    partition: Hashable
    """Files of different partitions are never put together."""
    size_bytes: int


def choose_groups(
    files: Iterable[FileSize],
    *,
    small_bytes: int = SMALL_BYTES,
    target_bytes: int = TARGET_BYTES,
    files_min: int = GROUP_FILES_MIN,
) -> list[list[str]]:
    """Return the paths of the files that become one file each."""
    by_partition: dict[Hashable, list[FileSize]] = {}
    for each in files:
        if each.size_bytes < small_bytes:
            by_partition.setdefault(each.partition, []).append(each)
    groups: list[list[FileSize]] = []
    for small in by_partition.values():
        group: list[FileSize] = []
        for each in sorted(small, key=lambda file: (file.size_bytes, file.path)):
            if group and sum(file.size_bytes for file in group) + each.size_bytes > target_bytes:
                groups.append(group)
                group = []
            group.append(each)
        groups.append(group)
    return [[each.path for each in group] for group in groups if len(group) >= files_min]
