"""The lag of a flow in records, bytes and seconds. Pure; unknown is None, never 0.

Seconds do not come from record timestamps: producers choose those, and a backfill of old data would
look years late. Instead the high watermark is sampled as it moves. A flow at `position` is as late
as the first sample whose high watermark lies beyond it. A backlog older than the first sample has
an unknown age until it is copied.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

SAMPLES_MAX: Final = 512
SAMPLE_INTERVAL_MS_MIN: Final = 100
STALE_MS: Final = 10_000
"""The source's end is unknown after this time without a response."""


class Lag(NamedTuple):
    """How far a flow is behind; None is unknown."""

    records: int | None
    bytes: int | None
    seconds: float | None


UNKNOWN_LAG: Final = Lag(None, None, None)


class LastAnswer:
    """The time of the last response in a fetch session, which names only partitions that moved."""

    def __init__(self, node_id: int = -1) -> None:
        self.node_id = node_id
        self.at_ms: int | None = None
        """Monotonic; None before the first response."""
        self.asked_ms: int | None = None
        """Wall clock when the request of that response was written."""


class HighWatermarkHistory:
    """Samples of the source's high watermark, kept as long as they matter."""

    def __init__(self) -> None:
        self._times_ms: list[int] = []
        self._offsets: list[int] = []
        self._seen_ms: int | None = None
        self._session: LastAnswer | None = None
        self.high_watermark: int | None = None

    def follow(self, session: LastAnswer) -> None:
        """Follow a session: each of its responses confirms the last observed end, unless it brings
        a new one.
        """
        self._session = session

    def unfollow(self, session: LastAnswer) -> None:
        """Stop following: later responses of the session do not concern this partition."""
        if self._session is session:
            self._seen_ms = self._last_seen_ms()
            self._session = None

    def observe(self, high_watermark: int, now_ms: int) -> None:
        """Note the source's end, as a response at `now_ms` (monotonic) gave it."""
        self._seen_ms = now_ms
        if self.high_watermark is not None and high_watermark < self.high_watermark:
            # Truncated or re-created: older samples do not apply to the present log.
            self._times_ms.clear()
            self._offsets.clear()
        self.high_watermark = high_watermark
        if self._offsets and (
            self._offsets[-1] == high_watermark
            or now_ms - self._times_ms[-1] < SAMPLE_INTERVAL_MS_MIN
        ):
            # Keep the earlier time with the larger offset: the age is then too old by one interval
            # at most, and never too young.
            self._offsets[-1] = high_watermark
            return
        self._times_ms.append(now_ms)
        self._offsets.append(high_watermark)
        if len(self._offsets) > SAMPLES_MAX:
            # Thin the older half by merging pairs, except for the sample that an idle flow is
            # measured by. As above, the earlier time stays with the larger offset.
            half = SAMPLES_MAX // 2
            self._times_ms[2:half] = self._times_ms[2:half:2]
            self._offsets[2:half] = self._offsets[3:half:2]

    def lag(self, position: int, pending_bytes: int, fetch_position: int, now_ms: int) -> Lag:
        """Return the lag of a flow whose next offset to have on the target is `position`.

        Positions of one flow ascend: samples before this one are dropped.
        """
        end = self.high_watermark
        seen_ms = self._last_seen_ms()
        if end is None or seen_ms is None or now_ms - seen_ms > STALE_MS:
            return UNKNOWN_LAG
        records = max(0, end - position)
        bytes_behind = pending_bytes if fetch_position >= end else None
        return Lag(records, 0 if records == 0 else bytes_behind, self._seconds(position, now_ms))

    def _last_seen_ms(self) -> int | None:
        answered_ms = self._session.at_ms if self._session is not None else None
        if answered_ms is None or self._seen_ms is None:
            return self._seen_ms
        return max(self._seen_ms, answered_ms)

    def _seconds(self, position: int, now_ms: int) -> float | None:
        index = bisect_right(self._offsets, position)
        if index > 1:
            # Passed samples are never needed again. One sample before the position proves that the
            # next one is the first beyond it.
            del self._times_ms[: index - 1], self._offsets[: index - 1]
            index = 1
        if index == len(self._offsets):
            return 0.0
        if index == 0:
            return None
        return (now_ms - self._times_ms[index]) / 1000
