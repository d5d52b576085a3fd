"""The ways of naming copies: clusters, links, and where a topic's copy lies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple


class Mode(StrEnum):
    """A way of naming copies; each is a deployment of its own."""

    PREFIXED = "prefixed"
    """Two sources, copies called <source>.<topic>."""
    IDENTITY = "identity"
    """One way, copies keep their names; outside clients write into one of them as well."""
    MAP = "map"
    """Names by a map, by a pattern, and prefixed where neither says anything."""
    MERGE = "merge"
    """Two sources into topics of one name."""
    PAIR = "pair"
    """Two clusters that mirror each other under identical names."""
    RING = "ring"
    """Three clusters in a ring under identical names, each link copying what was born at its
    source."""


class State(StrEnum):
    """What happens to a topic at its source; also its name there."""

    PLAIN = "plain"
    COMPACTED = "compacted"
    """Keys updated and deleted, cleaned before it is copied and while; the copy is cleaned too."""
    KEPT = "kept"
    """The same, but the copy keeps everything: each record that came over is still there."""
    TRANSACTIONAL = "transactional"
    """Transactions, committed, aborted and abandoned, and records outside of them."""
    RETENTION = "retention"
    """DeleteRecords and retention overtake the mirror."""
    RECREATED = "recreated"
    """Deleted and re-created under its name."""
    GROWN = "grown"
    """Gets partitions."""


class LinkShape(NamedTuple):
    """A link of a mode, by the names of its clusters."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """The link's default name."""
        return f"{self.source}-{self.target}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The clusters and links of a mode."""

    clusters: tuple[str, ...]
    links: tuple[LinkShape, ...]
    options: Mapping[str, Any]
    """Keys of each link in the topology file."""
    states: tuple[State, ...]
    """Source states that make sense in the mode."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Clusters that links read."""
        return tuple(dict.fromkeys(link.source for link in self.links))

    @property
    def targets(self) -> tuple[str, ...]:
        """Clusters that links write."""
        return tuple(dict.fromkeys(link.target for link in self.links))

    def links_into(self, target: str) -> Sequence[LinkShape]:
        """The links that write into a cluster."""
        return [link for link in self.links if link.target == target]


MAPPED: Final = {"plain": "mapped.of-plain", "recreated": "anew", "grown": "mapped.of-grown"}
PATTERN, PATTERNED = "(compacted|kept)", "tables.$1.copy"

_ALL = tuple(State)
# If copies go both ways under one name, a deleted topic comes back from the other side
# (docs/operations/link-options.md). A copy that exists beforehand is a topic of its own.
_BOTH_WAYS = tuple(state for state in State if state not in (State.KEPT, State.RECREATED))
_TWO_TO_ONE = (LinkShape("a", "hub"), LinkShape("b", "hub"))

SHAPES: Final[Mapping[Mode, Shape]] = {
    Mode.PREFIXED: Shape(("a", "b", "hub"), _TWO_TO_ONE, {}, _ALL),
    Mode.IDENTITY: Shape(
        ("a", "hub"), (LinkShape("a", "hub"),), {"names": "identity"}, _ALL
    ),
    Mode.MAP: Shape(
        ("a", "hub"),
        (LinkShape("a", "hub"),),
        {"names": {"map": MAPPED, "pattern": PATTERN, "to": PATTERNED}},
        _ALL,
    ),
    Mode.MERGE: Shape(("a", "b", "hub"), _TWO_TO_ONE, {"merge": [".*"]}, _ALL),
    Mode.PAIR: Shape(
        ("a", "b"),
        (LinkShape("a", "b"), LinkShape("b", "a")),
        {"names": "identity", "origin": "local"},
        _BOTH_WAYS,
    ),
    Mode.RING: Shape(
        ("a", "b", "hub"),
        (LinkShape("a", "b"), LinkShape("b", "hub"), LinkShape("hub", "a")),
        {"names": "identity", "origin": "local"},
        _BOTH_WAYS,
    ),
}  # fmt: skip


def copy_name(mode: Mode, link: LinkShape, topic: str) -> str:
    """What the copy of a topic is called, as docs/operations/topology.md defines it."""
    prefixed = f"{link.source}.{topic}"
    match mode:
        case Mode.PREFIXED:
            return prefixed
        case Mode.MAP if topic in MAPPED:
            return MAPPED[topic]
        case Mode.MAP:
            is_patterned = topic in ("compacted", "kept")
            return PATTERNED.replace("$1", topic) if is_patterned else prefixed
        case _:
            return topic


def is_shared(mode: Mode, link: LinkShape, topic: str) -> bool:
    """Whether others than the link may write into the copy: its name does not tell its origin."""
    return copy_name(mode, link, topic) != f"{link.source}.{topic}"


def writers_of(mode: Mode, state: State) -> tuple[str, ...]:
    """The clusters in which outside producers write to the topic of a state."""
    shape = SHAPES[mode]
    if mode is Mode.IDENTITY and state is State.PLAIN:
        return shape.clusters
    return shape.sources
