"""The transaction coordinator of one broker: routes transactional ids to the partitions it leads.

Guarantees: a transactional id is served only by the leader of its partition of
`__transaction_state`, elsewhere NOT_COORDINATOR; before the partition is loaded
COORDINATOR_LOAD_IN_PROGRESS. The topic is created by the first FindCoordinator, which is told
COORDINATOR_NOT_AVAILABLE until its leader is known.

Not here: the rules of transactions (shard.py), markers (markers.py), the wire (handlers/).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model.cluster_image import TRANSACTIONS_TOPIC
from local_cluster.coordinator_runtime.coordinated_topic import CoordinatedTopic
from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime
from local_cluster.network import OpenLine, open_line
from local_cluster.transactions.broker_lines import BrokerLines
from local_cluster.transactions.join_batches import JoinBatches
from local_cluster.transactions.markers import MarkerSender
from local_cluster.transactions.requests import (
    AddRequest,
    EndRequest,
    InitRequest,
    Outcome,
    ProducerAnswer,
    TransactionLimits,
)
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction import TopicPartition, Transaction
from local_cluster.transactions.turns import ProducerTurns
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.settings import BrokerSettings
    from local_cluster.transactions.services import TransactionServices

EXPIRY_INTERVAL_MS_DEFAULT: Final = 10_000
"""Default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""

_log = logging.getLogger(__name__)


def read_limits(settings: BrokerSettings) -> TransactionLimits:
    """The transaction settings of a broker, by Kafka's names."""
    defaults = TransactionLimits()
    read = settings.config_int
    return TransactionLimits(
        transaction_max_timeout_ms=read(
            "transaction.max.timeout.ms", defaults.transaction_max_timeout_ms
        ),
        transactional_id_expiration_ms=read(
            "transactional.id.expiration.ms", defaults.transactional_id_expiration_ms
        ),
    )


class TransactionCoordinator:
    """All transactional ids whose partition this broker leads."""

    def __init__(self, broker: TransactionServices, open_line: OpenLine = open_line) -> None:
        limits = read_limits(broker.settings)
        self._broker = broker
        # Apart: a connection answers in order, and a marker may wait for in-sync replicas.
        self._marker_lines = BrokerLines(broker, open_line)
        self._join_lines = BrokerLines(broker, open_line)
        self._markers = MarkerSender(broker, self._marker_lines)
        self._joins = JoinBatches(self._join_lines)
        self.turns = ProducerTurns()
        self._topic = CoordinatedTopic(
            broker, TRANSACTIONS_TOPIC, lambda: TransactionShard(limits), self._mark
        )
        self.on_leadership = self._topic.on_leadership
        self.find_coordinator = self._topic.find_coordinator

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to look for transactions past their timeout."""
        interval_ms = self._broker.settings.config_int(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            EXPIRY_INTERVAL_MS_DEFAULT,
        )
        self._topic.repeat(
            interval_ms,
            lambda shard, now: shard.expire(now.wall_ms).to_runtime(),
            "transaction expiry",
        )

    async def stop(self) -> None:
        """Fail whoever waits, stop every task. Markers under way go on after the next start."""
        await self._topic.stop()
        await self._joins.close()
        self._marker_lines.close()
        self._join_lines.close()

    # -- requests: each raises KafkaError where the id is not served here and now -----------

    async def init_producer_id(self, request: InitRequest) -> ProducerAnswer:
        """InitProducerId; takes a new producer id only where one is needed."""
        answer = await self._ask_init(request)
        if not answer.needs_producer_id:
            return answer
        producer_id = await self._broker.producer_ids.next()
        return await self._ask_init(request._replace(new_producer_id=producer_id))

    def add_partitions(self, request: AddRequest) -> Awaitable[ErrorCode]:
        """AddPartitionsToTxn: one error for all partitions.

        A partition that this broker has not heard of yet may not join: when the markers are
        written, one that it does not know is taken for one that is gone.
        """
        unknown = [
            key for key in request.partitions if self._broker.metadata.partition(*key) is None
        ]
        if unknown:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{unknown} are not known here")
        return self._ask(
            request.transactional_id, lambda shard, now_ms: shard.add_partitions(request, now_ms)
        )

    async def end(self, request: EndRequest) -> ProducerAnswer:
        """EndTxn; takes a new producer id only where the epochs of the old one are used up."""
        answer = await self._ask_end(request)
        if not answer.needs_producer_id:
            return answer
        producer_id = await self._broker.producer_ids.next()
        return await self._ask_end(request._replace(new_producer_id=producer_id))

    def verify(self, request: AddRequest) -> Mapping[TopicPartition, ErrorCode]:
        """Whether partitions belong to the ongoing transaction."""
        return self._topic.runtime_of(request.transactional_id).shard.verify(request)

    def is_here(self, transactional_id: str) -> bool:
        """Whether this broker is the coordinator of a transactional id."""
        return self._topic.is_here(transactional_id)

    async def join(
        self, request: AddRequest, *, verify_only: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Add partitions, or verify that they were added, wherever the id is coordinated.

        Raises KafkaError.
        """
        if not self.is_here(request.transactional_id):
            leader = self._topic.leader_of(request.transactional_id)
            return await self._joins.ask(leader, request, verify_only=verify_only)
        if verify_only:
            return self.verify(request)
        return dict.fromkeys(request.partitions, await self.add_partitions(request))

    def describe(self, transactional_id: str) -> Transaction | None:
        """DescribeTransactions of one id; None if it is not known."""
        return self._topic.runtime_of(transactional_id).shard.transactions.get(transactional_id)

    def list_transactions(self) -> tuple[ErrorCode, list[Transaction]]:
        """Every id led here; COORDINATOR_LOAD_IN_PROGRESS where some are not known yet."""
        error, shards = self._topic.shards()
        return error, [item for shard in shards for item in shard.transactions.values()]

    # -- inside -----------------------------------------------------------------------------

    def _ask_init(self, request: InitRequest) -> Awaitable[ProducerAnswer]:
        return self._ask(
            request.transactional_id, lambda shard, now_ms: shard.init_producer_id(request, now_ms)
        )

    def _ask_end(self, request: EndRequest) -> Awaitable[ProducerAnswer]:
        return self._ask(request.transactional_id, lambda shard, now_ms: shard.end(request, now_ms))

    def _ask(
        self, transactional_id: str, ask: Callable[[TransactionShard, int], Outcome]
    ) -> Awaitable[Any]:
        runtime = self._topic.runtime_of(transactional_id)
        return runtime.ask(lambda shard, ticket, now: ask(shard, now.wall_ms).to_runtime(ticket))

    async def _mark(
        self, runtime: PartitionRuntime[TransactionShard], decided: Transaction
    ) -> None:
        """Write the markers of a decided transaction, then note that it is complete."""
        try:
            marked = await self._markers(decided, runtime.leader_epoch)
        except (KafkaError, OSError):
            _log.exception("markers of %s were not written", decided.transactional_id)
            return
        if marked:
            await runtime.wait_writable()
            runtime.tell(lambda shard, now: shard.complete(decided, now.wall_ms).to_runtime())
