"""The names of the files of a segment, as Kafka gives them: twenty digits and a suffix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

SEGMENT_SUFFIXES: Final = (
    TRANSACTION_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
)
"""The files of a segment, in the order in which a swap renames them."""

_OFFSET_DIGITS: Final = 20
OFFSET_MAX: Final = 2**63 - 1


def file_name(offset: int, suffix: str) -> str:
    """Return the name of the file that begins at an offset."""
    return f"{offset:0{_OFFSET_DIGITS}d}{suffix}"


def parse_offsets(names: Iterable[str], suffix: str) -> list[int]:
    """Return the offsets of the names `<twenty digits><suffix>`, ascending.

    Twenty digits reach beyond the offsets that a log can have; such a name is no segment's.
    """
    digits = (name[: -len(suffix)] for name in names if name.endswith(suffix))
    offsets = (
        int(name)
        for name in digits
        if len(name) == _OFFSET_DIGITS and name.isascii() and name.isdigit()
    )
    return sorted(offset for offset in offsets if offset <= OFFSET_MAX)
