"""The records that one run of the prober sent over a link, and those that arrived. Pure.

Times are monotonic milliseconds.

    begin --> PENDING --acknowledged--> SENT      it is on the source: it must arrive once
                 +------unknown-------> UNKNOWN   it may arrive or not, at any place in the order

Each record is sent after the delivery report of the previous one. So an acknowledged record is on
the source before every later record, and the link keeps that order. When a later record arrives,
the earlier one is *overtaken*. It is *lost* if it does not arrive within `lost_ms` after that. A
record that was not overtaken is only late, however long it takes: the link is stopped, or is far
behind. A lost record that arrives later is out of order and no longer lost.

A record is remembered for `window_ms`; a later arrival is not judged. The reader starts over at the
log start, so a record at an offset that was read before is not judged again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final

from aggregator.probe.settings import ProbeSettings

SEQUENCES_LISTED_MAX: Final = 20
"""Number of latest faults of a kind whose sequence numbers are kept."""


class Fault(StrEnum):
    """Faults of a link."""

    LOST = "lost"
    DOUBLED = "doubled"
    OUT_OF_ORDER = "out_of_order"
    ALTERED = "altered"


class Delivery(Enum):
    """The state of a send."""

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
        """Add a fault; the sequence number is None if the record does not have it."""
        self.count += 1
        self.last_ms = now_ms
        if sequence is not None:
            self.sequences.append(sequence)

    def take_back(self, sequence: int) -> None:
        """Remove a fault that was none."""
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
    """The records of one link."""

    def __init__(self, settings: ProbeSettings, started_ms: float) -> None:
        self.started_ms = started_ms
        self.sent = 0
        """Records that are certainly on the source."""
        self.received = 0
        """Records that arrived, each counted once."""
        self.expired = 0
        """Sent records that did not arrive within the window; the source may have deleted them."""
        self.last_arrival_ms: float | None = None
        self.faults = {fault: Faults() for fault in Fault}
        self._settings = settings
        self._next = 0
        self._highest_arrived = -1
        self._read_to = 0
        """The copy's offset after the last judged record."""
        self._entries: dict[int, _Entry] = {}
        """The records of the window by sequence number, ascending."""
        self._missing: dict[int, _Entry] = {}
        """The records of the window that have not arrived and are not lost."""

    # -- sending --------------------------------------------------------------------------------

    def begin(self, now_ms: float) -> int:
        """Start a record; return its sequence number."""
        sequence, self._next = self._next, self._next + 1
        self._entries[sequence] = self._missing[sequence] = _Entry(now_ms)
        self._forget(now_ms)
        return sequence

    def acknowledged(self, sequence: int) -> None:
        """Record that the source has committed the record."""
        entry = self._entries.get(sequence)
        if entry is not None and entry.delivery is Delivery.PENDING:
            self._is_sent(entry)

    def unknown(self, sequence: int) -> None:
        """Record that there will be no delivery report."""
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
        """Record that a record of this run was read at an offset of the copy.

        Returns its latency in milliseconds if it is new and intact.
        """
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
        """Record that a record without a readable run or sequence number was read."""
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

    # -- time -----------------------------------------------------------------------------------

    def tick(self, now_ms: float) -> None:
        """Decide which records are lost, and forget old records."""
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

    # -- counts ---------------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """Records on the source that have not arrived and are not lost."""
        return sum(each.delivery is Delivery.SENT for each in self._missing.values())

    @property
    def unknown_count(self) -> int:
        """Records of the window of which it is unknown whether the source has them."""
        return sum(each.delivery is Delivery.UNKNOWN for each in self._missing.values())

    def late(self, now_ms: float) -> int:
        """Return the number of records that have been under way for more than `late_ms`."""
        return sum(
            each.delivery is Delivery.SENT and now_ms - each.begun_ms > self._settings.late_ms
            for each in self._missing.values()
        )
