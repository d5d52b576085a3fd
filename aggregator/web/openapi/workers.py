"""The answer about what mirror workers know of links, as types."""

from __future__ import annotations

from typing import Any

from aggregator.web.openapi.answers import Answer


class Trouble(Answer):
    """A partition that is in trouble, or was restarted by one."""

    worker_id: str | None
    topic: str
    partition: int
    target_topic: str
    state: str
    trouble: str | None
    reason: str | None
    restarts: int | None
    last_gap: dict[str, Any] | None
    """The newest entry of the journal of gaps."""


class PausedPartition(Answer):
    """A partition that an operator has paused."""

    topic: str
    partition: int


class Controls(Answer):
    """The orders of an operator; a rate of null is the configured one."""

    paused: list[PausedPartition]
    paused_more: int
    source_bytes_per_second: float | None
    target_bytes_per_second: float | None


class GroupPosition(Answer):
    """The position of a group that the link moves."""

    group: str
    topic: str
    partition: int
    target_topic: str
    source_offset: int | None
    target_offset: int | None
    state: str
    held_by: str | None
    reread_records: int | None


class Groups(Answer):
    """The sync of groups."""

    enabled: bool | None
    failure: str | None
    states: dict[str, int]
    """Positions by state."""
    positions: list[GroupPosition]
    positions_more: int


class RecordLatency(Answer):
    """From a record's timestamp to its acknowledged copy, in milliseconds."""

    records: int
    min: float | None
    mean: float | None
    max: float | None


class WorkerOfLink(Answer):
    """What one worker knows of a link; null is unknown, also to an older version."""

    worker_id: str | None
    state: str | None
    reason: str | None
    partitions: int | None
    rights_missing: list[str] | None
    rights_missing_more: int
    topics_left_out: list[str] | None
    """Topics that are not copied, with the reason."""
    topics_left_out_more: int
    controls: Controls | None
    groups: Groups | None
    latency_ms: RecordLatency


class LinkState(Answer):
    """What the workers of a link know of it."""

    link: str
    troubles: list[Trouble]
    troubles_more: int
    gaps_by_reason: dict[str, int]
    workers: list[WorkerOfLink]


class Workers(Answer):
    """What the workers know of the links."""

    links: list[LinkState]
