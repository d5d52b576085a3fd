"""Safe positions in a partition of several links against a model that knows every record."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_maker.formats import OffsetMap, Run
from mirror_maker.group_sync.position_rules import SyncState
from mirror_maker.group_sync.shared_positions import SharedFlow, safe_position

LINKS = 3


@dataclass
class Link:
    """One source partition with its copy, and the part that the map topic has."""

    target_start: int | None = None
    """None before it is opened."""
    source_end: int = 0
    source_next: int = 0
    pairs: list[tuple[int, int]] = field(default_factory=list)
    holes: set[int] = field(default_factory=set)
    written: OffsetMap | None = None
    committed: int | None = None

    def flush(self) -> None:
        assert self.target_start is not None
        self.written = OffsetMap(0, self.target_start)
        for source, target in self.pairs:
            self.written.append(Run(source, target, 1))
        self.written.advance(self.source_next)


@dataclass
class World:
    links: list[Link] = field(default_factory=lambda: [Link() for _ in range(LINKS)])
    target: list[tuple[Link, int]] = field(default_factory=list)
    """Link and source offset of every record."""

    def step(self, action: str, index: int, amount: int) -> None:
        link = self.links[index]
        match action:
            case "write":
                link.source_end += amount
            case "mark":
                link.holes.add(link.source_end)
                link.source_end += 1
            case "copy":
                if link.target_start is None:
                    link.target_start = len(self.target)
                    link.flush()
                while amount and link.source_next < link.source_end:
                    if link.source_next not in link.holes:
                        link.pairs.append((link.source_next, len(self.target)))
                        self.target.append((link, link.source_next))
                    link.source_next += 1
                    amount -= 1
            case "flush":
                if link.target_start is not None:
                    link.flush()
            case "commit":
                link.committed = min((link.committed or 0) + amount, link.source_end)
            case _:
                raise AssertionError(action)

    def known_end(self) -> int:
        return max((link.written.target_next for link in self.links if link.written), default=0)

    def flows(self) -> list[SharedFlow]:
        return [
            SharedFlow(
                str(index),
                link.written,
                link.written.target_start,
                link.committed,
                link.source_end,
            )
            for index, link in enumerate(self.links)
            if link.written is not None
        ]


steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "copy", "copy", "mark", "flush", "commit", "commit"]),
        st.integers(0, LINKS - 1),
        st.integers(1, 6),
    ),
    max_size=50,
)


@given(steps, steps, st.integers(0, 10))
@settings(max_examples=300, deadline=None)
def test_nothing_unread_lies_before_the_position(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]], log_start: int
) -> None:
    """Copying may continue between the two reads of the maps."""
    world = World()
    for step in before:
        world.step(*step)
    known_end = world.known_end()
    for step in after:
        world.step(*step)
    safe = safe_position(world.flows(), known_end, log_start)
    assert safe.target_offset is not None
    assert safe.target_offset >= log_start
    for link, source in world.target[log_start : safe.target_offset]:
        assert link.committed is not None
        assert source < link.committed
    assert safe.reread_records == sum(
        target >= safe.target_offset and source < link.committed
        for link in world.links
        if link.committed is not None and link.written is not None
        for source, target in link.pairs
        if source < link.written.source_next
    )


@given(steps)
@settings(max_examples=300, deadline=None)
def test_the_position_is_the_greatest_if_everything_is_mapped(
    happened: list[tuple[str, int, int]],
) -> None:
    """Then the position is the first unread record, or the end."""
    world = World()
    for step in happened:
        world.step(*step)
    for index, link in enumerate(world.links):
        world.step("copy", index, link.source_end + 1)
        world.step("flush", index, 0)
    wanted = len(world.target)
    for link in world.links:
        assert link.target_start is not None
        if link.committed is None:
            wanted = min(wanted, link.target_start)
        elif link.committed < link.source_end:
            unread = [target for source, target in link.pairs if source >= link.committed]
            wanted = min([wanted, *unread[:1]])
    safe = safe_position(world.flows(), world.known_end(), 0)
    assert safe.target_offset == wanted
    if any(link.committed is None for link in world.links):
        assert safe.held_by is not None or wanted == len(world.target)
    else:
        assert safe.state is SyncState.MERGED
