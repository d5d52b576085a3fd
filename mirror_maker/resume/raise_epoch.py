"""A new producer epoch after the target refused the producer's state. Shell.

The first batch of a new epoch is no conditional append, so no batch of the old epoch may be in
flight: nothing of ours may arrive for `epoch_quiet_ms`, and two proofs around that time must agree.
If a write of the old epoch arrives later still, the next proof finds it by its epoch and stops the
flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.receipts import Receipts
from mirror_maker.ports import Clock, Lease
from mirror_maker.resume.generations import next_epoch
from mirror_maker.resume.proof import Prover
from mirror_maker.stores.map_store import MapStore


class ReceiptWriter(Protocol):
    """Writes receipts of the audit."""

    async def write_receipts(self, entries: Sequence[Receipts]) -> None: ...


class EpochRaiser:
    """Raises the producer epoch of one flow."""

    def __init__(
        self,
        prover: Prover,
        target: TopicPartition,
        *,
        map_store: MapStore,
        receipts: ReceiptWriter,
        lease: Lease,
        clock: Clock,
        quiet_ms: int,
    ) -> None:
        self._prover = prover
        self._target = target
        self._map_store = map_store
        self._receipts = receipts
        self._lease = lease
        self._clock = clock
        self._quiet_ms = quiet_ms

    async def raise_epoch(self, refused_epoch: int) -> None:
        """Open the flow at the next producer epoch, sequence 0, once the target is quiet.

        Does nothing if another worker did it, or something arrived meanwhile. Raises KafkaError,
        FlowFailedError.
        """
        first = await self._prover.prove()
        if first.opening.producer_epoch > refused_epoch:
            return  # another worker has raised it
        epoch = next_epoch(refused_epoch)
        await self._clock.sleep(self._quiet_ms)
        if not self._lease.is_valid():
            return
        second = await self._prover.prove()
        if (second.opening, second.next_sequence) != (first.opening, first.next_sequence):
            return
        await self._receipts.write_receipts(second.receipts.take())
        blocks, keys = second.block.take_records()
        opening = self._map_store.new_opening(
            second.flow,
            producer_epoch=epoch,
            nonce=self._map_store.new_nonce(),
            target_topic=self._target.topic,
            source_offset=second.source_next,
            target_offset=second.high_watermark,
        )
        await self._map_store.append([*blocks, opening], keys)
