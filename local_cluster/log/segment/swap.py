"""Putting a compacted segment in the place of others, safe against a crash at any step.

    X.*.cleaned   being written, or written and not swapped yet; a start removes it
    X.*.swap      decided: a start completes the swap
    *.deleted     to be deleted; a start deletes it

`swap_steps` returns renames in an order that lets the names alone tell where a crash came:

1. X.*.cleaned -> X.*.swap, the log last. While X.log.cleaned exists nothing has happened yet, and
   a start removes the other files of X.
2. The files of the old segments -> *.deleted, the newest segment first, its log last. While an old
   X.log exists, so does everything that belongs to it.
3. X.*.swap -> X.*, the log last.

The old segments are those that begin in the offset range of X.log.swap. The last batch of a
compacted segment is always kept, so the file tells where that range ends.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from local_cluster.log.disk.files import Files
from local_cluster.log.segment.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    file_name,
    parse_offsets,
)
from local_cluster.log.segment.scan import iter_file_headers

log = logging.getLogger(__name__)


def swap_steps(
    names: Sequence[str], base_offset: int, replaced: Sequence[int]
) -> list[tuple[str, str]]:
    """Return the renames (from, to) that swap in the cleaned segment at `base_offset`.

    It replaces the segments at `replaced`, ascending. `names` is what the directory holds.
    """
    there = set(names)
    finals = [
        name
        for suffix in SEGMENT_SUFFIXES
        if (name := file_name(base_offset, suffix)) + CLEANED_SUFFIX in there
    ]
    return [
        *((name + CLEANED_SUFFIX, name + SWAP_SUFFIX) for name in finals),
        *_removals(there, replaced),
        *((name + SWAP_SUFFIX, name) for name in finals),
    ]


def recover_swaps(files: Files, directory: str, names: Sequence[str]) -> list[str]:
    """Complete or undo a swap that a crash interrupted; remove `.cleaned` and `.deleted` files.

    Return the names that the directory holds then. Raises OSError.
    """
    there = set(names)
    for base_offset in _swap_offsets(names):
        log_name = file_name(base_offset, LOG_SUFFIX)
        swaps = [
            name
            for suffix in SEGMENT_SUFFIXES
            if (name := file_name(base_offset, suffix)) + SWAP_SUFFIX in there
        ]
        if log_name + CLEANED_SUFFIX in there:
            for name in swaps:
                _remove(files, directory, name + SWAP_SUFFIX, there)
            continue
        if log_name + SWAP_SUFFIX in there:
            end_offset = _end_offset(files, f"{directory}/{log_name}{SWAP_SUFFIX}", base_offset)
            replaced = [
                offset
                for offset in parse_offsets(there, LOG_SUFFIX)
                if base_offset <= offset < end_offset
            ]
            for name, new_name in _removals(there, replaced):
                _rename(files, directory, name, new_name, there)
        log.info("%s/%s: a swap is completed", directory, log_name)
        for name in swaps:
            _rename(files, directory, name + SWAP_SUFFIX, name, there)
    for name in sorted(there):
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
            _remove(files, directory, name, there)
    return sorted(there)


def remove_cleaned(files: Files, directory: str) -> None:
    """Remove what an earlier round wrote and nobody swapped in. Raises OSError."""
    for name in files.list_dir(directory):
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")


def _removals(there: set[str], replaced: Sequence[int]) -> list[tuple[str, str]]:
    return [
        (name, name + DELETED_SUFFIX)
        for offset in sorted(replaced, reverse=True)
        for suffix in SEGMENT_SUFFIXES
        if (name := file_name(offset, suffix)) in there
    ]


def _end_offset(files: Files, path: str, base_offset: int) -> int:
    end_offset = base_offset
    for _, header in iter_file_headers(files.open(path), 0, files.size_bytes(path)):
        end_offset = header.next_offset
    return end_offset


def _swap_offsets(names: Sequence[str]) -> list[int]:
    return sorted(
        {
            offset
            for suffix in SEGMENT_SUFFIXES
            for offset in parse_offsets(names, suffix + SWAP_SUFFIX)
        }
    )


def _rename(files: Files, directory: str, name: str, new_name: str, there: set[str]) -> None:
    files.rename(f"{directory}/{name}", f"{directory}/{new_name}")
    there.discard(name)
    there.add(new_name)


def _remove(files: Files, directory: str, name: str, there: set[str]) -> None:
    files.remove(f"{directory}/{name}")
    there.discard(name)
