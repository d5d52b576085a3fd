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
        *,
        why_unreadable: Callable[[TopicPartition], str | None],
        on_latency: Callable[[str, float], None],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`why_unreadable` and `on_latency` are those of `ProbeReader`."""
        self._settings = settings.probe
        self._probes: Mapping[str, LinkProbe] = {}
        self._monotonic_ms = monotonic_ms
        self._senders: dict[str, tuple[LinkProbe, asyncio.Task[None]]] = {}
        """By link, like the probes."""
        self._reader = ProbeReader(
            settings.bootstrap,
            settings.security,
            settings.probe,
            why_unreadable=why_unreadable,
            on_latency=on_latency,
            monotonic_ms=monotonic_ms,
        )

    def follow(self, probes: Mapping[str, LinkProbe]) -> None:
        """Run these probes, by link, and no others; they begin within `TICK_SECONDS`."""
        self._probes = probes
        self._reader.follow(probes.values())

    async def run(self) -> None:
        """Probe until cancelled."""
        # aiokafka logs every attempt to reach a broker that is down; the probes report it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reader.run(), name="probe reader")
            while True:
                self._choose_senders(tasks)
                await asyncio.sleep(TICK_SECONDS)
                now_ms = self._monotonic_ms()
                for probe in self._probes.values():
                    probe.ledger.tick(now_ms)

    def _choose_senders(self, tasks: asyncio.TaskGroup) -> None:
        """Send for each probe, and for no former one."""
        for link, (probe, sending) in list(self._senders.items()):
            if self._probes.get(link) is not probe:
                sending.cancel()
                del self._senders[link]
        for link, probe in self._probes.items():
            if link not in self._senders:
                sender = ProbeSender(probe, self._settings, self._monotonic_ms)
                sending = tasks.create_task(sender.run(), name="probe sender")
                self._senders[link] = probe, sending
