"""An offset-map topic, replayed: registrations, openings and one map per flow.

Feed every record in log order to `replay`; query at any time. More records never falsify an answer,
because maps only grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from mirror_maker.formats.controls import Controls
from mirror_maker.formats.fields import MapFormatError
from mirror_maker.formats.marks import MirroredCommit, OwnedCopy
from mirror_maker.formats.offset_map import OffsetMap, Run
from mirror_maker.formats.record_values import decode_record
from mirror_maker.formats.records import (
    Block,
    FlowKey,
    Opening,
    Registration,
    Terms,
    commit_key,
    decode_key,
    owned_copy_key,
)


class MapTopic:
    """The state that the records of one map topic amount to."""

    def __init__(self) -> None:
        self.registrations: list[Registration] = []
        """In log order; the first is the link's."""
        self.terms: dict[str, str] | None = None
        """The settings that decide which records are copied; None if they were never written."""
        self.controls = Controls()
        """An operator's last orders to the link."""
        self._registered: set[int] = set()
        self._openings: dict[FlowKey, list[Opening]] = {}
        self._opened: set[bytes] = set()
        self._blocks: dict[FlowKey, dict[bytes, Block]] = {}
        self._maps: dict[FlowKey, OffsetMap] = {}
        self._latest: dict[tuple[str, int], FlowKey] = {}
        self._latest_into: dict[tuple[str, int, UUID], FlowKey] = {}
        self._flows_into: dict[tuple[str, int, UUID], dict[FlowKey, None]] = {}
        self._commits: dict[bytes, MirroredCommit] = {}
        self._led: dict[bytes, OwnedCopy] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError."""
        if key is None:
            raise MapFormatError("a record without a key")
        if value is None:
            self._delete(key)
            return
        record = decode_record(key, value)
        match record:
            case Registration():
                if record.producer_id not in self._registered:
                    self._registered.add(record.producer_id)
                    self.registrations.append(record)
            case Controls():
                self.controls = record
            case Terms():
                if self.terms is None:
                    self.terms = dict(record.terms)
            case MirroredCommit():
                self._commits[key] = record
            case OwnedCopy():
                self._led[key] = record
            case Opening():
                if key not in self._opened and not self._is_late(record):
                    self._opened.add(key)
                    self._openings.setdefault(record.flow, []).append(record)
                    self._latest[_source(record.flow)] = record.flow
                    self._latest_into[_source_into(record.flow)] = record.flow
            case Block():
                self._blocks.setdefault(record.flow, {})[key] = record
                self._latest.setdefault(_source(record.flow), record.flow)
                self._latest_into.setdefault(_source_into(record.flow), record.flow)
        if isinstance(record, Opening | Block):
            self._maps.pop(record.flow, None)
            self._flows_into.setdefault(_source_into(record.flow), {})[record.flow] = None

    def _is_late(self, opening: Opening) -> bool:
        """Return whether a dead worker's opening arrived after that of a re-created topic.

        Whoever knows of an opening opens the re-created topic at a higher epoch. So the two
        workers did not know of each other, and only the later one can have copied anything.
        """
        latest = self._latest_into.get(_source_into(opening.flow))
        if latest is None or latest == opening.flow:
            return False
        return opening.producer_epoch <= self.highest_epoch(opening.flow)

    def _delete(self, key: bytes) -> None:
        if self._commits.pop(key, None) or self._led.pop(key, None):
            return
        flow = decode_key(key).flow
        if flow is not None and self._blocks.get(flow, {}).pop(key, None) is not None:
            self._maps.pop(flow, None)

    def mirrored_commit(self, group_id: str, topic: str, partition: int) -> MirroredCommit | None:
        """Return what the link last committed for a group in a partition of the target."""
        return self._commits.get(commit_key(group_id, topic, partition))

    def mirrored_commits(self) -> Iterator[MirroredCommit]:
        """Return all of them, in no order."""
        return iter(self._commits.values())

    def owned_copy(self, topic: str) -> OwnedCopy | None:
        """Return the mark of a copy that the link owns, or owned, under this name on the target."""
        return self._led.get(owned_copy_key(topic))

    def owned_copies(self) -> Iterator[OwnedCopy]:
        """Return all of them, in no order."""
        return iter(self._led.values())

    @property
    def registration(self) -> Registration | None:
        """Return the link's own registration."""
        return self.registrations[0] if self.registrations else None

    def flows(self) -> Iterator[FlowKey]:
        """Return the flow that was opened last, per source topic and partition."""
        return iter(self._latest.values())

    def every_flow(self) -> Iterator[FlowKey]:
        """Yield every flow that was ever opened, in no order; those of deleted topics too."""
        yield from dict.fromkeys((*self._openings, *self._blocks))

    def former_flows(self, flow: FlowKey) -> list[FlowKey]:
        """Return the flows before this one of the same names into the same target topic.

        Their source topics were deleted and re-created. The oldest comes first.
        """
        starts = {
            each: self._start_of(each) for each in self._flows_into.get(_source_into(flow), ())
        }
        former = [each for each, start in starts.items() if start < starts[flow]]
        return sorted(former, key=starts.__getitem__)

    def _start_of(self, flow: FlowKey) -> tuple[int, int]:
        """Return the target offset where the copies of a flow begin, and its first epoch."""
        offset_map = self.offset_map(flow)
        epochs = (
            *(each.producer_epoch for each in self._openings.get(flow, ())),
            *(each.producer_epoch for each in self._blocks.get(flow, {}).values()),
        )
        return 0 if offset_map is None else offset_map.target_start, min(epochs, default=-1)

    def latest_flow(
        self, source_topic: str, partition: int, target_topic_id: UUID | None = None
    ) -> FlowKey | None:
        """Return the flow of a source partition that was opened last, or None.

        With a target topic id only flows into that topic count: a copy that was deleted and
        re-created is another topic under the same name.
        """
        if target_topic_id is None:
            return self._latest.get((source_topic, partition))
        return self._latest_into.get((source_topic, partition, target_topic_id))

    def target_topic(self, flow: FlowKey) -> str | None:
        """Return the target topic's name, as the flow's records give it."""
        records: Iterable[Opening | Block] = (
            self._openings.get(flow) or self._blocks.get(flow, {}).values()
        )
        return next((record.target_topic for record in records), None)

    def opening(self, flow: FlowKey) -> Opening | None:
        """Return the opening that holds: of the highest epoch, the first in log order."""
        openings = self._openings.get(flow)
        if not openings:
            return None
        epoch = max(opening.producer_epoch for opening in openings)
        return next(opening for opening in openings if opening.producer_epoch == epoch)

    def opening_after(self, flow: FlowKey, producer_epoch: int) -> Opening | None:
        """Return the opening that holds of the lowest epoch above this one."""
        holding = self._openings_by_epoch(flow)
        later = [epoch for epoch in holding if epoch > producer_epoch]
        return holding[min(later)] if later else None

    def last_block(self, flow: FlowKey, producer_epoch: int) -> Block | None:
        """Return the block of that epoch that reaches furthest; among equals, the one with most
        runs.
        """
        blocks = [
            block
            for block in self._blocks.get(flow, {}).values()
            if block.producer_epoch == producer_epoch
        ]
        return max(blocks, key=lambda block: (block.source_next, len(block.runs)), default=None)

    def blocks(self, flow: FlowKey) -> list[Block]:
        """Return all blocks of a flow, of any epoch."""
        return list(self._blocks.get(flow, {}).values())

    def offset_map(self, flow: FlowKey) -> OffsetMap | None:
        """Return the map of a flow, None if it was never opened. The caller must not change it."""
        if flow not in self._maps:
            built = self.build_offset_map(flow)
            if built is None:
                return None
            self._maps[flow] = built
        return self._maps[flow]

    def build_offset_map(self, flow: FlowKey) -> OffsetMap | None:
        """Build a map of a flow that the caller may change; None if it was never opened."""
        openings = self._openings_by_epoch(flow)
        blocks = sorted(
            self._blocks.get(flow, {}).values(),
            key=lambda block: (block.producer_epoch, block.source_start, block.source_next),
        )
        if openings:
            first = openings[min(openings)]
            offset_map = OffsetMap(
                first.source_offset,
                first.target_offset,
                has_older_copies=first.has_older_copies,
            )
        elif blocks:
            offset_map = OffsetMap(blocks[0].source_start, blocks[0].target_start)
        else:
            return None
        for epoch in sorted({*openings, *(block.producer_epoch for block in blocks)}):
            opening = openings.get(epoch)
            if opening is not None and opening.source_offset < offset_map.source_next:
                # The source's log was truncated, or an operator ordered a repair: from there on it
                # was copied again.
                if opening.source_offset > offset_map.source_start:
                    offset_map.truncate(opening.source_offset)
                else:
                    offset_map = _start_over(offset_map, opening)
            for block in blocks:
                if block.producer_epoch == epoch:
                    extend_map(offset_map, block)
        return offset_map

    def _openings_by_epoch(self, flow: FlowKey) -> dict[int, Opening]:
        """Return the opening that holds, per producer epoch."""
        holding: dict[int, Opening] = {}
        for opening in self._openings.get(flow, ()):
            holding.setdefault(opening.producer_epoch, opening)
        return holding

    def highest_epoch(self, flow: FlowKey) -> int:
        """Return the highest epoch of all openings of this source partition's name into this target
        topic; -1 without any.
        """
        latest = self._latest_into.get(_source_into(flow))
        return -1 if latest is None else max(self._openings_by_epoch(latest), default=-1)


