"""What the parts of a link share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.clusters.origins import Origins
from mirror_maker.clusters.throttle import Rates
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.ports import Clock, DataSink, DataSource, Lease
from mirror_maker.rules.record_rules import RecordRules, record_rules
from mirror_maker.settings import Limits, LinkSettings
from mirror_maker.stores.audit_topics import AuditTopics
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.map_store import MapStore
from mirror_maker.stores.map_write_health import MapWrites

if TYPE_CHECKING:  # what nobody asked for is not loaded
    from mirror_maker.metrics.batch_spans import BatchSpans


class Rest(NamedTuple):
    """Since when a target partition is watched for writes of ours that were on their way."""

    offset: int
    """Whatever of ours arrived since then lies here or behind."""
    since_ms: int
    """Monotonic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkContext:
    """What the parts of a link share."""

    settings: LinkSettings
    limits: Limits
    worker_id: str
    source: DataSource
    """For questions; the long polls have a connection of their own."""
    sink: DataSink
    """For questions and map writes; produced data has a connection of its own."""
    directory: Directory
    map_store: MapStore
    gap_store: GapStore
    audit_topics: AuditTopics
    map_writes: MapWrites = field(default_factory=MapWrites)
    origins: Origins | None = None
    """Where only what was born at the source is copied."""
    rates: Rates = field(default_factory=Rates)
    """How fast this worker may read and write for the link."""
    spans: BatchSpans | None = None
    """Where a span is wanted for each batch."""
    missing_rights: Callable[[], list[str]] = list
    """What the mirror's principals were refused in either cluster, a sentence each."""
    lease: Lease
    clock: Clock
    random: Random
    source_logs: LogOffsets = field(init=False)
    sink_logs: LogOffsets = field(init=False)
    proofs: asyncio.Semaphore = field(init=False)
    """Held while a flow proves where it stands."""
    rests: dict[TopicPartition, Rest] = field(default_factory=dict)
    """Of target partitions whose source log has ended; see `generations.py`."""
    record_rules: RecordRules | None = field(init=False)
    """By the settings: which records are copied, and as what; None for all as they are. `rules_of`
    tells those of one topic."""

    def __post_init__(self) -> None:
        rules = record_rules(self.settings.filter, self.settings.transform)
        object.__setattr__(self, "record_rules", rules)
        source_logs = LogOffsets(self.source, self.directory.source_leader)
        object.__setattr__(self, "source_logs", source_logs)
        sink_logs = LogOffsets(self.sink, self.directory.target_leader)
        object.__setattr__(self, "sink_logs", sink_logs)
        object.__setattr__(self, "proofs", asyncio.Semaphore(self.limits.proofs_at_once_max))

    @property
    def foreign_ids(self) -> Set[int]:
        """Producer ids whose batches were born elsewhere and are not copied."""
        return frozenset() if self.origins is None else self.origins.foreign_ids

    def is_held(self, source: TopicPartition) -> bool:
        """Whether an operator has paused this partition; what was fetched is written all the
        same."""
        return self.map_store.state.controls.pauses(*source)

    def check_lease(self) -> None:
        """Before something is told of what the source has, or has lost: another worker may have
        copied it meanwhile. Raises KafkaError where this one's lease has run out."""
        if not self.lease.is_valid():
            raise KafkaError(ErrorCode.rebalance_in_progress, "the lease has run out")

    def rules_of(self, topic: str) -> RecordRules | None:
        """The rules for the records of a source topic."""
        return None if topic == self.settings.probe_topic else self.record_rules

    def fetch_bytes(self, bytes_max: int) -> int:
        """How much of the source may be asked for at once, where it would be `bytes_max`."""
        if self.record_rules is None:
            return bytes_max
        return min(bytes_max, self.limits.rules_fetch_bytes_max)
