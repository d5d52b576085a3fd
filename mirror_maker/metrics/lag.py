"""How far a flow is behind: records, bytes, seconds. Pure; unknown is None, never 0.

Seconds are not taken from record timestamps, which producers choose (a backfill of old data would
look years late). The high watermark is sampled as it moves; a flow that stands at `position` is as
late as the first sample whose high watermark lies beyond it. A backlog older than the first sample
has an unknown age until it is worked off.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

SAMPLES_MAX: Final = 512
SAMPLE_INTERVAL_MS_MIN: Final = 100
STALE_MS: Final = 10_000
"""After this long without an answer from the source, its end is unknown."""


class Lag(NamedTuple):
    """How far behind; None where it is not known."""

    records: int | None
    bytes: int | None
    seconds: float | None


UNKNOWN_LAG: Final = Lag(None, None, None)


class LastAnswer:
    """When somebody last answered who tells of partitions only when they move."""

    def __init__(self) -> None:
        self.at_ms: int | None = None
        """Monotonic; None before the first answer."""


class HighWatermarkHistory:
    """When the source's end was where, for as long as matters."""

    def __init__(self) -> None:
        self._times_ms: list[int] = []
        self._offsets: list[int] = []
        self._seen_ms: int | None = None
        self._teller: LastAnswer | None = None
        self.high_watermark: int | None = None

    def follow(self, teller: LastAnswer) -> None:
        """From its last answer on, each says that the end is still where it was observed last,
        unless another is observed."""
        self._teller = teller

    def unfollow(self, teller: LastAnswer) -> None:
        """Its further answers say nothing of this partition."""
        if self._teller is teller:
            self._seen_ms = self._last_seen_ms()
            self._teller = None

    def observe(self, high_watermark: int, now_ms: int) -> None:
        """The source's end, as an answer of `now_ms` (monotonic) gave it."""
        self._seen_ms = now_ms
        if self.high_watermark is not None and high_watermark < self.high_watermark:
            # Truncated or re-created: what was sampled says nothing about the log as it is now.
            self._times_ms.clear()
            self._offsets.clear()
        self.high_watermark = high_watermark
        if self._offsets and (
            self._offsets[-1] == high_watermark
            or now_ms - self._times_ms[-1] < SAMPLE_INTERVAL_MS_MIN
        ):
            # Within the interval the earlier time stays with the larger offset: the age given
            # is then at most an interval too old, never too young.
            self._offsets[-1] = high_watermark
            return
        self._times_ms.append(now_ms)
        self._offsets.append(high_watermark)
        if len(self._offsets) > SAMPLES_MAX:
            # Thin the older half by merging pairs, but for the sample that a flow which does not
            # move is measured by. As above, the earlier time stays with the larger offset.
            half = SAMPLES_MAX // 2
            self._times_ms[2:half] = self._times_ms[2:half:2]
            self._offsets[2:half] = self._offsets[3:half:2]

    def lag(self, position: int, pending_bytes: int, fetch_position: int, now_ms: int) -> Lag:
        """Lag of a flow whose next offset to have on the target is `position`.

        Positions of one flow ascend: what lies before this one is forgotten.
        """
        end = self.high_watermark
        seen_ms = self._last_seen_ms()
        if end is None or seen_ms is None or now_ms - seen_ms > STALE_MS:
            return UNKNOWN_LAG
        records = max(0, end - position)
        bytes_behind = pending_bytes if fetch_position >= end else None
        return Lag(records, 0 if records == 0 else bytes_behind, self._seconds(position, now_ms))

    def _last_seen_ms(self) -> int | None:
        told_ms = self._teller.at_ms if self._teller is not None else None
        if told_ms is None or self._seen_ms is None:
            return self._seen_ms
        return max(self._seen_ms, told_ms)

    def _seconds(self, position: int, now_ms: int) -> float | None:
        index = bisect_right(self._offsets, position)
        if index > 1:
            # What was passed is not asked for again; one sample before the position shows that
            # the next one is the first beyond it.
            del self._times_ms[: index - 1], self._offsets[: index - 1]
            index = 1
        if index == len(self._offsets):
            return 0.0
        if index == 0:
            return None
        return (now_ms - self._times_ms[index]) / 1000
