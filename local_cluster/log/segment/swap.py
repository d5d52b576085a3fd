"""Putting a compacted segment in the place of others, so that a crash at any step is made good.

    X.*.cleaned   being written, or written and not yet wanted; a start removes it
    X.*.swap      decided: a start finishes what was begun
    *.deleted     on its way out; a start removes it

`swap_steps` are renames in an order that lets the names alone say where a crash came:

1. X.*.cleaned -> X.*.swap, the log last. While there is an X.log.cleaned nothing has happened yet,
   and a start throws the other files of X away.
2. the files of the old segments -> *.deleted, the newest segment first, its log last. While an old
   X.log is there, so is everything that belongs to it.
3. X.*.swap -> X.*, the log last.

The old segments are those that begin in the range of offsets of X.log.swap; the last batch of a
compacted segment is always kept, so that its end is in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from local_cluster.log.disk.files import Files
from local_cluster.log.segment.scan import iter_file_headers
from local_cluster.log.segment.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

SEGMENT_SUFFIXES: Final = (
    TRANSACTION_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
)
"""The files of a segment in the order in which they are renamed."""

_OFFSET_DIGITS: Final = 20

_log = logging.getLogger(__name__)


def swap_steps(
    names: Sequence[str], base_offset: int, replaced: Sequence[int]
) -> list[tuple[str, str]]:
    """The renames (from, to) that put the cleaned segment at `base_offset` in the place of the
    segments at `replaced`, ascending. `names` is what the directory holds."""
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
    """Finish or undo what a crash left of a swap, remove `.cleaned` and `.deleted` files.

    Returns the names that are there then. Raises OSError.
    """
    there = set(names)
    for base_offset in _offsets(names, SWAP_SUFFIX):
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
                for offset in _offsets(sorted(there), LOG_SUFFIX)
                if base_offset <= offset < end_offset
            ]
            for name, new_name in _removals(there, replaced):
                _rename(files, directory, name, new_name, there)
        _log.info("%s/%s: a swap is finished", directory, log_name)
        for name in swaps:
            _rename(files, directory, name + SWAP_SUFFIX, name, there)
    for name in sorted(there):
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
            _remove(files, directory, name, there)
    return sorted(there)


def remove_cleaned(files: Files, directory: str) -> None:
    """Remove what an earlier round wrote and nobody took. Raises OSError."""
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


def _offsets(names: Sequence[str], last_suffix: str) -> list[int]:
    """The offsets of the names of segment files that end in `last_suffix`, ascending."""
    offsets = set()
    for name in names:
        digits, _, rest = name.partition(".")
        if (
            name.endswith(last_suffix)
            and len(digits) == _OFFSET_DIGITS
            and digits.isdigit()
            and f".{rest}".removesuffix(SWAP_SUFFIX) in SEGMENT_SUFFIXES
        ):
            offsets.add(int(digits))
    return sorted(offsets)


def _rename(files: Files, directory: str, name: str, new_name: str, there: set[str]) -> None:
    files.rename(f"{directory}/{name}", f"{directory}/{new_name}")
    there.discard(name)
    there.add(new_name)


def _remove(files: Files, directory: str, name: str, there: set[str]) -> None:
    files.remove(f"{directory}/{name}")
    there.discard(name)
