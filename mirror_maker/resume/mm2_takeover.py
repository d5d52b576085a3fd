"""Taking over from a MirrorMaker 2 deployment: its noted offset and both logs, compared. Shell.

MirrorMaker 2 notes every minute how far it has copied. After a clean stop nothing lies after that
note. After a kill the target has more, parts of it maybe twice if it restarted in between. What
matters is the end of the target: the longest prefix of the source after the note with which the
target ends, preceded by the noted record. If records are equal, several lengths may fit; then
nobody can tell, and nothing is copied.

The deployment must have ended: nothing tells a mirror that another one still writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.clusters.partition_log import PartitionLog, TargetLog
from mirror_maker.copy.batch_selection import select_batches
from mirror_maker.formats.mm2 import decode_source_position
from mirror_maker.model import FlowFailedError
from mirror_maker.ports import LogReader
from mirror_maker.resume.source_log import SourceLog

RECORDS_MAX: Final = 200_000
"""Records after MirrorMaker 2's last note that are looked for on the target."""
MARKERS_MAX: Final = 1_000
"""Offsets of transaction markers allowed for among them, besides one per record."""
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


class Mm2Offsets:
    """The offsets that the source tasks of MirrorMaker 2 noted in a topic on the target."""

    def __init__(self, sink: LogReader, offsets: LogOffsets, source_alias: str) -> None:
        self._sink = sink
        self._offsets = offsets
        self._source_alias = source_alias

    async def read(self, topic: str, source: TopicPartition) -> int | None:
        """Return the last offset noted for a source partition.

        Raises KafkaError, FlowFailedError if there is no such topic.
        """
        found = (await self._sink.metadata([topic])).topics[topic]
        if found.error == ErrorCode.topic_authorization_failed:
            raise KafkaError(found.error, f"{topic} at the target")
        if found.error:
            raise FlowFailedError(f"{topic} on the target: {found.error.name}")
        noted = None
        for partition, entry in found.partitions.items():
            at, leader = TopicPartition(topic, partition), entry.leader
            log = PartitionLog(at, self._sink, self._offsets, {at: leader}.get)
            first, end = await self._offsets.bounds(at, leader)
            for record in await _read(log, first, end, records_max=None):
                position = decode_source_position(record.key, record.value)
                # A key lies in one partition, so its last record is the latest.
                if position is not None and position[:3] == (self._source_alias, *source):
                    noted = position.last_offset
        return noted


async def find_take_over(
    source: SourceLog, target: TargetLog, noted_offset: int | None
) -> tuple[int, bool]:
    """Return (the source offset to continue from, whether copies precede it).

    Raises KafkaError; FlowFailedError if the logs do not tell.
    """
    first, end = await source.bounds()
    target_first, target_end = await target.bounds()
    start = first if noted_offset is None else max(first, noted_offset + 1)
    if target_end == target_first:
        return start, noted_offset is not None
    following = await _read(source, start, end)
    noted = None
    if noted_offset is not None and noted_offset >= first:
        before = await _read(source, noted_offset, noted_offset + 1)
        noted = _identity(before[0]) if before else None
    window = max(target_first, target_end - 2 * len(following) - MARKERS_MAX)
    tail = await _read(target, window, target_end, records_max=None)
    lengths = matching_lengths(
        [_identity(record) for record in following],
        [_identity(record) for record in tail],
        noted,
        is_whole=window == 0 and (noted is not None or noted_offset is None),
    )
    if len(lengths) != 1 or lengths[0] == RECORDS_MAX:
        raise FlowFailedError(
            f"the end of {target.at} does not tell how far {source.at} was copied from offset "
            f"{start} on: {len(lengths)} ways to match (MirrorMaker 2 noted {noted_offset})"
        )
    return following[lengths[0] - 1].offset + 1 if lengths[0] else start, True


def _identity(record: Record) -> int:
    return hash(record[1:])


async def _read(
    log: PartitionLog, start: int, end: int, *, records_max: int | None = RECORDS_MAX
) -> list[Record]:
    """Return the committed records of [start, end), at most so many."""
    log.leader()  # raises if there is none, also where nothing is to be read
    records: list[Record] = []
    position = start
    while position < end and (records_max is None or len(records) < records_max):
        fetched = await log.read(
            position, bytes_max=FETCH_BYTES_MAX, isolation_level=READ_COMMITTED
        )
        selection = select_batches(fetched.records, position, fetched.aborted_transactions)
        for batch in selection.batches:
            records += (record for record in batch.records() if record.offset < end)
        if selection.refusal is not None:
            raise selection.refusal
        if selection.source_next == position:
            break  # an open transaction holds back the rest
        position = selection.source_next
    return records[:records_max]


def matching_lengths(
    following: Sequence[int], tail: Sequence[int], noted: int | None, *, is_whole: bool
) -> list[int]:
    """Return every count of records of `following` with which the target may end, ascending.

    Records are given by an identity: `following` are those of the source after the note, `tail` the
    target's last ones, `noted` the record of the note (None: it cannot be read, or with `is_whole`,
    nothing was noted). `is_whole`: the target never had records before `tail`.
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
    """Return the length of the longest prefix of the pattern with which the text ends."""
    borders = _borders(pattern)
    length = 0
    for item in text:
        while length and (length == len(pattern) or pattern[length] != item):
            length = borders[length - 1]
        if length < len(pattern) and pattern[length] == item:
            length += 1
    return length


def _borders(pattern: Sequence[int]) -> list[int]:
    """Return per prefix the length of its longest proper prefix that is also its suffix.

    This is the failure function of Knuth, Morris and Pratt.
    """
    borders = [0] * len(pattern)
    length = 0
    for index in range(1, len(pattern)):
        while length and pattern[length] != pattern[index]:
            length = borders[length - 1]
        if pattern[length] == pattern[index]:
            length += 1
        borders[index] = length
    return borders
