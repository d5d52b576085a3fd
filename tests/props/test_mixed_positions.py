"""Positions under identical names, in every direction at once, against a model of all records."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_maker.formats import OffsetMap, Run
from mirror_maker.group_sync.position_rules import SyncState
from mirror_maker.group_sync.shared_positions import (
    OwnRecords,
    SafePosition,
    SharedFlow,
    first_that_is_no_copy,
    origin_position,
    safe_position,
)

CLUSTERS = 3
Direction = tuple[int, int]
EVERY_LINK = tuple(permutations(range(CLUSTERS), 2))


class Entry(NamedTuple):
    """What lies at an offset: a record with its origin, or a transaction marker."""

    origin: int
    offset: int
    is_marker: bool


@dataclass
class Link:
    """A link that copies, and the part that its map topic has."""

    source_next: int = 0
    pairs: list[tuple[int, int]] = field(default_factory=list)
    target_start: int | None = None
    written: OffsetMap | None = None

    def flush(self) -> None:
        if self.target_start is None:
            return
        self.written = OffsetMap(0, self.target_start)
        for source, target in self.pairs:
            self.written.append(Run(source, target, 1))
        self.written.advance(self.source_next)


@dataclass
class World:
    directions: frozenset[Direction]
    logs: list[list[Entry]] = field(default_factory=lambda: [[] for _ in range(CLUSTERS)])
    links: dict[Direction, Link] = field(init=False)

    def __post_init__(self) -> None:
        self.links = {direction: Link() for direction in self.directions}

    def step(self, action: str, direction: Direction, amount: int) -> None:
        source, target = direction
        match action:
            case "write" | "mark":
                for _ in range(amount if action == "write" else 1):
                    entry = Entry(source, len(self.logs[source]), action == "mark")
                    self.logs[source].append(entry)
            case "copy" if direction in self.links:
                link = self.links[direction]
                if link.target_start is None:
                    link.target_start = len(self.logs[target])
                    link.flush()
                for entry in self.logs[source][link.source_next :][:amount]:
                    if entry.origin == source and not entry.is_marker:
                        link.pairs.append((link.source_next, len(self.logs[target])))
                        self.logs[target].append(entry)
                    link.source_next += 1
            case "flush" if direction in self.links:
                self.links[direction].flush()

    def place(self, direction: Direction, offset: int, known_end: int) -> SafePosition:
        """As `PositionPlacer` assembles it."""
        source, target = direction
        back = {each[0]: link.written for each, link in self.links.items() if each[1] == source}
        flows = []
        for (origin, into), link in self.links.items():
            if into != target or link.written is None:
                continue
            read_to: int | None = offset
            if origin != source:
                there = back.get(origin)
                read_to = None if there is None else origin_position(there, offset)
            end = len(self.logs[origin])
            flows.append(
                SharedFlow(str(origin), link.written, link.written.target_start, read_to, end)
            )
        home = back.get(target)
        own = OwnRecords("own", first_that_is_no_copy([f.offset_map for f in flows], 0), None)
        if home is not None:
            own = OwnRecords("own", origin_position(home, offset), home)
        return safe_position(flows, known_end, 0, own)

    def unread(self, direction: Direction, offset: int) -> list[int]:
        """Offsets of the target with records that a group at the source's `offset` has not read."""
        source, target = direction
        read = {entry for entry in self.logs[source][:offset] if not entry.is_marker}
        return [
            at
            for at, entry in enumerate(self.logs[target])
            if not entry.is_marker and entry not in read
        ]

    def settle(self) -> None:
        """Copy and map everything."""
        for _ in range(2):
            for direction in sorted(self.links):
                self.step("copy", direction, 1 << 30)
        for direction in self.links:
            self.step("flush", direction, 0)


directions = st.sampled_from(EVERY_LINK)
steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "copy", "copy", "copy", "mark", "flush"]),
        directions,
        st.integers(1, 6),
    ),
    max_size=60,
)
some_links = st.one_of(
    st.just(frozenset(EVERY_LINK)),
    st.just(frozenset({(0, 1), (1, 0)})),
    st.frozensets(directions, min_size=1),
)


@given(some_links, steps, steps, directions, st.integers(0, 30))
@settings(max_examples=500, deadline=None)
def test_nothing_unread_lies_before_the_position(
    links: frozenset[Direction],
    before: list[tuple[str, Direction, int]],
    after: list[tuple[str, Direction, int]],
    direction: Direction,
    offset: int,
) -> None:
    """Any links, while copying continues between the lookups."""
    world = World(links)
    for step in before:
        world.step(*step)
    known_end = len(world.logs[direction[1]])
    for step in after:
        world.step(*step)
    if direction not in links:
        return
    offset = min(offset, len(world.logs[direction[0]]))
    safe = world.place(direction, offset, known_end)
    assert safe.target_offset is not None
    assert not [at for at in world.unread(direction, offset) if at < safe.target_offset]


@given(
    st.sampled_from([frozenset(EVERY_LINK), frozenset({(0, 1), (1, 0)})]),
    steps,
    st.integers(0, 60),
)
@settings(max_examples=300, deadline=None)
def test_the_position_is_the_first_unread_record_if_everything_is_mapped(
    links: frozenset[Direction], happened: list[tuple[str, Direction, int]], offset: int
) -> None:
    world = World(links)
    for step in happened:
        world.step(*step)
    world.settle()
    for direction in sorted(links):
        source, target = direction
        at = min(offset, len(world.logs[source]))
        unread = world.unread(direction, at)
        safe = world.place(direction, at, len(world.logs[target]))
        end = len(world.logs[target])
        place = unread[0] if unread else end
        behind = sum(not entry.is_marker for entry in world.logs[target][place:])
        assert safe.state is SyncState.MERGED
        assert safe.target_offset == place
        assert safe.reread_records == behind - len(unread)
        assert (safe.held_by is None) == (place == end)


@given(steps, st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_there_and_back_again_is_never_further(
    happened: list[tuple[str, Direction, int]], offset: int
) -> None:
    """So even a position that came from a mirror does not carry its group past a record."""
    world = World(frozenset(EVERY_LINK))
    for step in happened:
        world.step(*step)
    world.settle()
    for source, target in EVERY_LINK:
        at = min(offset, len(world.logs[source]))
        there = world.place((source, target), at, len(world.logs[target])).target_offset
        assert there is not None
        back = world.place((target, source), there, len(world.logs[source])).target_offset
        assert back is not None
        assert all(entry.is_marker for entry in world.logs[source][at:back])
