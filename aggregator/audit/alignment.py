"""Alignment of two fingerprint sequences: which aggregate record is which source record. Pure.

Equal heads and tails are matched first. The longest common subsequence of the rest is found by the
algorithm of Hunt and Szymanski: a longest strictly increasing chain of pairs of equal fingerprints.
Both steps are optimal, so the number of matched pairs is maximal, and the number of records without
a match is minimal.

Guarantees: pairs are strictly increasing on both sides and have equal fingerprints. Among equal
records the earlier ones are matched, because the second copy of a record is the surplus one.
Limits: a fingerprint with more than `PAIRS_PER_FINGERPRINT_MAX` pairs is matched only by its
occurrences counted from both ends. The result then has `is_longest = False`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

PAIRS_PER_FINGERPRINT_MAX: Final = 10_000


class Alignment(NamedTuple):
    """Matched pairs (source index, aggregate index), ascending."""

    pairs: list[tuple[int, int]]
    is_longest: bool


def align(source: Sequence[int], aggregate: Sequence[int]) -> Alignment:
    """Return the longest common subsequence of two fingerprint sequences, as index pairs."""
    shorter = min(len(source), len(aggregate))
    head = 0
    while head < shorter and source[head] == aggregate[head]:
        head += 1
    tail = 0
    while tail < shorter - head and source[-1 - tail] == aggregate[-1 - tail]:
        tail += 1
    middle, is_longest = _align_middle(
        source, aggregate, head, len(source) - tail, len(aggregate) - tail
    )
    pairs = [(index, index) for index in range(head)]
    pairs.extend(middle)
    pairs.extend(
        (len(source) - tail + index, len(aggregate) - tail + index) for index in range(tail)
    )
    if len(pairs) < max(len(source), len(aggregate)):
        common = [source[index] for index, _ in pairs]
        pairs = list(zip(_leftmost(common, source), _leftmost(common, aggregate), strict=True))
    return Alignment(pairs, is_longest)


def _leftmost(common: Sequence[int], whole: Sequence[int]) -> Iterator[int]:
    """Yield the earliest indexes of a subsequence, so that late equal records stay unmatched."""
    places = iter(enumerate(whole))
    for value in common:
        yield next(index for index, found in places if found == value)


def _align_middle(
    source: Sequence[int], aggregate: Sequence[int], start: int, source_end: int, aggregate_end: int
) -> tuple[list[tuple[int, int]], bool]:
    source_places: dict[int, list[int]] = defaultdict(list)
    for index in range(start, source_end):
        source_places[source[index]].append(index)
    aggregate_places: dict[int, list[int]] = defaultdict(list)
    for index in range(start, aggregate_end):
        if aggregate[index] in source_places:
            aggregate_places[aggregate[index]].append(index)

    candidates: dict[int, list[int]] = {}
    is_longest = True
    for value, places in aggregate_places.items():
        sources = source_places[value]
        if len(places) * len(sources) <= PAIRS_PER_FINGERPRINT_MAX:
            for place in places:
                candidates[place] = sources
        else:
            is_longest = False
            for rank, place in enumerate(places):
                from_start = sources[min(rank, len(sources) - 1)]
                from_end = sources[max(rank - len(places), -len(sources))]
                candidates[place] = sorted({from_start, from_end})
    return _longest_increasing(candidates), is_longest


def _longest_increasing(candidates: dict[int, list[int]]) -> list[tuple[int, int]]:
    """Return the longest chain of (source, aggregate) pairs, strictly increasing on both sides."""
    last_sources: list[int] = []  # the smallest end of any chain of length i + 1
    last_nodes: list[int] = []
    nodes: list[tuple[int, int, int]] = []  # source index, aggregate index, previous node
    end = -1  # of the longest chain; among equally long ones the first, to report late copies
    for place in sorted(candidates):
        # Descending, so that an aggregate record never extends a chain that already has it.
        for source_index in reversed(candidates[place]):
            length = bisect_left(last_sources, source_index)
            if length < len(last_sources) and last_sources[length] == source_index:
                continue  # the known chain ends earlier on the aggregate: keep it
            nodes.append((source_index, place, last_nodes[length - 1] if length else -1))
            if length == len(last_sources):
                last_sources.append(source_index)
                last_nodes.append(len(nodes) - 1)
                end = len(nodes) - 1
            else:
                last_sources[length] = source_index
                last_nodes[length] = len(nodes) - 1
    pairs = []
    while end >= 0:
        source_index, place, end = nodes[end]
        pairs.append((source_index, place))
    pairs.reverse()
    return pairs
