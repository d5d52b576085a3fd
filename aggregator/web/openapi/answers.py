"""The answers about links, topics, offsets and the service itself, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from aggregator.maps.followed_topic import TopicState
from aggregator.maps.link_map import TranslationState

LevelName = Literal["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"]
"""The keys of `local_cluster.log_levels.LEVELS`."""


class Answer(BaseModel):
    """An object with the documented keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Problem(Answer):
    """An error."""

    error: str
    """Its kind, for programs."""
    message: str
    """What happened, for people."""
    parameter: str | None
    """The parameter that is wrong."""
    did_you_mean: str | None
    """The nearest known name."""


class Alive(Answer):
    """The process responds."""

    state: str


class Logger(Answer):
    """A logger of the process."""

    logger: str
    level: LevelName
    """The level in effect."""
    is_set: bool
    """Whether the level is its own, not that of its parent."""


class Loggers(Answer):
    """The loggers of the process. A package is a logger too."""

    loggers: list[Logger]


class NewLevel(Answer):
    """The level that a logger gets."""

    level: LevelName | None
    """Null returns it to the level of its parent."""


class ReadinessCheck(Answer):
    """One condition of being ready."""

    check: str
    state: str
    passed: bool
    problem: str | None


class Ready(Answer):
    """Whether topics and offset maps are known."""

    ready: bool
    checks: list[ReadinessCheck] = Field(default=[])
    """Present with `verbose=1`."""


class LagSums(Answer):
    """The lag of a link; null is unknown, never 0."""

    records: int | None
    bytes: int | None
    seconds: float | None


class MapProgress(Answer):
    """How far the offset map of a link was read."""

    state: TopicState
    problem: str | None
    partitions: int | None
    lag_records: int | None
    age_seconds: float | None


class Link(Answer):
    """A link into the aggregate."""

    name: str
    datacenter: str
    source: str
    target: str
    lag: LagSums
    map: MapProgress


class Links(Answer):
    """All links."""

    links: list[Link]


class PartitionLag(Answer):
    """The lag of one source partition, as its mirror worker reports it."""

    topic: str
    partition: int
    target_topic: str
    state: str
    records: int | None
    bytes: int | None
    seconds: float | None


class LinkLag(Answer):
    """The lag of a link in total and per partition."""

    link: str
    records: int | None
    bytes: int | None
    seconds: float | None
    partitions_known: int | None
    """Partitions to copy; null while no worker reports the link."""
    partitions: list[PartitionLag]


class Lag(Answer):
    """The lag of the links."""

    links: list[LinkLag]


class TopicPart(Answer):
    """The copy of one source topic in a merged topic."""

    topic: str
    """Its name on the aggregate."""
    datacenter: str
    link: str
    source: str
    source_topic: str
    partitions: int | None


class MergedTopic(Answer):
    """A topic over all datacenters."""

    name: str
    partitions: int
    """The partitions of all parts that are known."""
    parts: list[TopicPart]


class LocalTopic(Answer):
    """A topic of the aggregate that no link fills."""

    name: str
    partitions: int


class Topics(Answer):
    """The topics of the aggregate."""

    aggregate: str
    age_seconds: float | None
    topics: list[MergedTopic]
    local: list[LocalTopic]


class TranslatedOffset(Answer):
    """One offset on both sides of a link."""

    link: str
    datacenter: str
    topic: str | None
    """The source topic; null if it is unknown."""
    partition: int
    offset: int | None
    """The source offset; null unless `state` says that it is known."""
    state: TranslationState
    target_topic: str | None
    target_offset: int | None
    source_from: int = 0
    """In the reverse direction, with `inexact`: the least source offset that it may be."""
    source_to: int = 0
    """The first source offset above those that it may be."""


class OffsetBatch(Answer):
    """Up to 10,000 source offsets of a link."""

    link: str
    offsets: list[tuple[str, int, int]]
    """Topic, partition and offset of each."""


class TranslatedBatch(Answer):
    """The offsets of the request, in its order."""

    link: str
    offsets: list[TranslatedOffset]


class TranslatedGroup(Answer):
    """The committed offsets of a group on both sides of a link."""

    link: str
    group: str
    exact: bool
    partitions: list[TranslatedOffset]
