"""Writes batches to one target broker: many partitions per request, several requests in flight.

A request takes one batch per partition, as Kafka demands. If copies are merged, flows of several
links write to one partition. They wait in a queue per target partition, and every request takes
from the head of each queue. So no two of them meet in a request, and all progress.

A replicator keeps at most five batches of its flow unacknowledged. Requests leave in the order in
which they were made, on one connection, so a flow's batches arrive in sequence.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from local_cluster.client.model import ProducedPartition, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.copy.replicator import Outgoing
from mirror_maker.ports import DataSink
from mirror_maker.settings import Limits


class SendingFlow(Protocol):
    """A flow as its sender sees it; `CopySession` is one."""

    @property
    def target(self) -> TopicPartition: ...

    @property
    def target_leader(self) -> int | None: ...

    @property
    def can_take(self) -> bool:
        """Whether `take` has another batch now."""
        ...

    @property
    def is_on_probation(self) -> bool:
        """Whether an acknowledged batch is to be read back."""
        ...

    def take(self) -> Outgoing | None:
        """Return the next batch to write, or None."""
        ...

    def disturb(self, error: Exception) -> None: ...

    def on_refused(self, outgoing: Outgoing, error: KafkaError) -> None: ...

    def on_acknowledged(self, outgoing: Outgoing, answer: ProducedPartition) -> None: ...

    async def read_back(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        """Compare the target's batch with this one, then take the answer."""
        ...


class _Sent(NamedTuple):
    flow: SendingFlow
    outgoing: Outgoing


class Sender:
    """Writes to the partitions that one target broker leads."""

    def __init__(self, sink: DataSink, node_id: int, limits: Limits) -> None:
        """`sink` carries nothing but produced data."""
        self._sink = sink
        self._node_id = node_id
        self._limits = limits
        self._queues: dict[TopicPartition, dict[SendingFlow, None]] = {}
        """Per target partition, the flows that may have a batch for it; both in turn."""
        self._wake = asyncio.Event()
        self._requests_in_flight = 0

    def offer(self, flow: SendingFlow) -> None:
        """Queue a flow that may have a batch. One that waits already keeps its place."""
        self._queues.setdefault(flow.target, {})[flow] = None
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled. Responses that are in flight then are ignored."""
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
        """Return the batches of the next request: at most one per target partition."""
        sent: list[_Sent] = []
        size_bytes = 0
        for target in list(self._queues):
            if size_bytes >= self._limits.produce_request_bytes_max:
                break
            queue = self._queues.pop(target)
            taken = self._take_from(queue)
            if queue:
                self._queues[target] = queue  # after the other partitions
            if taken is not None:
                sent.append(taken)
                size_bytes += taken.outgoing.size_bytes
        return sent

    def _take_from(self, queue: dict[SendingFlow, None]) -> _Sent | None:
        """Return a batch of the first flow in the queue that has one."""
        while queue:
            flow = next(iter(queue))
            del queue[flow]
            if flow.target_leader != self._node_id:
                continue  # discovery offers it to the right sender
            outgoing = flow.take()
            if outgoing is None:
                continue
            if flow.can_take:
                queue[flow] = None  # after the others
            return _Sent(flow, outgoing)
        return None

    async def _deliver(self, sent: list[_Sent]) -> None:
        batches = ProduceBatches(*((each.flow.target, each.outgoing.data) for each in sent))
        try:
            answers = await self._sink.produce(
                self._node_id, batches, timeout_ms=self._limits.produce_timeout_ms
            )
        except KafkaError as error:
            for entry in sent:
                entry.flow.on_refused(entry.outgoing, error)
            return
        finally:
            self._requests_in_flight -= 1
            self._wake.set()
        probation: list[tuple[_Sent, ProducedPartition]] = []
        for entry in sent:
            answer = answers[entry.flow.target]
            if answer.error:
                refusal = KafkaError(answer.error, answer.error_message or "")
                entry.flow.on_refused(entry.outgoing, refusal)
            elif entry.flow.is_on_probation and answer.base_offset >= 0:
                probation.append((entry, answer))
            else:
                # Without an await in between: later responses must not overtake.
                entry.flow.on_acknowledged(entry.outgoing, answer)
        if probation:
            await asyncio.gather(
                *(entry.flow.read_back(entry.outgoing, answer) for entry, answer in probation)
            )


class SenderPool:
    """One `Sender` per target broker, made when first needed; `run` until cancelled."""

    def __init__(self, sink: DataSink, limits: Limits) -> None:
        self._sink = sink
        self._limits = limits
        self._senders: dict[int, Sender] = {}
        self._running: asyncio.TaskGroup | None = None
        self._stopped = asyncio.Event()

    def offer(self, flow: SendingFlow) -> None:
        """Queue the flow at the sender of its target broker.

        Without a leader the flow drops its batches: they would take the room of others meanwhile.
        """
        if self._running is None:
            return
        node_id = flow.target_leader
        if node_id is None:
            flow.disturb(KafkaError(ErrorCode.leader_not_available, str(flow.target)))
            return
        if node_id not in self._senders:
            self._senders[node_id] = Sender(self._sink, node_id, self._limits)
            self._running.create_task(self._senders[node_id].run())
        self._senders[node_id].offer(flow)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as running:
            self._running = running
            await self._stopped.wait()  # never: kept open for senders to come
