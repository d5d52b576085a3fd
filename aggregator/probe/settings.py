"""The settings of the probe: every limit with its unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

SILENT_INTERVALS_MIN: Final = 3
"""Fewest intervals of silence: the pause between two records must not count as silence."""

Positive = Annotated[int, Field(gt=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """How an aggregator probes its links."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    interval_ms: Positive = 1_000
    """Milliseconds between two records of a link."""
    late_ms: Positive = 5_000
    """A record that is under way for longer is late, which is no fault."""
    lost_ms: Positive = 10_000
    """A record is lost if it has not arrived this long after a later record arrived."""
    silent_ms: Positive = 30_000
    """A link is silent if no record has arrived for this long."""
    fault_shown_ms: Positive = 86_400_000
    """How long a link is degraded after a fault; the counts stay until the aggregator restarts."""
    window_ms: Positive = 3_600_000
    """How long a record is remembered, and the retention of the probe topic. A later arrival is not
    judged: the source may have deleted the record before it was copied."""
    window_records_max: Positive = 10_000
    """Most records of a link that are remembered."""
    segment_bytes: Annotated[int, Field(ge=1_048_576)] = 1_048_576
    """Segment size of the probe topic: retention deletes whole segments. The minimum is Kafka's."""
    send_ms_max: Positive = 30_000
    """How long a delivery report may take. After that the outcome is unknown and the producer is
    replaced."""
    reopen_ms: Positive = 30_000
    """The consumer is replaced if records are under way and none arrives for this long."""

    def __post_init__(self) -> None:
        if self.silent_ms < SILENT_INTERVALS_MIN * self.interval_ms:
            raise ValueError(
                f"silent_ms is {self.silent_ms}; it must be at least {SILENT_INTERVALS_MIN} times "
                f"interval_ms, which is {self.interval_ms}"
            )
