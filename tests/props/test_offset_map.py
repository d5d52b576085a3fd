"""The offset map against a model that knows every single record."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.formats import (
    Block,
    FlowKey,
    MapTopic,
    OffsetMap,
    Opening,
    Run,
    TranslationState,
    encode_record,
)

FLOW = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))

# What can happen to a flow: a batch is copied, source offsets hold nothing to copy (markers,
# aborted data, holes), somebody else writes into the target, the map is flushed, the worker dies
# and its successor begins a block, with or without the runs of the last one.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), st.integers(1, 5)),
        st.tuples(st.just("skip"), st.integers(1, 4)),
        st.tuples(st.just("foreign"), st.integers(1, 3)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
    ),
    max_size=40,
)


@dataclass
class World:
    """The model (`pairs`) and the log of the map topic, written together."""

    source_start: int
    target_start: int
    source_next: int = 0
    target_next: int = 0
    sequence: int = 0
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """(source offset, target offset) of every copied record."""
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    written_next: int = 0
    nonce: int = 0
    block: OpenBlock = field(init=False)
    last: Block | None = None

    def __post_init__(self) -> None:
        self.source_next = self.written_next = self.source_start
        self.target_next = self.target_start
        opening = Opening(
            flow=FLOW,
            producer_id=7,
            producer_epoch=0,
            nonce=0,
            target_topic="a.t",
            source_offset=self.source_start,
            target_offset=self.target_start,
            opened_at_ms=0,
            worker_id="w",
        )
        self.log.append(encode_record(opening))
        self.begin_block(None)

    def begin_block(self, predecessor: Block | None) -> None:
        self.nonce += 1
        self.block = OpenBlock(
            flow=FLOW,
            target_topic="a.t",
            producer_id=7,
            producer_epoch=0,
            nonce=self.nonce,
            source_start=self.source_next,
            target_start=self.pairs[-1][1] + 1 if self.pairs else self.target_start,
            next_sequence=self.sequence,
            predecessor=predecessor,
        )

    def do(self, step: str, argument: int) -> None:
        match step:
            case "copy":
                run = Run(self.source_next, self.target_next, argument)
                self.pairs += [
                    (run.source_offset + index, run.target_offset + index)
                    for index in range(argument)
                ]
                self.source_next += argument
                self.target_next += argument
                self.sequence += argument
                self.block.append([run], self.source_next, self.sequence)
            case "skip":
                self.source_next += argument
                self.block.advance(self.source_next)
            case "foreign":
                self.target_next += argument
            case "flush":
                self.flush()
            case "restart":
                # The successor proves how far its predecessor came; here it had flushed.
                self.flush()
                self.begin_block(self.last if argument else None)

    def flush(self) -> None:
        blocks, keys = self.block.take_records()
        self.log += [encode_record(block) for block in blocks]
        self.log += [(key, None) for key in keys]
        self.last = blocks[-1]
        self.written_next = self.source_next

    def translate(self, source_offset: int) -> int:
        """Translate by the definition, record by record, over what is written."""
        written = [(s, t) for s, t in self.pairs if s < self.written_next]
        before = [target for source, target in written if source < source_offset]
        return max(before) + 1 if before else self.target_start


def replayed(log: list[tuple[bytes, bytes | None]]) -> OffsetMap:
    topic = MapTopic()
    for key, value in log:
        topic.replay(key, value)
    offset_map = topic.offset_map(FLOW)
    assert offset_map is not None
    return offset_map


def compacted(log: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """Return the last record of every key, in log order, without tombstones."""
    last = {key: index for index, (key, _) in enumerate(log)}
    return [
        (key, value)
        for index, (key, value) in enumerate(log)
        if last[key] == index and value is not None
    ]


def made(source_start: int, target_start: int, actions: list[tuple[str, int]]) -> World:
    world = World(source_start, target_start)
    for step, argument in actions:
        world.do(step, argument)
    return world


def check_exact(world: World, offset_map: OffsetMap) -> None:
    assert offset_map.source_next == world.written_next
    previous = 0
    for source_offset in range(world.written_next + 1):
        translation = offset_map.translate(source_offset)
        assert translation.state is TranslationState.EXACT
        assert translation.target_offset == world.translate(source_offset), source_offset
        assert translation.target_offset >= previous
        previous = translation.target_offset
    for source_offset in range(world.written_next + 1, world.source_next + 3):
        translation = offset_map.translate(source_offset)
        assert translation == (TranslationState.PENDING, None)
    sources = {t: s for s, t in world.pairs if s < world.written_next}
    for target_offset in range(world.target_next + 2):
        assert offset_map.source_of(target_offset) == sources.get(target_offset)


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), steps)
def test_translation_is_exact_and_honest(
    source_start: int, target_start: int, actions: list[tuple[str, int]]
) -> None:
    world = made(source_start, target_start, actions)
    check_exact(world, replayed(world.log))


@settings(deadline=None)
@given(st.integers(0, 5), steps)
def test_compaction_changes_nothing(start: int, actions: list[tuple[str, int]]) -> None:
    world = made(start, 0, actions)
    check_exact(world, replayed(compacted(world.log)))


@settings(deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_lost_blocks_make_answers_inexact_or_pending_and_never_wrong(
    actions: list[tuple[str, int]], random: Random
) -> None:
    world = made(0, 0, actions)
    opening, *blocks = compacted(world.log)
    kept = [block for block in blocks if random.random() < 0.5]
    offset_map = replayed([opening, *kept])
    sources = {t: s for s, t in world.pairs}
    for source_offset in range(world.source_next + 2):
        translation = offset_map.translate(source_offset)
        if translation.state is TranslationState.EXACT:
            before = [target for source, target in world.pairs if source < source_offset]
            assert translation.target_offset == (before[-1] + 1 if before else 0), source_offset
        if translation.target_offset is not None:
            unread = (target for source, target in world.pairs if source >= source_offset)
            assert all(target >= translation.target_offset for target in unread), source_offset
    for target_offset in range(world.target_next + 2):
        found = offset_map.source_of(target_offset)
        assert found is None or found == sources[target_offset]


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), steps, st.integers(0, 30))
def test_a_reader_of_the_target_stands_exactly_in_the_source_too(
    source_start: int, target_start: int, actions: list[tuple[str, int]], log_start: int
) -> None:
    """Also if the map was trimmed below the reader."""
    world = made(source_start, target_start, actions)
    offset_map = replayed(world.log)
    offset_map.trim(log_start)
    written = [(s, t) for s, t in world.pairs if s < world.written_next]
    copies = {target for _, target in written}
    for offset in range(log_start, world.target_next + 2):
        unread = [source for source, target in written if target >= offset]
        assert offset_map.source_place(offset) == (unread[0] if unread else world.written_next)
        uncovered = next(at for at in range(offset, offset + 999) if at not in copies)
        assert offset_map.covered_to(offset, runs_max=999) == uncovered
    known = [source for source, target in written if target >= log_start]
    for start in range(known[0] if known else world.written_next, world.written_next + 1):
        none_from = not any(source >= start for source, _ in written)
        assert offset_map.has_none_from(start) == none_from
        for end in range(start, world.written_next + 2):
            count = sum(start <= source < end for source, _ in written)
            assert offset_map.count_sources(start, end, runs_max=999) == count


@settings(deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_lost_blocks_never_put_a_reader_of_the_target_too_far(
    actions: list[tuple[str, int]], random: Random
) -> None:
    world = made(0, 0, actions)
    opening, *blocks = compacted(world.log)
    offset_map = replayed([opening, *(block for block in blocks if random.random() < 0.5)])
    copies = {target for _, target in world.pairs}
    for offset in range(world.target_next + 2):
        place = offset_map.source_place(offset)
        assert all(target < offset for source, target in world.pairs if source < place)
        covered = offset_map.covered_to(offset, runs_max=999)
        assert copies.issuperset(range(offset, covered))
    for start in range(world.source_next + 1):
        if offset_map.has_none_from(start):
            assert not any(start <= source < offset_map.source_next for source, _ in world.pairs)
        for end in range(start, offset_map.source_next + 1):
            count = offset_map.count_sources(start, end, runs_max=999)
            if count is not None:
                assert count == sum(start <= source < end for source, _ in world.pairs)


@settings(deadline=None)
@given(steps)
def test_runs_are_maximal_and_ascend(actions: list[tuple[str, int]]) -> None:
    world = made(0, 0, [*actions, ("flush", 0)])
    runs = list(replayed(world.log).runs())
    for left, right in pairwise(runs):
        assert left.source_next <= right.source_offset
        assert left.target_next <= right.target_offset
        assert (left.source_next, left.target_next) != (right.source_offset, right.target_offset)
    assert sum(run.records_count for run in runs) == len(world.pairs)
