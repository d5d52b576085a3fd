"""Seeded changes of valid bytes. Pure: the same seed, target and index give the same input."""

from __future__ import annotations

import random
import re
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
VALUES: Final = (
    b"0",
    b"7",
    b"-1",
    b"-9",
    b"101",
    b"32768",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"9" * 5_000,
    b"1e999",
    b"1.5",
    b"NaN",
    b"null",
    b"true",
    b'"1"',
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"[" * 20_000,
    b"\xd9\xa3",
)
"""What stands in place of a number of a text: it may be valid JSON where the number was."""
_NUMBER: Final = re.compile(rb"-?[0-9]+")


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
    match chance.randrange(10):
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
        case 6 | 7 | 8:
            _replace_number(changed, at, chance)
        case _:
            other = chance.choice(corpus)
            changed[at:] = other[chance.randint(0, len(other)) :]


def _replace_number(changed: bytearray, at: int, chance: random.Random) -> None:
    """Replace the next number of a text; of bytes without one, flip the bits of a byte."""
    found = _NUMBER.search(changed, at)
    if found is not None:
        changed[found.start() : found.end()] = chance.choice(VALUES)
    elif at < len(changed):
        changed[at] ^= chance.randint(1, 255)
