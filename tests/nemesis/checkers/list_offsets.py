"""ListOffsets and OffsetForLeaderEpoch against a list of the records. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.nemesis.checkers.findings import Findings


class Stamped(NamedTuple):
    """One record as the log has it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def offset_for_timestamp(records: Sequence[Stamped], timestamp_ms: int) -> int:
    """The first record (in order of offsets) that is at least as young; -1 where none is."""
    return next((each.offset for each in records if each.timestamp_ms >= timestamp_ms), -1)


def check_timestamps(
    where: str, records: Sequence[Stamped], answers: Mapping[int, int]
) -> Findings:
    """`answers`: timestamp -> offset. Anomaly: wrong-offset."""
    findings = Findings()
    findings.checked["timestamps"] += len(answers)
    for timestamp_ms, offset in answers.items():
        wanted = offset_for_timestamp(records, timestamp_ms)
        if offset != wanted:
            findings.add("wrong-offset", f"{where} at {timestamp_ms}: {offset}, not {wanted}")
    return findings


def check_epochs(
    where: str, records: Sequence[Stamped], log_end: int, answers: Mapping[int, int]
) -> Findings:
    """`answers`: leader epoch -> end offset, for epochs that have records.

    Anomalies: epoch-went-back (in the log), wrong-epoch-end.
    """
    findings = Findings()
    findings.checked["epochs"] += len(answers)
    for before, after in itertools.pairwise(records):
        if after.leader_epoch < before.leader_epoch:
            findings.add("epoch-went-back", f"{where}: {after} after {before}")
    for epoch, end in answers.items():
        wanted = next((e.offset for e in records if e.leader_epoch > epoch), log_end)
        if end != wanted:
            findings.add("wrong-epoch-end", f"{where} epoch {epoch}: {end}, not {wanted}")
    return findings


def check_repeatable(where: str, seen: Mapping[int, str], records: Mapping[int, str]) -> Findings:
    """What a consumer once saw at an offset is there in the end. Anomaly: truncated."""
    findings = Findings()
    findings.checked["seen"] += len(seen)
    for offset, value in seen.items():
        if records.get(offset) != value:
            there = records.get(offset)
            findings.add("truncated", f"{where}/{offset}: {value} was seen, {there} is there")
    return findings
