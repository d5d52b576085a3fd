"""States of flows and links, and the errors that stop them.

A *flow* is one source partition that is copied to one target partition. A *link* is the set of all
flows from one source cluster into the target.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from local_cluster.records.header import SEQUENCE_MASK
from local_cluster.wire.errors import ErrorCode
from mirror_maker.rules.trouble import Trouble

UNACKED_BATCHES_MAX: Final = 5
"""Batches of a producer that a broker remembers per partition (ProducerStateEntry's
NUM_BATCHES_TO_RETAIN): the window in which it recognizes a repeated write."""

PRODUCER_REFUSED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""Refusals of the producer's state. Only a new producer epoch ends them."""


def advance_sequence(sequence: int, records_count: int) -> int:
    """Return the sequence `records_count` later; it wraps to 0 after 2**31 - 1, as in Kafka."""
    return (sequence + records_count) & SEQUENCE_MASK


class FlowState(StrEnum):
    """What one flow is doing."""

    STARTING = "STARTING"
    """Proving from the target's log where to continue."""
    CATCHING_UP = "CATCHING_UP"
    RUNNING = "RUNNING"
    """Copying, and seconds behind the source's end at most."""
    SOURCE_GONE = "SOURCE_GONE"
    """The source topic does not exist at the moment."""
    HELD = "HELD"
    """Paused by an operator."""
    PAUSED = "PAUSED"
    """Stopped by a trouble that may pass; retried automatically."""
    FAILED = "FAILED"
    """Stopped with a reason until an operator decides."""


class LinkState(StrEnum):
    """What a link as a whole is doing: the worst state of its parts that concerns an operator."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    CATCHING_UP = "CATCHING_UP"
    SOURCE_DOWN = "SOURCE_DOWN"
    TARGET_DOWN = "TARGET_DOWN"
    HELD = "HELD"
    """Paused by an operator as a whole."""
    DEGRADED = "DEGRADED"
    """Some partitions are stopped, the others continue."""
    FAILED = "FAILED"


class LinkFailedError(Exception):
    """The link must stop because its map cannot be trusted."""


class DescribedProducer(NamedTuple):
    """What a partition's leader knows of a producer id (KIP-664)."""

    producer_epoch: int
    last_sequence: int
    """-1 if it has none."""
    last_timestamp_ms: int = -1
    """Largest timestamp of its last batch; -1 if unknown."""


class SourceGap(NamedTuple):
    """Source offsets [source_from, source_to) that cannot be copied."""

    source_from: int
    source_to: int | None
    """None if there is no end: the log itself was replaced."""
    records_count: int | None
    """None if nobody can know."""


class FlowFailedError(Exception):
    """The flow must stop: to continue would lose, duplicate or falsify records."""

    def __init__(
        self,
        message: str,
        trouble: Trouble = Trouble.TARGET,
        gap: SourceGap | None = None,
    ) -> None:
        """`gap` is what the policy `skip` leaves out; without it the trouble cannot be skipped."""
        super().__init__(message)
        self.trouble = trouble
        self.gap = gap


class UncopyableBatchError(FlowFailedError):
    """A source batch that the mirror cannot copy truthfully."""

    def __init__(self, offset: int, reason: str, gap: SourceGap | None = None) -> None:
        super().__init__(f"source offset {offset}: {reason}", Trouble.CORRUPT, gap)
        self.offset = offset
        self.reason = reason


class PairingError(FlowFailedError):
    """Records on the target cannot be proved to be copies of the source."""
