"""Seeded changes of valid bytes. Pure: the same seed, target and index give the same input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

CHANGES_MAX: Final = 4
PIECE_BYTES_MAX: Final = 16
EXTREMES: Final = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x00\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"[[[[[[[[[[[[",
    b'"',
    b"1e999",
    b"null",
    b"-1",
)
"""Lengths, numbers and texts at which decoders err."""


def hostile_input(corpus: Sequence[bytes], seed: int, target: str, index: int) -> bytes:
    """Return input number `index` of a target: a valid one with one to four changes."""
    chance = random.Random(f"{seed}/{target}/{index}")
    changed = bytearray(chance.choice(corpus))
    for _ in range(chance.randint(1, CHANGES_MAX)):
        _change(changed, corpus, chance)
    return bytes(changed)


def _change(changed: bytearray, corpus: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randint(0, len(changed))
    size = chance.randint(1, PIECE_BYTES_MAX)
    match chance.randrange(7):
        case 0 | 1 if at < len(changed):
            changed[at] ^= chance.randint(1, 255)
        case 2:
            extreme = chance.choice(EXTREMES)
            changed[at : at + len(extreme)] = extreme
        case 3:
            changed[at:at] = chance.randbytes(size)
        case 4:
            del changed[at : at + size]
        case 5:
            changed[at:at] = changed[at : at + size] * chance.randint(1, 8)
        case _:
            other = chance.choice(corpus)
            changed[at:] = other[chance.randint(0, len(other)) :]
