"""Runs all probes of an aggregator.

The probes do not affect the readiness of the aggregator, and their failures do not end it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from aggregator.probe.link_probe import LinkProbe
from aggregator.probe.reading import ProbeReader
from aggregator.probe.sending import ProbeSender
from aggregator.settings import AggregatorSettings
from local_cluster.client.model import TopicPartition

TICK_SECONDS: Final = 1.0


class Prober:
    """Sends to every source and reads the aggregate; `run` until cancelled."""

    def __init__(
        self,
        settings: AggregatorSettings,
        probes: Mapping[str, LinkProbe],
        *,
        why_unreadable: Callable[[TopicPartition], str | None],
        on_latency: Callable[[str, float], None],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`why_unreadable` and `on_latency` are those of `ProbeReader`."""
        self._probes = probes
        self._monotonic_ms = monotonic_ms
        self._senders = [
            ProbeSender(probe, settings.probe, monotonic_ms) for probe in probes.values()
        ]
        self._reader = ProbeReader(
            settings.bootstrap,
            settings.security,
            probes,
            settings.probe,
            why_unreadable=why_unreadable,
            on_latency=on_latency,
            monotonic_ms=monotonic_ms,
        )

    async def run(self) -> None:
        """Probe until cancelled."""
        # aiokafka logs every attempt to reach a broker that is down; the probes report it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reader.run(), name="probe reader")
            for sender in self._senders:
                tasks.create_task(sender.run(), name="probe sender")
            while True:
                await asyncio.sleep(TICK_SECONDS)
                now_ms = self._monotonic_ms()
                for probe in self._probes.values():
                    probe.ledger.tick(now_ms)
