"""Reads the copies of all probe topics on the aggregate, with one consumer without a group.

A copy is read from its log start. The run id distinguishes the records of earlier runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import aiokafka
from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.errors import KafkaError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random

from aggregator.probe.clients import client_options, close_consumer, in_own_task, open_consumer
from aggregator.probe.link_probe import LinkProbe, take_in
from aggregator.probe.sending import RETRY_SECONDS
from aggregator.probe.settings import ProbeSettings
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.model import TopicPartition
from mirror_maker.formats.probe import PROBE_PARTITION

POLL_MS: Final = 1_000
"""Milliseconds of one wait for records; a new copy is noticed after at most this long."""
CREATE_TIME: Final = 0
"""Timestamp type of a record with its producer's timestamp."""

log = logging.getLogger(__name__)


class NothingArrivesError(Exception):
    """The consumer may be stuck and must be replaced."""


class ProbeReader:
    """The reading side of all links of an aggregate; `run` until cancelled."""

    def __init__(
        self,
        bootstrap: str,
        security: ClientSecurity,
        settings: ProbeSettings,
        *,
        why_unreadable: Callable[[TopicPartition], str | None],
        on_latency: Callable[[str, float], None],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`why_unreadable` returns why a partition of the aggregate cannot be read now, or None.
        `on_latency` is called for each arrival with the link and the latency in milliseconds."""
        self._bootstrap = bootstrap
        self._security = security
        self._settings = settings
        self._why_unreadable = why_unreadable
        self._on_latency = on_latency
        self._monotonic_ms = monotonic_ms
        self._by_copy: dict[TopicPartition, list[LinkProbe]] = {}
        self._positions: dict[TopicPartition, int] = {}
        """The next offset of each copy that was read."""

    def follow(self, probes: Iterable[LinkProbe]) -> None:
        """Read the copies of these probes, and no others, from the next wait for records on."""
        self._by_copy = {}
        for probe in probes:
            copy = TopicPartition(probe.copy, PROBE_PARTITION)
            self._by_copy.setdefault(copy, []).append(probe)

    async def run(self) -> None:
        """Read for ever; a failure becomes the probes' problem and is retried."""
        # No error may end the aggregator.
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            wait=wait_random(*RETRY_SECONDS),
            before_sleep=self._note_failure,
        ):
            with attempt:
                await in_own_task(self._read_until_it_fails())

    def _note_failure(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        self._note(str(error) or repr(error))

    def _note(self, problem: str) -> None:
        for probes in self._by_copy.values():
            for probe in probes:
                if probe.read_problem is None:
                    log.warning("probe of link %s: reading: %s", probe.link.name, problem)
                probe.read_problem = problem

    async def _read_until_it_fails(self) -> None:
        consumer = await open_consumer(client_options(self._bootstrap, self._security))
        opened_ms = self._monotonic_ms()
        try:
            while True:
                self._assign(consumer)
                if not consumer.assignment():
                    await asyncio.sleep(POLL_MS / 1000)
                    continue
                try:
                    found = await consumer.getmany(timeout_ms=POLL_MS)
                except KafkaError as error:
                    # The error is of one partition; the next call returns the others.
                    self._note(str(error) or repr(error))
                    await asyncio.sleep(POLL_MS / 1000)
                    continue
                for at, records in found.items():
                    self._take(TopicPartition(*at), records)
                self._check_that_something_arrives(opened_ms)
        finally:
            await close_consumer(consumer)

    def _assign(self, consumer: AIOKafkaConsumer) -> None:
        """Read every copy that can be read now.

        While an assigned partition has no leader or does not exist, aiokafka requests metadata in
        a loop without a pause. So such a partition is not assigned.
        """
        wanted = set()
        for copy, probes in self._by_copy.items():
            problem = self._why_unreadable(copy)
            if problem is None:
                wanted.add(aiokafka.TopicPartition(*copy))
                continue
            for probe in probes:
                probe.read_problem = problem
        if wanted == consumer.assignment():
            return
        consumer.assign(list(wanted))
        for at in wanted:
            if at in self._positions:
                consumer.seek(at, self._positions[at])

    def _take(self, at: TopicPartition, records: list[ConsumerRecord]) -> None:
        now_ms = self._monotonic_ms()
        probes = self._by_copy.get(at, [])
        for record in records:
            latencies = take_in(
                probes,
                record.offset,
                now_ms,
                key=record.key,
                value=record.value,
                headers=record.headers,
                create_time_ms=record.timestamp if record.timestamp_type == CREATE_TIME else None,
            )
            for link, latency_ms in latencies.items():
                self._on_latency(link, latency_ms)
            self._positions[at] = record.offset + 1
        for probe in probes:
            probe.read_problem = None

    def _check_that_something_arrives(self, opened_ms: float) -> None:
        """Raise NothingArrivesError if records are under way and none arrives, on any link."""
        probes = [probe for probes in self._by_copy.values() for probe in probes]
        arrivals = (probe.ledger.last_arrival_ms or opened_ms for probe in probes)
        last_ms = max(arrivals, default=opened_ms)
        quiet_ms = self._monotonic_ms() - max(last_ms, opened_ms)
        if quiet_ms > self._settings.reopen_ms and any(each.ledger.under_way for each in probes):
            raise NothingArrivesError(f"nothing has arrived for {quiet_ms / 1000:.0f} s")
