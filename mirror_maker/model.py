"""The nouns of the mirror: states, and the errors that stop a flow."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from local_cluster.wire.errors import ErrorCode
from mirror_maker.rules.trouble import Trouble

SEQUENCE_MASK: Final = 0x7FFF_FFFF
UNACKED_BATCHES_MAX: Final = 5
"""Batches of a producer that a broker remembers per partition (ProducerStateEntry's
NUM_BATCHES_TO_RETAIN): the window in which a repeated write is recognised."""

PRODUCER_EPOCH_MAX: Final = 0x7FFF
PRODUCER_REFUSED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""Refusals of the producer's state, which only a new epoch heals, if the map has none yet."""


def advance_sequence(sequence: int, records_count: int) -> int:
    """The sequence `records_count` later; it wraps to 0 after 2**31 - 1, as Kafka's does."""
    return (sequence + records_count) & SEQUENCE_MASK


class FlowState(StrEnum):
    """What one partition on its way is doing."""

    STARTING = "STARTING"
    """Finding out from the target where to go on."""
    CATCHING_UP = "CATCHING_UP"
    RUNNING = "RUNNING"
    """Within a moment of the source's end."""
    SOURCE_GONE = "SOURCE_GONE"
    """The source topic is not there at the moment."""
    HELD = "HELD"
    """Paused by an operator."""
    PAUSED = "PAUSED"
    """In trouble that may pass; tried again by itself."""
    FAILED = "FAILED"
    """Stopped with a reason, until an operator decides."""


class LinkState(StrEnum):
    """What a link as a whole is doing; the worst of its parts that matters to an operator."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    CATCHING_UP = "CATCHING_UP"
    SOURCE_DOWN = "SOURCE_DOWN"
    TARGET_DOWN = "TARGET_DOWN"
    HELD = "HELD"
    """Paused by an operator, all of it."""
    DEGRADED = "DEGRADED"
    """Some partitions stand still, the others go on."""
    FAILED = "FAILED"


class LinkFailedError(Exception):
    """The link must stop: its map cannot be trusted."""


class DescribedProducer(NamedTuple):
    """What a partition's leader knows of a producer id (KIP-664)."""

    producer_epoch: int
    last_sequence: int
    """-1 where it has none."""
    last_timestamp_ms: int = -1
    """Largest timestamp of its last batch; -1 where that is not known."""


class SourceGap(NamedTuple):
    """Source offsets [source_from, source_to) that a trouble makes uncopyable."""

    source_from: int
    source_to: int | None
    """None where the trouble leaves no end: the log itself was replaced."""
    records_count: int | None
    """None where nobody can know."""


class FlowFailedError(Exception):
    """The flow must stand still: going on would lose, double or falsify records."""

    def __init__(
        self,
        message: str,
        trouble: Trouble = Trouble.TARGET,
        gap: SourceGap | None = None,
    ) -> None:
        """`gap` is what `skip` leaves out; without one the trouble cannot be skipped."""
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
    """What lies on the target cannot be proved to be a copy of the source."""
