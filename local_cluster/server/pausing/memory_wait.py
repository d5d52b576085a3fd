"""What one connection holds of the memory for requests, or waits for (wire/request_memory.py).

A request is counted until its handler has returned, as in Kafka: what waits for replication or for
a group holds no memory of its request. A produce request that waits for its transaction's
coordinator holds a copy, and is counted until it is answered.

A peer that sends slowly must not keep others out. While somebody waits, a connection is too slow
if it would hold its memory for longer than HOLD_MS_MAX at this speed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from local_cluster.wire.frame import FrameReceiver

HOLD_MS_MAX: Final = 30_000
"""Time to send a request while others wait: Kafka's default of request.timeout.ms, after which its
client has given up."""
GRACE_MS: Final = 2_000
"""A connection is not judged before."""


class MemoryWait:
    """One connection's share. Call everything on the loop."""

    __slots__ = ("_address", "_connection", "_on_granted", "_receiver", "_since_ns", "is_on")

    def __init__(
        self, receiver: FrameReceiver, connection: int, on_granted: Callable[[], None]
    ) -> None:
        """Call `on_granted` in a later turn when the connection may be read again."""
        self.is_on = False
        self._receiver = receiver
        self._connection = connection
        self._on_granted = on_granted
        self._address = ""
        self._since_ns = 0
        """Since when the connection holds memory, by `time.perf_counter_ns`; 0 if it holds none."""

    def begin(self, address: str) -> None:
        """Learn the address of the client, which shares its turns with other connections of it."""
        self._address = address

    @property
    def forbids_reading(self) -> bool:
        """Whether a frame has to get its memory before anything is received."""
        return self._receiver.wanted > 0

    def count(self, requests: Collection[memoryview], now_ns: int, is_paused: bool) -> bool:
        """Count what is held after a read. Return whether the connection has to wait.

        `requests` are complete and wait for another limit. `is_paused`: the connection is not read
        because of one, so a frame that has just begun holds no memory, and wants none yet.
        """
        receiver = self._receiver
        memory = receiver.memory
        if memory is None:
            return False
        if is_paused:
            receiver.suspend()
        receiver.settle(sum([len(each) for each in requests]))
        if not receiver.charged:
            self._since_ns = 0
        elif not self._since_ns:
            self._since_ns = now_ns
        if receiver.wanted and not self.is_on and not is_paused:
            self.is_on = True
            memory.wait(self._address, self._connection, receiver.wanted, self._granted)
        return self.is_on

    def keep(self, size: int, task: asyncio.Future[Any]) -> None:
        """Count the copy of a request until its task is done."""
        memory = self._receiver.memory
        if memory is None:
            return
        memory.take_anyway(size)
        kept_in = memory
        task.add_done_callback(lambda _: kept_in.give(size))

    def is_too_slow(self, now_ns: int) -> bool:
        """Return whether the peer holds memory for too long at the speed at which it sends."""
        if not self._since_ns:
            return False
        held_ms = (now_ns - self._since_ns) // 1_000_000
        return held_ms > max(GRACE_MS, self._receiver.share_received * HOLD_MS_MAX)

    def end(self) -> None:
        """Hold and want nothing: the connection is closed."""
        memory = self._receiver.memory
        if memory is not None:
            memory.leave(self._address, self._connection)
        self._receiver.drop()
        self.is_on = False
        self._since_ns = 0

    def _granted(self) -> None:
        self.is_on = False
        self._receiver.begin_waiting()
        self._since_ns = time.perf_counter_ns()
        # The loop of another connection has released the memory.
        asyncio.get_running_loop().call_soon(self._on_granted)
