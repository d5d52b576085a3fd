"""The event loop of a broker: how late its callbacks run, and how much of its thread is idle.

A timer is set every `TICK_MS`. Its delay is what each request that arrives at that moment waits
before anything is done for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from local_cluster.counters.latency import BUCKETS, bucket_of, quantiles_ms
from local_cluster.prometheus_text import Family, Sample, gauge

TICK_MS: Final = 100
WINDOW_TICKS: Final = 600
"""Ticks that quantiles and idle times cover: one minute."""
QUANTILES: Final = {"0.5": 0.5, "0.99": 0.99, "1": 1.0}


class LoopMonitor:
    """The delays of one event loop. Call `start` and `stop` on it."""

    def __init__(self) -> None:
        self._delays_ns: deque[int] = deque(maxlen=WINDOW_TICKS)
        self._times: deque[tuple[float, float]] = deque(maxlen=WINDOW_TICKS)
        """Pairs of wall and thread CPU time in seconds, one per tick."""
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def start(self) -> None:
        self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def families(self) -> Iterator[Family]:
        """Yield the delay by quantile, and the idle share by Kafka's two names for it."""
        counts = [0] * BUCKETS
        for delay_ns in self._delays_ns:
            counts[bucket_of(delay_ns)] += 1
        values = quantiles_ms(counts, tuple(QUANTILES.values()))
        yield gauge(
            "heliograph_event_loop_delay_seconds",
            "How late callbacks ran in the last minute, by quantile.",
            *(
                Sample(value / 1000, {"quantile": quantile})
                for quantile, value in zip(QUANTILES, values, strict=True)
            ),
        )
        idle = self._idle_share()
        if idle is not None:
            for name in (
                "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
                "kafka_network_socketserver_networkprocessoravgidle_percent",
            ):
                yield gauge(
                    name, "Share of the last minute in which the event loop was idle.", Sample(idle)
                )

    def _idle_share(self) -> float | None:
        """Return 1 less the loop's CPU time by wall time; None before the second tick."""
        if len(self._times) < 2:
            return None
        (first_s, first_cpu_s), (last_s, last_cpu_s) = self._times[0], self._times[-1]
        return min(max(1 - (last_cpu_s - first_cpu_s) / (last_s - first_s), 0.0), 1.0)

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + TICK_MS / 1000
        self._timer = loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._delays_ns.append(int((now_s - self._due_s) * 1e9))
        self._times.append((now_s, time.thread_time()))
        self._set_timer()
