"""The queue: what producers sent and consumers polled, after Jepsen's workload of that name. Pure.

Source: jepsen-io/redpanda, workload/queue.clj. Allowed are:

- gaps between offsets (markers);
- other records between those of one producer (writes are not isolated);
- copies that the client itself sent again (`resent.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.resent import Place
from tests.nemesis.checkers.set_full import Outcome


class Sent(NamedTuple):
    """One unique value that was sent, in the order of its producer."""

    producer: str
    value: str
    partition: int
    outcome: Outcome
    offset: int = -1


class Polled(NamedTuple):
    """One value that a consumer was given, in the order of its polls."""

    consumer: str
    partition: int
    offset: int
    value: str
    life: int
    """Counted up whenever the consumer's position may have been set: assignment, seek, start."""


def check_queue(
    sent: Sequence[Sent],
    polled: Sequence[Polled],
    groups: Iterable[Sequence[str]] = (),
    superseded: AbstractSet[Place] = frozenset(),
) -> Findings:
    """Check what was sent against what was polled.

    Anomalies: inconsistent-offset, duplicate, aborted-read, invented, lost-write,
    nonmonotonic-poll, poll-skip, nonmonotonic-send, group-skip, group-stuck (acknowledged records
    behind everything that a group was given of a partition).

    `polled` must hold a last consumer that read everything. Each of `groups` names the consumers
    of one group. They read from the start of the topic until writing has ended and everything
    could be read, so together they must see everything. A record at a `superseded` place is no
    duplicate of a later one, but must not have been acknowledged there.
    """
    findings = Findings()
    findings.checked.update(sent=len(sent), polled=len(polled))
    values: dict[Place, set[str]] = defaultdict(set)
    places: dict[str, set[Place]] = defaultdict(set)
    told = [((each.partition, each.offset), each.value) for each in sent if each.offset >= 0]
    read = [((each.partition, each.offset), each.value) for each in polled]
    for place, value in [*told, *read]:
        values[place].add(value)
    for place, value in [*told, *(pair for pair in read if pair[0] not in superseded)]:
        places[value].add(place)
    for place, there in values.items():
        if len(there) > 1:
            findings.add("inconsistent-offset", f"{place}: {sorted(there)}")
    for value, at in places.items():
        if len(at) > 1:
            findings.add("duplicate", f"{value} at {sorted(at)}")
    outcomes = {each.value: each.outcome for each in sent}
    seen = {each.value for each in polled}
    for value in seen:
        if value not in outcomes:
            findings.add("invented", value)
        elif outcomes[value] is Outcome.REFUSED:
            findings.add("aborted-read", value)
    for each in sent:
        if each.outcome is Outcome.ACKNOWLEDGED and each.value not in seen:
            findings.add("lost-write", f"{each.value} at {each.partition}/{each.offset}")
    _check_sends(sent, findings)
    existing = _offsets(polled)
    _check_polls(polled, existing, findings)
    for group in groups:
        members = frozenset(group)
        by_group = _offsets([each for each in polled if each.consumer in members])
        findings.checked["group-polled"] += sum(map(len, by_group.values()))
        for partition, known in existing.items():
            offsets = by_group[partition]
            for offset in sorted(known - offsets):
                where = f"{sorted(members)}: {partition}/{offset}"
                if offset < max(offsets, default=-1):
                    findings.add("group-skip", where)
                elif any(
                    outcomes.get(value) is Outcome.ACKNOWLEDGED
                    for value in values[partition, offset]
                ):
                    findings.add("group-stuck", where)
    return findings


def _offsets(polled: Iterable[Polled]) -> dict[int, set[int]]:
    offsets: dict[int, set[int]] = defaultdict(set)
    for each in polled:
        offsets[each.partition].add(each.offset)
    return offsets


def _check_sends(sent: Iterable[Sent], findings: Findings) -> None:
    latest: dict[tuple[str, int], int] = {}
    for each in sent:
        if each.outcome is Outcome.ACKNOWLEDGED and each.offset >= 0:
            key = each.producer, each.partition
            if each.offset <= latest.get(key, -1):
                findings.add("nonmonotonic-send", f"{each} after offset {latest[key]}")
            latest[key] = each.offset


def _check_polls(
    polled: Iterable[Polled], existing: dict[int, set[int]], findings: Findings
) -> None:
    in_order = {partition: sorted(offsets) for partition, offsets in existing.items()}
    place = {
        (partition, offset): index
        for partition, offsets in in_order.items()
        for index, offset in enumerate(offsets)
    }
    latest: dict[tuple[str, int, int], int] = {}
    for each in polled:
        key = each.consumer, each.partition, each.life
        before = latest.get(key)
        latest[key] = each.offset
        if before is None:
            continue
        if each.offset <= before:
            findings.add("nonmonotonic-poll", f"{each} after offset {before}")
        elif place[each.partition, each.offset] != place[each.partition, before] + 1:
            missed = in_order[each.partition][place[each.partition, before] + 1]
            findings.add("poll-skip", f"{each} after offset {before}, and {missed} is there")
