"""The delay and the idle share of an event loop."""

from __future__ import annotations

import asyncio
import time

from local_cluster.monitoring import loop_monitor
from local_cluster.monitoring.loop_monitor import TICK_MS, LoopMonitor
from local_cluster.prometheus_text import render_family
from tests.support.scraping import Scrape, parse

IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"


def scraped(monitor: LoopMonitor) -> Scrape:
    return parse("".join(map(render_family, monitor.families())))


async def test_a_blocked_loop_shows_as_delay() -> None:
    monitor = LoopMonitor()
    assert IDLE not in scraped(monitor).samples
    monitor.start()
    await asyncio.sleep(1.5 * TICK_MS / 1000)
    blocked_s = 3 * TICK_MS / 1000
    until_s = time.perf_counter() + blocked_s
    while time.perf_counter() < until_s:
        pass
    await asyncio.sleep(2.5 * TICK_MS / 1000)
    monitor.stop()
    found = scraped(monitor)
    # It was blocked from half a tick before the timer was due.
    assert found.one("heliograph_event_loop_delay_seconds", quantile="1") >= blocked_s / 2
    assert 0 <= found.one(IDLE) < 1
    assert loop_monitor.WINDOW_TICKS > 1
