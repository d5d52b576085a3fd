"""Every limit of the probe, with its unit. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

SILENT_INTERVALS_MIN: Final = 3
"""Silence is longer than so many intervals, or the pause between two records would be one."""

Positive = Annotated[int, Field(gt=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """How an aggregator probes its links."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    interval_ms: Positive = 1_000
    """Between two records of a link."""
    late_ms: Positive = 5_000
    """A record that is under way for longer counts as late, which is no fault."""
    lost_ms: Positive = 10_000
    """A record is lost when it has not arrived for so long after a later one arrived."""
    silent_ms: Positive = 30_000
    """A link is silent when nothing has arrived for so long."""
    fault_shown_ms: Positive = 86_400_000
    """How long a link is degraded after a fault; the counts stay until the aggregator restarts."""
    window_ms: Positive = 3_600_000
    """How long a record is remembered, and the retention of the probe topic. What arrives later is
    not judged: the source may have deleted it before it was copied."""
    window_records_max: Positive = 10_000
    """How many records of a link are remembered at most."""
    segment_bytes: Annotated[int, Field(ge=1_048_576)] = 1_048_576
    """Of the probe topic. Retention deletes whole segments, and Kafka takes none smaller."""
    send_ms_max: Positive = 30_000
    """How long a delivery report may take; then the outcome is unknown and the producer is
    replaced."""
    reopen_ms: Positive = 30_000
    """The consumer is replaced when nothing arrives for so long though records are under way."""

    def __post_init__(self) -> None:
        if self.silent_ms < SILENT_INTERVALS_MIN * self.interval_ms:
            raise ValueError(
                f"silent_ms is {self.silent_ms}; it must be at least {SILENT_INTERVALS_MIN} times "
                f"interval_ms, which is {self.interval_ms}"
            )
