"""The place of one request in a connection's queue of responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from local_cluster.counters.requests import ApiMeter
from local_cluster.server.outbox import Part


class Slot:
    """Made when a request is dispatched, ready when its response is."""

    __slots__ = (
        "began_ns",
        "may_leave",
        "memory_bytes",
        "meter",
        "parts",
        "queue_ns",
        "ready",
        "returned_ns",
    )

    def __init__(self) -> None:
        self.may_leave: Callable[[], bool] | None = None
        self.meter: ApiMeter | None = None
        self.queue_ns = 0
        self.began_ns = 0
        """When its handler was called, by `time.perf_counter_ns`."""
        self.returned_ns = 0
        """When its handler had returned without a response; 0 if there was one."""
        self.memory_bytes = 0
        self.ready = False
        self.parts: Sequence[Part] = ()

    def count(self) -> int:
        """Count a request whose response is ready, or failed. Return now, by perf_counter_ns.

        Later calls change nothing and return 0.
        """
        meter, self.meter = self.meter, None
        if meter is None:
            return 0
        now_ns = time.perf_counter_ns()
        if self.returned_ns:
            meter.waiting -= 1
            local_ns = self.returned_ns - self.began_ns
            meter.answered_late(self.queue_ns, local_ns, now_ns - self.returned_ns)
        elif self.queue_ns:
            meter.answered_late(self.queue_ns, now_ns - self.began_ns, 0)
        else:
            meter.answered(now_ns - self.began_ns)
        return now_ns

    def give_up(self) -> None:
        """Wait no more: the connection is closed, and the task of the request is cancelled."""
        if self.returned_ns and self.meter is not None:
            self.meter.waiting -= 1
            self.meter = None
