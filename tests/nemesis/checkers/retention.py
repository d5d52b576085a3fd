"""A topic whose oldest records are deleted: the rest stays, where it was written. Pure."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Found, Outcome, Write, check_set


class LogStart(NamedTuple):
    """One answer of a leader to "what is the earliest offset?"."""

    offset: int
    process: tuple[int, int]
    """Node and process id: what a broker knew of it may be lost when it dies."""
    at_ms: int
    """By the clock of the records' timestamps, after the answer."""


class Promise(NamedTuple):
    """What is not deleted, of each partition; None promises nothing."""

    age_ms: int | None = None
    """Records that are not older."""
    records: int | None = None
    """So many of the latest."""


def check_retained(
    writes: Sequence[Write],
    read: Mapping[int, Sequence[Found]],
    starts: Mapping[int, Sequence[LogStart]],
    promise: Promise,
) -> Findings:
    """Anomalies: those of `check_set` for what lies at the log start or behind it; deleted-early
    (what is promised), start-went-back (as one process tells it).

    `starts` are in order of time, by partition, the last of them as it was before and after what
    is in `read` was read. Another leader may not have deleted as much yet: that is only counted.
    """
    lowest: dict[tuple[int, str], int] = {}
    for partition, found in read.items():
        for record in found:
            key = partition, record.producer
            lowest[key] = min(record.number, lowest.get(key, record.number))
    findings = Findings()
    kept: list[Write] = []
    for write in writes:
        first = starts[write.partition][-1].offset
        if 0 <= write.offset < first:
            findings.checked["deleted"] += 1
        is_there = write.offset >= first
        if write.offset < 0:
            # Where it is was not told: surely there only behind another one that is.
            key = write.partition, write.producer
            is_there = key in lowest and write.number > lowest[key]
        is_unknown = write.outcome is Outcome.ACKNOWLEDGED and not is_there
        kept.append(write._replace(outcome=Outcome.UNKNOWN) if is_unknown else write)
    findings.merge(check_set(kept, read))
    for partition, told in starts.items():
        findings.merge(_check_starts(partition, told))
        mine = [each for each in writes if each.partition == partition]
        findings.merge(_check_promise(partition, mine, told, promise))
    return findings


def _check_starts(partition: int, told: Sequence[LogStart]) -> Findings:
    findings = Findings()
    findings.checked["starts"] += len(told)
    highest: dict[tuple[int, int], LogStart] = {}
    for before, after in itertools.pairwise(told):
        highest[before.process] = max(before, highest.get(before.process, before))
        known = highest.get(after.process)
        if known is not None and after.offset < known.offset:
            findings.add("start-went-back", f"{partition}: {after} after {known}")
        elif after.offset < before.offset:
            findings.allow("start-went-back")
    return findings


def _check_promise(
    partition: int, writes: Sequence[Write], told: Sequence[LogStart], promise: Promise
) -> Findings:
    """Of one partition, whose producer writes in the order of its timestamps."""
    findings = Findings()
    by_offset = sorted((w for w in writes if w.offset >= 0), key=lambda each: each.offset)
    offsets = [each.offset for each in by_offset]
    youngest = list(itertools.accumulate((each.timestamp_ms for each in by_offset), max))
    # They may be anywhere, and so are taken to be among what is left.
    without_offset = len(writes) - len(by_offset)
    for each in told:
        deleted = bisect_left(offsets, each.offset)
        if not deleted:
            continue
        age_ms = each.at_ms - youngest[deleted - 1]
        left = bisect_right(youngest, each.at_ms) - deleted + without_offset
        is_young = promise.age_ms is not None and age_ms <= promise.age_ms
        is_few = promise.records is not None and left < promise.records
        if is_young or is_few:
            text = f"what was {age_ms} ms old, {left} records were left"
            findings.add("deleted-early", f"{partition}: {each}: {text}")
            # It stays deleted: once is enough.
            break
    return findings
