"""The answer to a Produce with acks=all: it leaves when every partition's batches are committed.

Where time is up it says that, or that too few replicas are in sync for it ever to be committed as
things are; either way the batches are in the leader's log and may be committed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from local_cluster.handlers.deferred import Deferred
from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.produce import PartitionProduced

Waiting = tuple[int, Partition, int]
"""(index of the result, its partition, the offset up to which it must be committed)."""


class DelayedProduce:
    """Waits for high watermarks, at most as long as the client said."""

    __slots__ = ("_encode", "_left", "_results", "_timer", "reply")

    def __init__(
        self,
        results: list[PartitionProduced],
        waiting: Sequence[Waiting],
        timeout_ms: int,
        encode: Callable[[list[PartitionProduced]], bytes],
    ) -> None:
        self.reply = Deferred()
        self._results = results
        self._encode = encode
        self._left = {index: partition for index, partition, _ in waiting}
        self._timer: asyncio.TimerHandle | None = None
        for index, partition, next_offset in waiting:
            partition.when_committed(next_offset, partial(self._settled, index))
        if not self.reply.is_done:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._expired)

    def _settled(self, index: int, error_code: ErrorCode) -> None:
        if self.reply.is_done:
            return
        self._left.pop(index, None)
        if error_code:
            self._fail(index, error_code)
        if not self._left:
            self._finish()

    def _expired(self) -> None:
        for index, partition in self._left.items():
            self._fail(
                index,
                ErrorCode.not_enough_replicas_after_append
                if partition.is_under_min_isr
                else ErrorCode.request_timed_out,
            )
        self._finish()

    def _fail(self, index: int, error_code: ErrorCode) -> None:
        result = self._results[index]
        self._results[index] = PartitionProduced(
            result.topic, result.partition, error_code, topic_id=result.topic_id
        )

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.reply.resolve(self._encode(self._results))
