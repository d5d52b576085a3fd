"""What one run of the prober sent over a link, and what arrived. Pure; times are monotonic ms.

    begin --> PENDING --acknowledged--> SENT      it is on the source: it must arrive, once
                 +------unknown-------> UNKNOWN   it may arrive or not, at any place in the order

Records are sent one after the other, each after the delivery report of the one before. So a record
that was acknowledged lies before every later one on the source, and the link keeps that order. When
a later one arrives, the earlier one is *overtaken*. It is *lost* if it does not come within
`lost_ms` then. A record that nothing overtook is only late, however long it takes: the link stands
still, or is far behind. A lost record that arrives after all is out of order and not lost.

A record is remembered for `window_ms`; what arrives later is not judged. A record that was read
before, at its offset of the copy, is not judged again: the reader starts over where a log begins.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final

from aggregator.probe.settings import ProbeSettings

SEQUENCES_LISTED_MAX: Final = 20
"""The latest faults of a kind that are named by their sequence numbers."""


class Fault(StrEnum):
    """What must not happen between a source and its aggregate."""

    LOST = "lost"
    DOUBLED = "doubled"
    OUT_OF_ORDER = "out_of_order"
    ALTERED = "altered"


class Delivery(Enum):
    """What is known of a send."""

    PENDING = auto()
    SENT = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class Faults:
    """All faults of one kind."""

    count: int = 0
    last_ms: float | None = None
    sequences: deque[int] = field(default_factory=lambda: deque(maxlen=SEQUENCES_LISTED_MAX))

    def note(self, sequence: int | None, now_ms: float) -> None:
        """One more; None where the record does not tell its sequence number."""
        self.count += 1
        self.last_ms = now_ms
        if sequence is not None:
            self.sequences.append(sequence)

    def take_back(self, sequence: int) -> None:
        """It was none."""
        self.count -= 1
        if sequence in self.sequences:
            self.sequences.remove(sequence)


@dataclass(slots=True)
class _Entry:
    begun_ms: float
    delivery: Delivery = Delivery.PENDING
    has_arrived: bool = False
    overtaken_ms: float | None = None
    is_lost: bool = False


class Ledger:
    """The bookkeeping of one link."""

    def __init__(self, settings: ProbeSettings, started_ms: float) -> None:
        self.started_ms = started_ms
        self.sent = 0
        """Records that are on the source for sure."""
        self.received = 0
        """Records of those that arrived, each counted once."""
        self.expired = 0
        """Records that were sent and did not arrive within the window; the source may have deleted
        them."""
        self.last_arrival_ms: float | None = None
        self.faults = {fault: Faults() for fault in Fault}
        self._settings = settings
        self._next = 0
        self._highest_arrived = -1
        self._read_to = 0
        """Offset of the copy behind the last record that was judged."""
        self._entries: dict[int, _Entry] = {}
        """The window, by sequence number, ascending."""
        self._missing: dict[int, _Entry] = {}
        """What has not arrived of it and is not lost."""

    # -- sending --------------------------------------------------------------------------------

    def begin(self, now_ms: float) -> int:
        """The sequence number of the record that is sent now."""
        sequence, self._next = self._next, self._next + 1
        self._entries[sequence] = self._missing[sequence] = _Entry(now_ms)
        self._forget(now_ms)
        return sequence

    def acknowledged(self, sequence: int) -> None:
        """The source has it, committed."""
        entry = self._entries.get(sequence)
        if entry is not None and entry.delivery is Delivery.PENDING:
            self._is_sent(entry)

    def unknown(self, sequence: int) -> None:
        """There is no delivery report, and there will be none."""
        entry = self._entries.get(sequence)
        if entry is not None and entry.delivery is Delivery.PENDING:
            entry.delivery = Delivery.UNKNOWN

    def _is_sent(self, entry: _Entry) -> None:
        entry.delivery = Delivery.SENT
        self.sent += 1

    # -- arriving -------------------------------------------------------------------------------

    def arrived(
        self, sequence: int, offset: int, now_ms: float, *, is_intact: bool = True
    ) -> float | None:
        """A record of this run was read at an offset of the copy; its latency in milliseconds if it
        is new and intact."""
        entry = self._entries.get(sequence)
        if offset < self._read_to and (entry is None or entry.has_arrived):
            return None
        self._read_to = max(self._read_to, offset + 1)
        self.last_arrival_ms = now_ms
        if not is_intact:
            self.faults[Fault.ALTERED].note(sequence, now_ms)
        if entry is None:
            return None
        if entry.has_arrived:
            self.faults[Fault.DOUBLED].note(sequence, now_ms)
            return None
        self._judge_order(sequence, entry, now_ms)
        entry.has_arrived = True
        self._missing.pop(sequence, None)
        self.received += 1
        if entry.delivery is not Delivery.SENT:
            self._is_sent(entry)
        self._highest_arrived = max(self._highest_arrived, sequence)
        self._overtake(sequence, now_ms)
        return now_ms - entry.begun_ms if is_intact else None

    def altered(self, offset: int, now_ms: float) -> None:
        """A record was read that does not tell its run or sequence number."""
        if offset >= self._read_to:
            self._read_to = offset + 1
            self.faults[Fault.ALTERED].note(None, now_ms)

    def _judge_order(self, sequence: int, entry: _Entry, now_ms: float) -> None:
        if entry.is_lost:
            self.faults[Fault.LOST].take_back(sequence)
        elif sequence > self._highest_arrived or entry.delivery is Delivery.UNKNOWN:
            return
        self.faults[Fault.OUT_OF_ORDER].note(sequence, now_ms)

    def _overtake(self, sequence: int, now_ms: float) -> None:
        for earlier, entry in self._missing.items():
            if earlier > sequence:
                return
            if entry.delivery is Delivery.SENT and entry.overtaken_ms is None:
                entry.overtaken_ms = now_ms

    # -- as time goes by ------------------------------------------------------------------------

    def tick(self, now_ms: float) -> None:
        """Decide what is lost by now, and forget what is old."""
        lost = [
            (sequence, entry)
            for sequence, entry in self._missing.items()
            if entry.overtaken_ms is not None
            and now_ms - entry.overtaken_ms >= self._settings.lost_ms
        ]
        for sequence, entry in lost:
            entry.is_lost = True
            del self._missing[sequence]
            self.faults[Fault.LOST].note(sequence, now_ms)
        self._forget(now_ms)

    def _forget(self, now_ms: float) -> None:
        oldest_ms = now_ms - self._settings.window_ms
        while self._entries:
            sequence, entry = next(iter(self._entries.items()))
            if (
                entry.begun_ms > oldest_ms
                and len(self._entries) <= self._settings.window_records_max
            ):
                return
            del self._entries[sequence]
            if self._missing.pop(sequence, None) is not None:
                self.expired += entry.delivery is Delivery.SENT

    # -- questions ------------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """Records that are on the source and have not arrived, without those that are lost."""
        return sum(each.delivery is Delivery.SENT for each in self._missing.values())

    @property
    def unknown_count(self) -> int:
        """Records of the window of which nobody knows whether the source has them."""
        return sum(each.delivery is Delivery.UNKNOWN for each in self._missing.values())

    def late(self, now_ms: float) -> int:
        """Records under way that take longer than usual."""
        return sum(
            each.delivery is Delivery.SENT and now_ms - each.begun_ms > self._settings.late_ms
            for each in self._missing.values()
        )
