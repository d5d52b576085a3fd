"""A transactional id of a simulated cluster, and what its producers attempt.

The id's producer writes in transactions, a few records each, in any of the topic's partitions; it
commits them or aborts, or is gone before. Now and then another producer takes the id over, and the
one before is not told: whatever it still asks for (a zombie) is refused. Some producers speak
transaction version 1, some version 2 (KIP-890).

    a commit that was answered       all its records are read, once, wherever the coordinator moves
    a commit without an answer       all of them or none
    an abort, or no commit at all    none of them, ever
    a producer that is gone          its transaction is aborted when its timeout is over
    a read_committed reader          reads what is committed in the end, and nothing else before

The reader, and the judge of all this, stand in transaction_readers.py.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model.cluster_image import TRANSACTIONS_TOPIC
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import messages
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import Anomaly, At

if TYPE_CHECKING:
    from tests.sim.cluster.world import SimWorld

TRANSACTIONAL_ID: Final = "x"
COORDINATOR: Final = At(TRANSACTIONS_TOPIC, 0)
INIT_VERSION: Final = 5
PRODUCE_VERSIONS: Final = {1: 11, 2: 13}
END_VERSIONS: Final = {1: 4, 2: 5}
"""By transaction version."""
ADD_VERSION: Final = 3
REPLACED_AFTER_SECONDS: Final = 3.0
"""On average."""
WRITE_SECONDS_MAX: Final = 2.5
"""Then a producer gives a transaction up."""
COMMIT_CHANCE: Final = 0.7
GONE_CHANCE: Final = 0.1
RETRY_SECONDS: Final = 0.1

OVER: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""The producer has to go."""
LOST: Final = frozenset(
    {
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
    }
)
"""The transaction has to be aborted, if it is not yet."""


@dataclass
class Attempted:
    """One transaction, as its producer knows it."""

    values: dict[At, list[bytes]] = field(default_factory=dict)
    may_commit: bool = False
    """The commit was asked for."""
    is_committed: bool = False
    """And answered."""

    @property
    def records_count(self) -> int:
        return sum(map(len, self.values.values()))


class _OverError(Exception):
    """This producer can do nothing any more."""


class SimTransactions:
    """The transactional id: its producers, one after the other, and what they attempted."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.stopping = False
        """End everything: a last producer commits one transaction."""
        self.attempted: list[Attempted] = []
        self.begun: list[tuple[float, int, SimTransactionalProducer]] = []
        """Producers that were told their epoch: when, which, who."""
        self._count = 0

    def new_value(self) -> bytes:
        self._count += 1
        return b"x:%d" % self._count

    async def run(self) -> None:
        """Until a last producer is done. Raises Anomaly."""
        random = self.world.random
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
        # Nobody but the coordinators' clocks ends what the producers left open.
        while self.world.checks.open_transaction() is not None:
            await asyncio.sleep(RETRY_SECONDS)
        while not await SimTransactionalProducer(self).run_once():
            await asyncio.sleep(RETRY_SECONDS)

    def _is_past(self, end: float) -> bool:
        return asyncio.get_running_loop().time() >= end

    def require_no_heir(
        self, producer: SimTransactionalProducer, epoch: int, asked_at: float, what: str
    ) -> None:
        """A request was granted that was made under an epoch. Raises Anomaly for a zombie's."""
        for told_at, newer, heir in self.begun:
            if heir is not producer and newer > epoch and told_at < asked_at:
                raise Anomaly(
                    f"{what} of a producer with epoch {epoch} was granted, asked for at "
                    f"{asked_at:.3f}: its heir had epoch {newer} at {told_at:.3f}"
                )


