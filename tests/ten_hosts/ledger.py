"""What the clients were told: acknowledgements, and records that consumers got."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """Where a record lies in its source cluster."""

    partition: int
    offset: int
    """-1 if the acknowledgement did not say it."""


@dataclass
class Ledger:
    """The clients of one datacenter write it, each from a thread of its own."""

    sent: set[str] = field(default_factory=set)
    acknowledged: dict[str, Place] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    """Records whose producer gave up: they may be there or not."""
    consumed: dict[str, Counter[str]] = field(default_factory=dict)
    """Group -> how often it got each record."""
    longest_silence_s: float = 0.0
    """Longest time between two acknowledgements since the last call of `silence`."""
    _last_s: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, identity: str) -> None:
        """A record is given to a producer."""
        with self._lock:
            self.sent.add(identity)

    def acknowledge(self, identity: str, place: Place) -> None:
        """The cluster has acknowledged a record."""
        now_s = time.monotonic()
        with self._lock:
            self.acknowledged[identity] = place
            self.longest_silence_s = max(self.longest_silence_s, now_s - self._last_s)
            self._last_s = now_s

    def give_up(self, identity: str) -> None:
        """The producer does not know what became of a record."""
        with self._lock:
            self.unknown.add(identity)

    def consume(self, group: str, identity: str) -> None:
        """A group got a record."""
        with self._lock:
            self.consumed.setdefault(group, Counter())[identity] += 1

    def told(self) -> frozenset[str]:
        """Return the records that are acknowledged by now."""
        with self._lock:
            return frozenset(self.acknowledged)

    def missing(self, group: str, wanted: frozenset[str]) -> int:
        """Return how many of some records a group has not got."""
        with self._lock:
            return len(wanted - self.consumed.get(group, Counter()).keys())

    def silence(self) -> float:
        """Return the longest silence since the last call, one that still lasts included."""
        now_s = time.monotonic()
        with self._lock:
            found = max(self.longest_silence_s, now_s - self._last_s)
            self.longest_silence_s = 0.0
            return found