def _source(flow: FlowKey) -> tuple[str, int]:
    return flow.source_topic, flow.partition


def _source_into(flow: FlowKey) -> tuple[str, int, UUID]:
    return flow.source_topic, flow.partition, flow.target_topic_id


def _start_over(replaced: OffsetMap, opening: Opening) -> OffsetMap:
    """Return the map of a generation that copies everything again."""
    # Copies of others lie before the new generation only if both begin at the same offset.
    is_behind_others = opening.source_offset == replaced.source_start
    return OffsetMap(
        opening.source_offset,
        opening.target_offset,
        has_older_copies=replaced.has_older_copies and is_behind_others,
    )


def extend_map(offset_map: OffsetMap, block: Block) -> None:
    """Add what the block knows beyond the map's end; blocks that overlap agree.

    Raises MapFormatError if they do not.
    """
    if block.source_start == offset_map.source_start:
        offset_map.begin()
    if block.source_next <= offset_map.source_next:
        return
    if block.source_start > offset_map.source_next:
        if block.target_start < offset_map.target_next:
            raise MapFormatError(f"{block.flow}: a block begins too low, at {block.target_start}")
        offset_map.skip_unknown(block.source_start, block.target_start)
    for run in block.runs:
        known = max(0, offset_map.source_next - run.source_offset)
        if known < run.records_count and run.target_offset + known < offset_map.target_next:
            raise MapFormatError(f"{block.flow}: {run} contradicts another block")
        if known < run.records_count:
            offset_map.append(
                run
                if known == 0
                else Run(
                    run.source_offset + known, run.target_offset + known, run.records_count - known
                )
            )
    offset_map.advance(block.source_next)