class SimTransactionalProducer:
    """One producer of the transactional id."""

    def __init__(self, owner: SimTransactions) -> None:
        self._owner = owner
        self._world = owner.world
        self._random = owner.world.random
        self._version = self._random.choice((1, 2))
        self._client = SimClient(owner.world)
        self._timeout_ms = self._random.randint(1_000, 3_000)
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[At, int] = {}

    async def run(self) -> None:
        """Transactions, until it is over."""
        try:
            await self._begin()
            while await self._transact(may_be_gone=True):
                await asyncio.sleep(self._random.expovariate(1 / 0.25))
        except _OverError:
            return

    async def run_once(self) -> bool:
        """One transaction; whether it was committed."""
        try:
            await self._begin()
            await self._transact(may_be_gone=False)
        except _OverError:
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
            answer = await self._coordinator(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, fields)
            if answer is not None and answer.error_code == ErrorCode.none:
                break
            await asyncio.sleep(RETRY_SECONDS)
        self._producer_id, self._epoch = int(answer.producer_id), int(answer.producer_epoch)
        self._owner.begun.append((self._now(), self._epoch, self))

    async def _transact(self, *, may_be_gone: bool) -> bool:
        """One transaction; False where the producer cannot or does not go on."""
        attempted = Attempted()
        self._owner.attempted.append(attempted)
        partitions = [at for at in self._world.partitions if at.topic == self._world.topic]
        is_whole = True
        for _ in range(self._random.randint(1, 3)):
            at = self._random.choice(partitions)
            values = [self._owner.new_value() for _ in range(self._random.randint(1, 2))]
            attempted.values.setdefault(at, []).extend(values)
            is_whole = await self._write(at, values)
            if not is_whole:
                break
        if may_be_gone and self._random.random() < GONE_CHANCE:
            return False
        commits = is_whole and (not may_be_gone or self._random.random() < COMMIT_CHANCE)
        attempted.may_commit = commits
        is_done = await self._end(commits)
        attempted.is_committed = commits and is_done
        # In version 1 nobody knows which sequence is next after a write that was not answered.
        return is_done and (is_whole or self._version > 1)

    async def _write(self, at: At, values: list[bytes]) -> bool:
        """Whether they are in the transaction for sure."""
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
            asked_at = self._now()
            error = await self._produce(at, bytes(batch))
            if error is ErrorCode.none:
                self._owner.require_no_heir(self, self._epoch, asked_at, "a write")
                self._sequences[at] = sequence + len(values)
                return True
            if error in LOST:
                return False
            await self._before_again(error)
        return False

    async def _add(self, at: At, end: float) -> bool:
        fields = {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": self._producer_id,
            "v3_and_below_producer_epoch": self._epoch,
            "v3_and_below_topics": [{"name": at.topic, "partitions": (at.partition,)}],
        }
        while self._now() < end:
            asked_at = self._now()
            answer = await self._coordinator(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, fields)
            error = ErrorCode.network_exception
            if answer is not None:
                (topic,) = answer.results_by_topic_v3_and_below
                error = ErrorCode(topic.results_by_partition[0].partition_error_code)
            if error is ErrorCode.none:
                self._owner.require_no_heir(self, self._epoch, asked_at, "an addition")
                return True
            if error in LOST:
                return False
            await self._before_again(error)
        return False

    async def _produce(self, at: At, batch: bytes) -> ErrorCode:
        version = PRODUCE_VERSIONS[self._version]
        topic_id = self._world.topic_id(at.topic)
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
        (answer,) = produce_codec.decode_response(version, frame, position)
        return ErrorCode(answer.error_code)

    async def _end(self, commits: bool) -> bool:
        """Until it is decided so; False where it was not, or perhaps not."""
        fields = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
            "committed": commits,
        }
        while True:
            asked_at = self._now()
            version = END_VERSIONS[self._version]
            answer = await self._coordinator(ApiKey.END_TXN, version, fields)
            error = ErrorCode.network_exception if answer is None else ErrorCode(answer.error_code)
            if error is ErrorCode.none:
                self._owner.require_no_heir(self, self._epoch, asked_at, "an end")
                if self._version > 1:
                    self._producer_id = int(answer.producer_id)
                    self._epoch = int(answer.producer_epoch)
                    self._sequences.clear()
                return True
            if error in LOST:
                return False
            await self._before_again(error)

    async def _before_again(self, error: ErrorCode) -> None:
        if error in OVER:
            raise _OverError
        await asyncio.sleep(RETRY_SECONDS)

    async def _coordinator(self, api: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        """The answer, None where there is none."""
        body = messages.encode_request(api, version, fields)
        try:
            frame, position = await self._client.ask_leader(COORDINATOR, api, version, bytes(body))
        except (KafkaError, TimeoutError):
            return None
        return messages.decode_response(api, version, frame, position)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
