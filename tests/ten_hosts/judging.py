"""Whether every acknowledged record is there once, by what clients were told. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.ten_hosts.ledger import Ledger, Place

Log = Mapping[int, Sequence[tuple[int, str]]]
"""Partition -> (offset, identity) of each of its records, in order."""

EXAMPLES_MAX: Final = 5


def judge(
    datacenter: str, ledger: Ledger, source: Log, copy: Log, groups: Sequence[str]
) -> list[str]:
    """Return what is wrong with the records of one datacenter, one line each; empty if nothing."""
    findings = [
        *_source_findings(ledger, source),
        *_copy_findings(source, copy),
        *_group_findings(ledger, source, groups),
    ]
    return [f"{datacenter}: {each}" for each in findings]


def _source_findings(ledger: Ledger, source: Log) -> Iterator[str]:
    places: dict[str, list[Place]] = defaultdict(list)
    for partition, records in source.items():
        for offset, identity in records:
            places[identity].append(Place(partition, offset))
    lost = [each for each in ledger.acknowledged if each not in places]
    yield from _finding(lost, "acknowledged and not in the source log")
    twice = [each for each, found in places.items() if len(found) > 1]
    yield from _finding(twice, "more than once in the source log")
    moved = [
        each
        for each, place in ledger.acknowledged.items()
        if place.offset >= 0 and each in places and place not in places[each]
    ]
    yield from _finding(moved, "not at the offset that was acknowledged")
    strange = [each for each in places if each not in ledger.sent]
    yield from _finding(strange, "in the source log, and nobody sent it")


def _copy_findings(source: Log, copy: Log) -> Iterator[str]:
    for partition in sorted({*source, *copy}):
        originals = [identity for _, identity in source.get(partition, ())]
        copies = [identity for _, identity in copy.get(partition, ())]
        if copies == originals:
            continue
        more, fewer = Counter(copies) - Counter(originals), Counter(originals) - Counter(copies)
        where = f"of partition {partition}"
        yield from _finding(list(fewer), f"{where} not in the aggregate")
        yield from _finding(list(more), f"{where} in the aggregate once more")
        if not more and not fewer:
            yield f"the copy {where} has another order"


def _group_findings(ledger: Ledger, source: Log, groups: Sequence[str]) -> Iterator[str]:
    """A group gets every record at least once, and none that is not in the log."""
    there = {identity for records in source.values() for _, identity in records}
    for group in groups:
        consumed = ledger.consumed.get(group, Counter())
        missing = [each for each in ledger.acknowledged if each not in consumed]
        yield from _finding(missing, f"not consumed by the group {group}")
        strange = [each for each in consumed if each not in there]
        yield from _finding(strange, f"consumed by the group {group} and not in the source log")


def _finding(identities: Sequence[str], what: str) -> Iterator[str]:
    if identities:
        shown = ", ".join(sorted(identities)[:EXAMPLES_MAX])
        yield f"{len(identities)} records {what}: {shown}"
