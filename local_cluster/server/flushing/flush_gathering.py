"""Decides whether a round of syncs begins now, or waits for more requests. Pure.

Clients that wait for their acknowledgements send again after a round, one shortly after the other.
A round that begins with the first of them leaves the others to a second one, which costs the disk
and the processor twice. So a round waits until as many requests are there as were in flight when
the last round ended. It waits no longer than that round took, and at most GATHER_SECONDS_MAX.

A client that sends one request at a time never waits. Where waiting brings nothing, the next rounds
begin at once: one, then two, then four, at most SKIPPED_ROUNDS_MAX. PostgreSQL's `commit_delay` has
the same purpose with a fixed delay.
"""

from __future__ import annotations

from typing import Final

GATHER_SECONDS_MAX: Final = 0.0003
"""The longest wait for more requests. The loop turns meanwhile, so it must be short."""
SKIPPED_ROUNDS_MAX: Final = 64
"""Rounds that begin at once after waits in vain."""


class FlushGathering:
    """The requests of one log directory that wait for a round of syncs."""

    def __init__(self) -> None:
        self._waiting = 0
        self._expected = 0
        self._round_requests = 0
        self._began_seconds = 0.0
        self._no_wait_after_seconds = 0.0
        self._rounds_to_skip = 0
        self._skips_after_miss = 1

    def requested(self) -> None:
        """Count a request that the next round serves."""
        self._waiting += 1

    def begins(self, now_seconds: float) -> bool:
        """Return whether the round begins now; otherwise ask again after a turn of the loop."""
        if self._waiting >= self._expected:
            self._skips_after_miss = 1
            self._rounds_to_skip = 0
        elif not self._rounds_to_skip:
            if now_seconds < self._no_wait_after_seconds:
                return False
            self._rounds_to_skip = self._skips_after_miss
            self._skips_after_miss = min(2 * self._skips_after_miss, SKIPPED_ROUNDS_MAX)
        else:
            self._rounds_to_skip -= 1
        self._round_requests = self._waiting
        self._waiting = 0
        self._began_seconds = now_seconds
        return True

    def ended(self, now_seconds: float) -> None:
        """Note that the round ended: its requests are answered now."""
        self._expected = self._round_requests + self._waiting
        took_seconds = now_seconds - self._began_seconds
        self._no_wait_after_seconds = now_seconds + min(took_seconds, GATHER_SECONDS_MAX)
