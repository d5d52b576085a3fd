"""The response to a Produce with acks=all: it waits until each partition's batches are committed.

After the client's timeout a partition is REQUEST_TIMED_OUT, or NOT_ENOUGH_REPLICAS_AFTER_APPEND if
too few replicas are in sync. Either way its batches are in the leader's log and may be committed
later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from local_cluster.handlers.deferred import Body, Deferred
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.produce import PartitionProduceResponse


class AwaitedPartition(Protocol):
    """A partition whose high watermark a response waits for."""

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for acks=all."""

    def when_committed(self, next_offset: int, settle: Callable[[ErrorCode], None]) -> None:
        """Call `settle` once the high watermark has reached the offset, or never will."""


Waiting = tuple[int, AwaitedPartition, int]
"""(index of the result, its partition, the high watermark to wait for)."""


class DelayedProduce:
    """Waits for high watermarks, at most as long as the client's timeout."""

    __slots__ = ("_encode", "_pending", "_results", "_timer", "reply")

    def __init__(
        self,
        results: list[PartitionProduceResponse],
        waiting: Sequence[Waiting],
        timeout_ms: int,
        encode: Callable[[list[PartitionProduceResponse]], Body],
    ) -> None:
        self.reply = Deferred()
        self._results = results
        self._encode = encode
        self._pending = {index: partition for index, partition, _ in waiting}
        self._timer: asyncio.TimerHandle | None = None
        for index, partition, next_offset in waiting:
            partition.when_committed(next_offset, partial(self._on_committed, index))
        if not self.reply.is_done:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._on_timeout)

    def _on_committed(self, index: int, error_code: ErrorCode) -> None:
        if self.reply.is_done:
            return
        self._pending.pop(index, None)
        if error_code:
            self._fail(index, error_code)
        if not self._pending:
            self._finish()

    def _on_timeout(self) -> None:
        for index, partition in self._pending.items():
            self._fail(
                index,
                ErrorCode.not_enough_replicas_after_append
                if partition.is_under_min_isr
                else ErrorCode.request_timed_out,
            )
        self._finish()

    def _fail(self, index: int, error_code: ErrorCode) -> None:
        result = self._results[index]
        self._results[index] = PartitionProduceResponse(
            result.topic, result.partition, error_code, topic_id=result.topic_id
        )

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.reply.resolve(self._encode(self._results))
