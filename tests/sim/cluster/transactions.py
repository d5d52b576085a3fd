"""A transactional id of a simulated cluster, and what its producers attempt.

The producer of the id writes transactions of a few records, in any of the topic's partitions. It
commits or aborts them, or dies before. Now and then another producer takes over the id; requests of
the former producer (a zombie) are refused. Some producers use transaction version 1, some version 2
(KIP-890).

    an answered commit               all its records are read, once, wherever the coordinator moves
    a commit without a response      all of them or none
    an abort, or no commit           none of them, ever
    a dead producer                  its transaction is aborted after its timeout
    a read_committed reader          reads what is committed in the end, and nothing else before

transaction_readers.py has the reader and the judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from local_cluster.controller.model.cluster_image import TRANSACTIONS_TOPIC
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import messages
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import Anomaly, At
from tests.sim.cluster.sim_cluster import SimCluster

TRANSACTIONAL_ID: Final = "x"
COORDINATOR: Final = At(TRANSACTIONS_TOPIC, 0)
INIT_VERSION: Final = 5
PRODUCE_VERSIONS: Final = {1: 11, 2: 13}
END_VERSIONS: Final = {1: 4, 2: 5}
"""By transaction version."""
ADD_VERSION: Final = 3
REPLACED_AFTER_SECONDS: Final = 3.0
"""Mean time until another producer takes over."""
WRITE_SECONDS_MAX: Final = 2.5
"""After this time a producer gives up a transaction."""
COMMIT_CHANCE: Final = 0.7
DEATH_CHANCE: Final = 0.1
RETRY_SECONDS: Final = 0.1

FENCED: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""Errors that end the producer."""
LOST: Final = frozenset(
    {
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
    }
)
"""Errors after which the transaction has to be aborted."""


@dataclass
class Attempted:
    """One transaction, as its producer knows it."""

    values: dict[At, list[bytes]] = field(default_factory=dict)
    may_commit: bool = False
    """A commit was requested."""
    is_committed: bool = False
    """The commit was answered."""

    @property
    def records_count(self) -> int:
        return sum(map(len, self.values.values()))


class _FencedError(Exception):
    """This producer is fenced."""


class SimTransactions:
    """The transactional id: its producers, one after the other, and what they attempted."""

    def __init__(self, cluster: SimCluster, open_transaction: Callable[[], str | None]) -> None:
        """`open_transaction` says where a transaction is open, None if none is."""
        self.cluster = cluster
        self._open_transaction = open_transaction
        self.stopping = False
        """End everything: a last producer commits one transaction."""
        self.attempted: list[Attempted] = []
        self.begun: list[tuple[float, int, SimTransactionalProducer]] = []
        """(time of the response, epoch, producer) of each InitProducerId."""
        self._count = 0

    def new_value(self) -> bytes:
        self._count += 1
        return b"x:%d" % self._count

    async def run(self) -> None:
        """Run until a last producer has committed. Raises Anomaly."""
        random = self.cluster.random
        producers: list[asyncio.Task[None]] = []
        while not self.stopping:
            producer = asyncio.ensure_future(SimTransactionalProducer(self).run())
            producers.append(producer)
            end = asyncio.get_running_loop().time() + random.expovariate(1 / REPLACED_AFTER_SECONDS)
            while not (self.stopping or producer.done() or self._is_past(end)):
                await asyncio.sleep(RETRY_SECONDS)
        for producer in producers:
            producer.cancel()
        for gone in await asyncio.gather(*producers, return_exceptions=True):
            if isinstance(gone, Exception):
                raise gone
        # Only the timeouts of the coordinators end the transactions that are still open.
        while self._open_transaction() is not None:
            await asyncio.sleep(RETRY_SECONDS)
        while not await SimTransactionalProducer(self).run_once():
            await asyncio.sleep(RETRY_SECONDS)

    def _is_past(self, end: float) -> bool:
        return asyncio.get_running_loop().time() >= end

    def require_no_successor(
        self, producer: SimTransactionalProducer, epoch: int, sent_at: float, what: str
    ) -> None:
        """Raise Anomaly if a granted request was a zombie's: a newer epoch was known before."""
        for known_at, newer, successor in self.begun:
            if successor is not producer and newer > epoch and known_at < sent_at:
                raise Anomaly(
                    f"{what} of a producer with epoch {epoch} was granted, sent at "
                    f"{sent_at:.3f}: its successor had epoch {newer} at {known_at:.3f}"
                )


