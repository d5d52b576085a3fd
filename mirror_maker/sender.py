"""Writes batches to one target broker: many partitions per request, several requests in flight.

One batch per partition and request, as Kafka demands; a partition has at most five batches
unacknowledged, which its replicator sees to. Requests leave in the order of their making, on one
connection, so that a partition's batches arrive in sequence.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from local_cluster.client.model import ProducedPartition
from local_cluster.wire.errors import ErrorCode, KafkaError

from .copying import Copying
from .ports import DataSink
from .replicator import Outgoing
from .settings import Limits


class _Sent(NamedTuple):
    copying: Copying
    outgoing: Outgoing


class Sender:
    """What is copied into the partitions that one target broker leads, in turn."""

    def __init__(self, sink: DataSink, node_id: int, limits: Limits) -> None:
        """`sink` carries nothing but produced data."""
        self._sink = sink
        self._node_id = node_id
        self._limits = limits
        self._ready: dict[Copying, None] = {}
        self._wake = asyncio.Event()
        self._requests_in_flight = 0

    def offer(self, copying: Copying) -> None:
        """It may have a batch to take."""
        self._ready[copying] = None
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled; what is in flight then is lost sight of."""
        async with asyncio.TaskGroup() as deliveries:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._requests_in_flight < self._limits.produce_requests_in_flight_max:
                    sent = self._take()
                    if not sent:
                        break
                    self._requests_in_flight += 1
                    deliveries.create_task(self._deliver(sent))
                    # The task writes its request in its first step; let it, before the next.
                    await asyncio.sleep(0)

    def _take(self) -> list[_Sent]:
        sent: list[_Sent] = []
        size_bytes = 0
        for copying in list(self._ready):
            if size_bytes >= self._limits.produce_request_bytes_max:
                break
            del self._ready[copying]
            if copying.target_leader != self._node_id:
                continue  # discovery offers it to the right sender
            outgoing = copying.take()
            if outgoing is None:
                continue
            sent.append(_Sent(copying, outgoing))
            size_bytes += outgoing.size_bytes
            if copying.replicator.can_take:
                self._ready[copying] = None  # behind the others
        return sent

    async def _deliver(self, sent: list[_Sent]) -> None:
        try:
            answers = await self._sink.produce(
                self._node_id,
                {entry.copying.target: entry.outgoing.data for entry in sent},
                timeout_ms=self._limits.produce_timeout_ms,
            )
        except KafkaError as error:
            for entry in sent:
                entry.copying.on_refused(entry.outgoing, error)
            return
        finally:
            self._requests_in_flight -= 1
            self._wake.set()
        probation: list[tuple[_Sent, ProducedPartition]] = []
        for entry in sent:
            answer = answers.get(entry.copying.target)
            if answer is None or answer.error:
                code = ErrorCode.unknown_server_error if answer is None else answer.error
                message = "no answer" if answer is None else answer.error_message or ""
                refusal = KafkaError(code, message)
                entry.copying.on_refused(entry.outgoing, refusal)
            elif entry.copying.replicator.is_on_probation and answer.base_offset >= 0:
                probation.append((entry, answer))
            else:
                # Without an await in between: answers of later requests must not overtake.
                entry.copying.on_acknowledged(entry.outgoing, answer)
        if probation:
            await asyncio.gather(
                *(entry.copying.read_back(entry.outgoing, answer) for entry, answer in probation)
            )


class Senders:
    """One `Sender` per target broker, made when first needed; `run` until cancelled."""

    def __init__(self, sink: DataSink, limits: Limits) -> None:
        self._sink = sink
        self._limits = limits
        self._senders: dict[int, Sender] = {}
        self._running: asyncio.TaskGroup | None = None
        self._stopped = asyncio.Event()

    def offer(self, copying: Copying) -> None:
        """Hand it to the sender of its target broker; without one, it does not keep its batches,
        which would take the room of others for as long as that lasts."""
        if self._running is None:
            return
        node_id = copying.target_leader
        if node_id is None:
            copying.disturb(KafkaError(ErrorCode.leader_not_available, str(copying.target)))
            return
        if node_id not in self._senders:
            self._senders[node_id] = Sender(self._sink, node_id, self._limits)
            self._running.create_task(self._senders[node_id].run())
        self._senders[node_id].offer(copying)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as running:
            self._running = running
            await self._stopped.wait()  # never: kept open for senders to come
