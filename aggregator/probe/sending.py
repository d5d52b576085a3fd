"""Sends the records of one link's probe to the link's source, one per interval.

Each record waits for the delivery report of the previous one, so the source has them in the order
of their sequence numbers. A producer that failed, or takes too long, is replaced. The outcome of
its last record is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from aiokafka import AIOKafkaProducer
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random

from aggregator.probe.clients import (
    abandon_producer,
    check_leader,
    client_options,
    create_probe_topic,
    in_own_task,
    open_producer,
)
from aggregator.probe.link_probe import LinkProbe
from aggregator.probe.record import encode_probe_record
from aggregator.probe.settings import ProbeSettings
from mirror_maker.formats.probe import PROBE_PARTITION

RETRY_SECONDS: Final = (1.0, 3.0)
"""Shortest and longest pause before a failed source is retried."""

log = logging.getLogger(__name__)


class ProbeSender:
    """The sending side of one link; `run` until cancelled."""

    def __init__(
        self, probe: LinkProbe, settings: ProbeSettings, monotonic_ms: Callable[[], float]
    ) -> None:
        self._probe = probe
        self._settings = settings
        self._monotonic_ms = monotonic_ms

    async def run(self) -> None:
        """Send for ever; a failure becomes the probe's problem and is retried."""
        # No error may end the aggregator.
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            wait=wait_random(*RETRY_SECONDS),
            before_sleep=self._note_failure,
        ):
            with attempt:
                await in_own_task(self._send_until_it_fails())

    def _note_failure(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        problem = str(error) or repr(error)
        if self._probe.send_problem is None:
            log.warning("probe of link %s: sending: %s", self._probe.link.name, problem)
        self._probe.send_problem = problem

    async def _send_until_it_fails(self) -> None:
        link = self._probe.link
        options = client_options(link.source_bootstrap, link.source_security)
        await create_probe_topic(options, self._probe.topic, self._settings)
        producer = await open_producer(options)
        try:
            await producer.partitions_for(self._probe.topic)
            loop = asyncio.get_running_loop()
            due = loop.time()
            while True:
                check_leader(producer, self._probe.topic, PROBE_PARTITION)
                await self._send_one(producer)
                # Intervals that passed during a slow record are skipped.
                due = max(due + self._settings.interval_ms / 1000, loop.time())
                await asyncio.sleep(due - loop.time())
        finally:
            await abandon_producer(producer)

    async def _send_one(self, producer: AIOKafkaProducer) -> None:
        probe = self._probe
        record = probe.next_record(self._monotonic_ms(), time.time_ns() // 1_000_000)
        try:
            async with asyncio.timeout(self._settings.send_ms_max / 1000):
                await producer.send_and_wait(
                    probe.topic,
                    encode_probe_record(record),
                    key=record.link.encode(),
                    partition=PROBE_PARTITION,
                    timestamp_ms=record.sent_at_ms,
                )
        except TimeoutError as error:
            probe.ledger.unknown(record.sequence)
            raise TimeoutError(f"no delivery report for {self._settings.send_ms_max} ms") from error
        except BaseException:
            probe.ledger.unknown(record.sequence)
            raise
        probe.ledger.acknowledged(record.sequence)
        if probe.send_problem is not None:
            log.info("probe of link %s: sending again", probe.link.name)
        probe.send_problem = None
