"""How much of a source lies at a target's end already, copied by somebody without a map. Pure.

MirrorMaker 2 notes every minute how far it has copied. After a clean stop nothing lies behind that
note; after a kill the target has more, perhaps parts of it twice, as it began again in between.
What matters is where the target ends: the longest beginning of the source, from the note on, that
is the target's very end, and before which the noted record lies. Where records are alike, several
lengths may fit; then nobody can tell, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence


def matching_lengths(
    following: Sequence[int], tail: Sequence[int], noted: int | None, *, is_whole: bool
) -> list[int]:
    """Every count of records of `following` that may be what the target ends with, ascending.

    Records are given by what identifies them: `following` those of the source behind the note,
    `tail` the target's last ones, `noted` the record that the note is about (None: it cannot be
    read, or with `is_whole`, nothing was noted). `is_whole`: the target never had records before
    `tail`.
    """
    lengths = []
    length = _longest(following, tail)
    borders = _borders(following[:length])
    while True:
        if _follows_note(tail, length, noted, is_whole=is_whole):
            lengths.append(length)
        if length == 0:
            return lengths[::-1]
        length = borders[length - 1]


def _follows_note(tail: Sequence[int], length: int, noted: int | None, *, is_whole: bool) -> bool:
    if noted is None:
        return not is_whole or len(tail) == length
    if len(tail) == length:
        return not is_whole
    return tail[-length - 1] == noted


def _longest(pattern: Sequence[int], text: Sequence[int]) -> int:
    """Length of the longest beginning of the pattern with which the text ends."""
    borders = _borders(pattern)
    length = 0
    for item in text:
        while length and (length == len(pattern) or pattern[length] != item):
            length = borders[length - 1]
        if length < len(pattern) and pattern[length] == item:
            length += 1
    return length


def _borders(pattern: Sequence[int]) -> list[int]:
    """Per beginning of the pattern its longest own beginning that is its end as well (Knuth,
    Morris and Pratt)."""
    borders = [0] * len(pattern)
    length = 0
    for index in range(1, len(pattern)):
        while length and pattern[length] != pattern[index]:
            length = borders[length - 1]
        if pattern[length] == pattern[index]:
            length += 1
        borders[index] = length
    return borders