class SimTransactionalProducer:
    """One producer of the transactional id."""

    def __init__(self, owner: SimTransactions) -> None:
        self._owner = owner
        self._cluster = owner.cluster
        self._random = owner.cluster.random
        self._version = self._random.choice((1, 2))
        self._client = SimClient(owner.cluster)
        self._timeout_ms = self._random.randint(1_000, 3_000)
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[At, int] = {}

    async def run(self) -> None:
        """Run transactions until the producer is fenced or dies."""
        try:
            await self._begin()
            while await self._transact(may_die=True):
                await asyncio.sleep(self._random.expovariate(1 / 0.25))
        except _FencedError:
            return

    async def run_once(self) -> bool:
        """Run one transaction; return whether it was committed."""
        try:
            await self._begin()
            await self._transact(may_die=False)
        except _FencedError:
            return False
        return self._owner.attempted[-1].is_committed

    async def _begin(self) -> None:
        fields = {
            "transactional_id": TRANSACTIONAL_ID,
            "transaction_timeout": self._timeout_ms,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        while True:
            response = await self._coordinator(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, fields)
            if response is not None and response.error_code == ErrorCode.none:
                break
            await asyncio.sleep(RETRY_SECONDS)
        self._producer_id, self._epoch = int(response.producer_id), int(response.producer_epoch)
        self._owner.begun.append((self._now(), self._epoch, self))

    async def _transact(self, *, may_die: bool) -> bool:
        """Run one transaction; return False if the producer cannot or does not continue."""
        attempted = Attempted()
        self._owner.attempted.append(attempted)
        partitions = [at for at in self._cluster.partitions if at.topic == self._cluster.topic]
        is_complete = True
        for _ in range(self._random.randint(1, 3)):
            at = self._random.choice(partitions)
            values = [self._owner.new_value() for _ in range(self._random.randint(1, 2))]
            attempted.values.setdefault(at, []).extend(values)
            is_complete = await self._write(at, values)
            if not is_complete:
                break
        if may_die and self._random.random() < DEATH_CHANCE:
            return False
        commits = is_complete and (not may_die or self._random.random() < COMMIT_CHANCE)
        attempted.may_commit = commits
        is_done = await self._end(commits)
        attempted.is_committed = commits and is_done
        # In version 1 the next sequence is unknown after a write without a response.
        return is_done and (is_complete or self._version > 1)

    async def _write(self, at: At, values: list[bytes]) -> bool:
        """Write; return whether the records are surely in the transaction."""
        end = self._now() + WRITE_SECONDS_MAX
        if self._version == 1 and not await self._add(at, end):
            return False
        sequence = self._sequences.get(at, 0)
        batch = encode_batch(
            [NewRecord(0, None, value) for value in values],
            attributes=TRANSACTIONAL_BIT,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        while self._now() < end:
            sent_at = self._now()
            error = await self._produce(at, bytes(batch))
            if error is ErrorCode.none:
                self._owner.require_no_successor(self, self._epoch, sent_at, "a write")
                self._sequences[at] = sequence + len(values)
                return True
            if error in LOST:
                return False
            await self._wait_or_raise(error)
        return False

    async def _add(self, at: At, end: float) -> bool:
        fields = {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": self._producer_id,
            "v3_and_below_producer_epoch": self._epoch,
            "v3_and_below_topics": [{"name": at.topic, "partitions": (at.partition,)}],
        }
        while self._now() < end:
            sent_at = self._now()
            response = await self._coordinator(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, fields)
            error = ErrorCode.network_exception
            if response is not None:
                (topic,) = response.results_by_topic_v3_and_below
                error = ErrorCode(topic.results_by_partition[0].partition_error_code)
            if error is ErrorCode.none:
                self._owner.require_no_successor(self, self._epoch, sent_at, "an addition")
                return True
            if error in LOST:
                return False
            await self._wait_or_raise(error)
        return False

    async def _produce(self, at: At, batch: bytes) -> ErrorCode:
        version = PRODUCE_VERSIONS[self._version]
        topic_id = self._cluster.topic_id(at.topic)
        request = produce_codec.ProduceRequest(
            TRANSACTIONAL_ID,
            -1,
            2_000,
            [produce_codec.PartitionRecords(*at, memoryview(batch), topic_id=topic_id)],
        )
        body = produce_codec.encode_request(version, request)
        try:
            frame, position = await self._client.ask_leader(
                at, ApiKey.PRODUCE, version, *map(bytes, body)
            )
        except (KafkaError, TimeoutError):
            return ErrorCode.network_exception
        (response,) = produce_codec.decode_response(version, frame, position)
        return ErrorCode(response.error_code)

    async def _end(self, commits: bool) -> bool:
        """End the transaction; return False if the outcome differs or is unknown."""
        fields = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
            "committed": commits,
        }
        while True:
            sent_at = self._now()
            version = END_VERSIONS[self._version]
            response = await self._coordinator(ApiKey.END_TXN, version, fields)
            error = (
                ErrorCode.network_exception if response is None else ErrorCode(response.error_code)
            )
            if error is ErrorCode.none:
                self._owner.require_no_successor(self, self._epoch, sent_at, "an end")
                if self._version > 1:
                    self._producer_id = int(response.producer_id)
                    self._epoch = int(response.producer_epoch)
                    self._sequences.clear()
                return True
            if error in LOST:
                return False
            await self._wait_or_raise(error)

    async def _wait_or_raise(self, error: ErrorCode) -> None:
        if error in FENCED:
            raise _FencedError
        await asyncio.sleep(RETRY_SECONDS)

    async def _coordinator(self, api: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        """Return the coordinator's response, None if there is none."""
        body = messages.encode_request(api, version, fields)
        try:
            frame, position = await self._client.ask_leader(COORDINATOR, api, version, bytes(body))
        except (KafkaError, TimeoutError):
            return None
        return messages.decode_response(api, version, frame, position)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
