"""The time in which nothing of ours may arrive in a target partition. Shell.

A write of the old producer epoch may be in flight from a worker that was stopped or cut off. No
request to the target shows it, DescribeProducers included. Only a batch of the new epoch keeps it
out: from then on the leader refuses the old epoch. The first batch of a new epoch, however, is no
conditional append. So the mirror waits until nothing of ours has arrived for `epoch_quiet_ms`.

The period begins as soon as a worker knows that the old log has ended: when it sees that the source
topic is gone, or else when it first wants to open a generation. Nobody can fetch more from a log
that has ended, so both are as good.

Nobody sleeps here. `NotQuietError` says how much time is left, and the flow waits outside: it holds
up no other proof, reports what it waits for, and can be stopped.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final, NamedTuple

from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.ports import Clock

log = logging.getLogger(__name__)

_DISTURBED: Final = frozenset({ErrorCode.concurrent_transactions, ErrorCode.offset_out_of_range})
"""A write of ours has arrived, or the log that would show it is gone."""


class NotQuietError(KafkaError):
    """The target partition must stay quiet for longer before a new epoch may be written there."""

    def __init__(self, message: str, wait_ms: int) -> None:
        super().__init__(ErrorCode.concurrent_transactions, message)
        self.wait_ms = wait_ms
        """How much longer."""


async def check_quiet(target: TargetLog, producer_id: int, start: int, end: int) -> None:
    """Raise KafkaError if a batch of this producer lies in [start, end)."""
    position = start
    while position < end:
        fetched = await target.read(position)
        before = position
        for _, header in iter_headers(fetched.records):
            if header.producer_id == producer_id:
                raise KafkaError(ErrorCode.concurrent_transactions, f"{target.at} is not quiet yet")
            position = max(position, header.next_offset)
        if position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target.at}: nothing at {before}")


class _Watch(NamedTuple):
    """Since when the partition is watched for late writes of ours."""

    offset: int
    """Every write of ours that arrived since then lies at or after it."""
    since_ms: int
    """Monotonic."""


class QuietPeriod:
    """The quiet period of one target partition."""

    def __init__(self, target: TargetLog, clock: Clock, quiet_ms: int) -> None:
        self._target = target
        self._clock = clock
        self._quiet_ms = quiet_ms
        self._watch: _Watch | None = None

    def begin(self, offset: int) -> None:
        """Start the period now: later writes of ours arrive at or after `offset`."""
        self._watch = _Watch(offset, self._clock.monotonic_ms())

    def cancel(self) -> None:
        """Forget the period: the old log continues, or another worker may have written."""
        self._watch = None

    async def end_offset(self, producer_id: int) -> int:
        """Return the target's end after the period.

        Raises NotQuietError if the period has not passed, another KafkaError if a write arrived.
        """
        target, clock = self._target, self._clock
        if self._watch is None:
            end = await target.end()
            # After the answer: what arrived before it lies below the end.
            self.begin(end)
            log.info("%s: a new generation in %d ms", target.at, self._quiet_ms)
        watch = self._watch
        assert watch is not None
        wait_ms = watch.since_ms + self._quiet_ms - clock.monotonic_ms()
        if wait_ms > 0:
            at = datetime.fromtimestamp((clock.now_ms() + wait_ms) / 1000, UTC)
            raise NotQuietError(
                f"a new generation begins at {at:%Y-%m-%dT%H:%M:%SZ}, if no write of the old one "
                f"arrives in {target.at} until then",
                wait_ms,
            )
        end = await target.end()
        try:
            if end < watch.offset:
                raise KafkaError(ErrorCode.offset_out_of_range, f"{target.at} ends at {end} now")
            await check_quiet(target, producer_id, watch.offset, end)
        except KafkaError as error:
            if error.code in _DISTURBED:
                self.cancel()  # the period starts over
            raise
        return end
