"""An idempotent producer of a simulated cluster: one batch in flight, with retries."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import Anomaly, At, Log
from tests.sim.cluster.sim_cluster import SimCluster

PRODUCE_VERSION = 13
SEQUENCE_ERRORS = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)


class SimProducer:
    """Writes one log until its topic is deleted, and keeps what was acknowledged."""

    def __init__(
        self,
        cluster: SimCluster,
        at: At,
        topic_id: uuid.UUID,
        producer_id: int,
        *,
        acknowledged: Callable[[Log, int], None],
    ) -> None:
        """`acknowledged` gets the log and its end offset after each acknowledged batch."""
        self.at = at
        self.log = Log(at, topic_id)
        self.stopping = False
        """Write one more batch, then end."""
        self.acknowledged: dict[bytes, int] = {}
        """Offset by value."""
        self.sent: list[bytes] = []
        self._cluster = cluster
        self._on_acknowledged = acknowledged
        self._producer_id = producer_id
        self._sequence = 0
        self._count = 0
        self._client = SimClient(cluster)

    async def run(self) -> None:
        random = self._cluster.random
        while True:
            is_last = self.stopping
            values = [
                b"%d:%d" % (self._producer_id, self._count + n) for n in range(random.randint(1, 3))
            ]
            self._count += len(values)
            self.sent += values
            if not await self._write(values):
                return
            self._sequence += len(values)
            if is_last:
                return
            await asyncio.sleep(random.expovariate(1 / 0.12))

    async def _write(self, values: list[bytes]) -> bool:
        """Write until acknowledged; return False if the topic was deleted."""
        records = [NewRecord(0, None, value) for value in values]
        while self._cluster.topic_id(self.at.topic) == self.log.topic_id:
            batch = encode_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=self._sequence,
            )
            try:
                error, base_offset = await self._attempt(bytes(batch))
            except (KafkaError, TimeoutError):
                error, base_offset = ErrorCode.network_exception, -1
            if error == ErrorCode.none:
                self._on_acknowledged(self.log, base_offset + len(values))
                for index, value in enumerate(values):
                    self.acknowledged[value] = base_offset + index
                return True
            if error in SEQUENCE_ERRORS:
                self._suspect(error)
            await asyncio.sleep(0.1)
        return False

    def _suspect(self, error: ErrorCode) -> None:
        """A leader has lost earlier records. Only a deposed one that has not noticed may."""
        if self.at.topic in self._cluster.unclean_topics:
            # Records were lost, as the topic allows: start over, as clients do.
            self._producer_id += 1000
            self._sequence = 0
            return
        state = self._cluster.state_in_zookeeper(self.at)
        if self._cluster.living_topic_id(self.at.topic) != self.log.topic_id:
            return
        if state is not None and state.leader == self._client.asked:
            raise Anomaly(f"{self.log}: {error.name}: acknowledged records are lost")

    async def _attempt(self, batch: bytes) -> tuple[ErrorCode, int]:
        body = produce_codec.encode_request(
            PRODUCE_VERSION,
            produce_codec.ProduceRequest(
                None,
                -1,
                3_000,
                [
                    produce_codec.PartitionRecords(
                        *self.at, memoryview(batch), topic_id=self.log.topic_id
                    )
                ],
            ),
        )
        frame, position = await self._client.ask_leader(
            self.at, ApiKey.PRODUCE, PRODUCE_VERSION, *map(bytes, body)
        )
        (answer,) = produce_codec.decode_response(PRODUCE_VERSION, frame, position)
        return ErrorCode(answer.error_code), answer.base_offset
