"""Transactions that append to lists and read lists: what order do they admit? Pure.

Every append is a unique value. So a list tells the order of its writers, and a read tells what its
transaction had seen (the idea of Elle: Kingsbury and Alvaro, 2020). Edges between transactions:
ww (appended before), wr (read what the other appended), rw (did not see yet what the other
appended); and cycles among them:

    G0       ww only                  allowed: Kafka does not isolate writes
    G1c      ww and wr                an anomaly if it has wr only, else allowed for the same reason
    G-single with one rw              allowed: a transaction becomes visible key by key

Always anomalies:

- G1a: an aborted append is read;
- G1b: a read sees a transaction's append but not its last one to that list;
- incompatible-order, duplicate-append, phantom, lost-append;
- torn: in the end some of a transaction's appends are there and some are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.graph import Edge, cycle, edges_of_components


class End(Enum):
    """What a client was told about its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Transaction:
    """What one transaction did, in order per key."""

    end: End
    appends: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By list, the values that it appended; no value is ever appended twice."""
    reads: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By list, all of it from its start as read in the transaction."""


WW: Final = "ww"
WR: Final = "wr"
RW: Final = "rw"


def check_list_append(
    transactions: Sequence[Transaction], final: Mapping[str, Sequence[int]]
) -> Findings:
    """`final` is every list when all was over, read as a reader of committed records reads."""
    findings = Findings()
    findings.checked.update(each.end.value for each in transactions)
    writer = {
        value: (number, key)
        for number, each in enumerate(transactions)
        for key, values in each.appends.items()
        for value in values
    }
    for key, values in final.items():
        _check_final(key, values, transactions, writer, findings)
    present = {value for values in final.values() for value in values}
    for number, each in enumerate(transactions):
        appended = [value for values in each.appends.values() for value in values]
        there = [value for value in appended if value in present]
        if each.end is End.COMMITTED and len(there) < len(appended):
            findings.add("lost-append", f"T{number}: {sorted(set(appended) - present)}")
        elif there and len(there) < len(appended):
            findings.add("torn", f"T{number}: {there} of {appended}")
        for key, values in each.reads.items():
            findings.checked["reads"] += 1
            _check_read(number, key, values, final.get(key, ()), transactions, writer, findings)
    edges = _edges(transactions, final, writer)
    _check_cycles(edges, findings)
    return findings


def _check_final(
    key: str,
    values: Sequence[int],
    transactions: Sequence[Transaction],
    writer: Mapping[int, tuple[int, str]],
    findings: Findings,
) -> None:
    seen: set[int] = set()
    by_writer: dict[int, list[int]] = defaultdict(list)
    for value in values:
        if value in seen:
            findings.add("duplicate-append", f"{value} in {key}")
            continue
        seen.add(value)
        number, written_to = writer.get(value, (-1, ""))
        if number < 0 or written_to != key:
            findings.add("phantom", f"{value} in {key}")
        elif transactions[number].end is End.ABORTED:
            findings.add("G1a", f"{value} of T{number}, which was aborted, in {key}")
        else:
            by_writer[number].append(value)
    for number, found in by_writer.items():
        wanted = [value for value in transactions[number].appends[key] if value in seen]
        if found != wanted:
            findings.add("incompatible-order", f"T{number} appended {wanted} to {key}: {found}")


def _check_read(
    number: int,
    key: str,
    values: Sequence[int],
    final: Sequence[int],
    transactions: Sequence[Transaction],
    writer: Mapping[int, tuple[int, str]],
    findings: Findings,
) -> None:
    if list(values) != list(final[: len(values)]):
        aborted = [
            value
            for value in values
            if value in writer and transactions[writer[value][0]].end is End.ABORTED
        ]
        if aborted:
            findings.add("G1a", f"T{number} read {aborted} in {key}")
        else:
            at = next((i for i, v in enumerate(values) if i >= len(final) or v != final[i]), 0)
            findings.add("incompatible-order", f"T{number} read {key} otherwise from {at} on")
    if values:
        last_writer, _ = writer.get(values[-1], (-1, ""))
        if last_writer >= 0 and last_writer != number:
            appended = transactions[last_writer].appends.get(key, ())
            if appended and values[-1] != appended[-1]:
                findings.add("G1b", f"T{number} read {values[-1]}, T{last_writer} goes on")


def _edges(
    transactions: Sequence[Transaction],
    final: Mapping[str, Sequence[int]],
    writer: Mapping[int, tuple[int, str]],
) -> list[Edge]:
    edges: set[Edge] = set()

    def add(tail: int | None, head: int | None, label: str, key: str) -> None:
        if tail is not None and head is not None and tail != head:
            edges.add(Edge(tail, head, label, key))

    def writer_at(key: str, index: int) -> int | None:
        values = final.get(key, ())
        if 0 <= index < len(values) and values[index] in writer:
            return writer[values[index]][0]
        return None

    for key, values in final.items():
        for index in range(len(values) - 1):
            add(writer_at(key, index), writer_at(key, index + 1), WW, key)
    for number, each in enumerate(transactions):
        for key, values in each.reads.items():
            add(writer_at(key, len(values) - 1), number, WR, key)
            add(number, writer_at(key, len(values)), RW, key)
    return sorted(edges)


def _check_cycles(edges: Sequence[Edge], findings: Findings) -> None:
    """One cycle of each kind for every component that has one."""
    for inside in edges_of_components([edge for edge in edges if edge.label == WR]):
        found = cycle(inside, lambda edge: True)
        assert found is not None, "a component has a cycle"
        findings.add("G1c", _told(found))
    for _ in edges_of_components([edge for edge in edges if edge.label == WW]):
        findings.allow("G0")
    for inside in edges_of_components([edge for edge in edges if edge.label != RW]):
        if cycle(inside, lambda edge: edge.label == WR) is not None:
            findings.allow("G1c with ww")
    for inside in edges_of_components(edges):
        if any(_is_single(edge, inside) for edge in inside if edge.label == RW):
            findings.allow("G-single")


def _is_single(anti: Edge, edges: Sequence[Edge]) -> bool:
    """Whether a cycle has this rw edge and no other."""
    others = [edge for edge in edges if edge.label != RW]
    return cycle([*others, anti], lambda edge: edge == anti) is not None


def _told(found: Sequence[Edge]) -> str:
    return ", ".join(f"T{e.tail} -{e.label} {e.key}-> T{e.head}" for e in found)
