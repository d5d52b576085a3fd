"""Records that a client wrote again under a raised producer epoch, and nothing else. Pure.

A broker knows a repetition by producer id, epoch and sequence. librdkafka's idempotent producer
raises its epoch by itself if a refused batch makes the next one fail for its sequence. It does so
for all partitions at once, and sends everything without an answer again, from sequence 0 on. A
record of these that was already written is then there twice, and no broker can know
(confluentinc/librdkafka#4953, open as of 2.16; `tests/compat/test_librdkafka_epoch.py` shows it).

Such copies differ from a broker's mistake. In their partition they are the last records of
one epoch and, in the same order, the first ones of the producer's next epoch. Each epoch's
sequences count up from 0 without a gap or a repetition: that is the broker's promise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tests.nemesis.checkers.findings import Findings

Place = tuple[int, int]
"""(partition, offset)"""

BATCHES_IN_FLIGHT_MAX: Final = 5
"""Of one partition: RD_KAFKA_IDEMP_MAX_INFLIGHT."""


class Written(NamedTuple):
    """One record of a partition, and what its batch says of who wrote it."""

    offset: int
    value: str
    producer_id: int
    epoch: int
    sequence: int
    """Of the record: its batch's and its place in it."""
    batch_offset: int
    """Where its batch begins."""


def superseded(log: Mapping[int, Sequence[Written]]) -> frozenset[Place]:
    """The first copies of records that their client wrote again under its next epoch.

    `log` holds each partition's records in order.
    """
    places: set[Place] = set()
    for partition, records in log.items():
        for epochs in _by_producer(records).values():
            for before, after in itertools.pairwise(epochs):
                places |= {(partition, record.offset) for record in _sent_again(before, after)}
    return frozenset(places)


def check_log(log: Mapping[int, Sequence[Written]]) -> Findings:
    """Anomalies: sequence (a gap or a repetition within an epoch), epoch-back. Allowed: sent-again.

    `log` holds each partition's records in order, from the first that was ever written.
    """
    findings = Findings()
    for _ in superseded(log):
        findings.allow("sent-again")
    for partition, records in log.items():
        latest: dict[int, tuple[int, int]] = {}
        for record in records:
            if record.producer_id < 0:
                continue
            findings.checked["sequences"] += 1
            epoch, sequence = latest.get(record.producer_id, (-1, -1))
            if record.epoch < epoch:
                findings.add("epoch-back", f"{partition}: {record} after epoch {epoch}")
            wanted = sequence + 1 if record.epoch == epoch else 0
            if record.sequence != wanted:
                findings.add("sequence", f"{partition}: {record}, {wanted} was due")
            latest[record.producer_id] = record.epoch, record.sequence
    return findings


def _by_producer(records: Iterable[Written]) -> dict[int, list[list[Written]]]:
    """Runs of records of one epoch, in order, by producer id."""
    found: dict[int, list[list[Written]]] = {}
    for record in records:
        if record.producer_id < 0:
            continue
        runs = found.setdefault(record.producer_id, [])
        if not runs or runs[-1][-1].epoch != record.epoch:
            runs.append([])
        runs[-1].append(record)
    return found


def _sent_again(before: Sequence[Written], after: Sequence[Written]) -> Sequence[Written]:
    """The end of one epoch's records that is the beginning of the next one's."""
    values = [record.value for record in before]
    if after[0].epoch <= before[0].epoch or after[0].value not in values:
        return ()
    start = values.index(after[0].value)
    again = before[start:]
    is_same = values[start:] == [record.value for record in after[: len(again)]]
    is_in_flight = len({record.batch_offset for record in again}) <= BATCHES_IN_FLIGHT_MAX
    return again if is_same and is_in_flight else ()
