"""The transaction coordinator of one broker: routes transactional ids to the partitions it leads.

Guarantees: only the leader of its partition of `__transaction_state` serves a transactional id;
other brokers answer NOT_COORDINATOR, and the leader COORDINATOR_LOAD_IN_PROGRESS while it loads.
The first FindCoordinator creates the topic; it answers COORDINATOR_NOT_AVAILABLE until the
partition's leader is known.

Not here: the rules of transactions (shard.py), markers (markers.py), the wire (handlers/).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from local_cluster.controller.model.cluster_image import TRANSACTIONS_TOPIC
from local_cluster.coordinator_runtime.coordinated_topic import CoordinatedTopic
from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime
from local_cluster.network import ConnectToPeer, connect_to_peer
from local_cluster.transactions.add_partitions import AddPartitionsSender, ProducerWriteQueue
from local_cluster.transactions.broker_connections import BrokerConnections
from local_cluster.transactions.markers import MarkerBroker, MarkerSender
from local_cluster.transactions.producer_ids import ProducerIds
from local_cluster.transactions.requests import (
    AddRequest,
    EndRequest,
    InitRequest,
    ProducerResponse,
    TransactionLimits,
    TransactionOutcome,
)
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction import TopicPartition, Transaction
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.settings import BrokerSettings

EXPIRY_INTERVAL_MS_DEFAULT: Final = 10_000
"""Default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""

log = logging.getLogger(__name__)


def read_limits(settings: BrokerSettings) -> TransactionLimits:
    """Read the transaction settings of a broker, by Kafka's names."""
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


class TransactionBroker(MarkerBroker, Protocol):
    """What the transaction coordinator uses of its broker."""

    @property
    def producer_ids(self) -> ProducerIds: ...


class TransactionCoordinator:
    """All transactional ids whose partition this broker leads."""

    def __init__(self, broker: TransactionBroker, connect: ConnectToPeer = connect_to_peer) -> None:
        limits = read_limits(broker.settings)
        self._broker = broker
        # Two connections per broker: responses come in order, and a marker may wait for replicas.
        self._marker_connections = BrokerConnections(broker, connect)
        self._add_connections = BrokerConnections(broker, connect)
        self._markers = MarkerSender(broker, self._marker_connections)
        self._additions = AddPartitionsSender(self._add_connections)
        self.write_queue = ProducerWriteQueue()
        self._topic = CoordinatedTopic(
            broker, TRANSACTIONS_TOPIC, lambda: TransactionShard(limits), self._complete_transaction
        )
        self.on_leadership = self._topic.on_leadership
        self.find_coordinator = self._topic.find_coordinator

    # -- lifecycle --------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the periodic abort of transactions past their timeout."""
        interval_ms = self._broker.settings.config_int(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            EXPIRY_INTERVAL_MS_DEFAULT,
        )
        self._topic.run_periodically(
            interval_ms,
            lambda shard, now: shard.expire(now.wall_ms).to_runtime(),
            "transaction expiry",
        )

    async def stop(self) -> None:
        """Fail the waiting requests and stop every task. Missing markers follow after a start."""
        await self._topic.stop()
        await self._additions.close()
        self._marker_connections.close()
        self._add_connections.close()

    # -- requests: each raises KafkaError unless this broker serves the id ------------------

    async def init_producer_id(self, request: InitRequest) -> ProducerResponse:
        """Handle InitProducerId; take a new producer id only if one is needed."""
        response = await self._submit_init(request)
        if not response.needs_producer_id:
            return response
        producer_id = await self._broker.producer_ids.next()
        return await self._submit_init(request._replace(new_producer_id=producer_id))

    def add_partitions(self, request: AddRequest) -> Awaitable[ErrorCode]:
        """Handle AddPartitionsToTxn: one error for all partitions.

        Refuse partitions that this broker's metadata does not hold: without them it would later
        take the partition for a deleted one and write no marker there.
        """
        unknown = [
            key for key in request.partitions if self._broker.metadata.partition(*key) is None
        ]
        if unknown:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"the metadata here lacks {unknown}"
            )
        return self._submit(
            request.transactional_id, lambda shard, now_ms: shard.add_partitions(request, now_ms)
        )

    async def end(self, request: EndRequest) -> ProducerResponse:
        """Handle EndTxn; take a new producer id only if the epochs of the old one are exhausted."""
        response = await self._submit_end(request)
        if not response.needs_producer_id:
            return response
        producer_id = await self._broker.producer_ids.next()
        return await self._submit_end(request._replace(new_producer_id=producer_id))

    def verify(self, request: AddRequest) -> Mapping[TopicPartition, ErrorCode]:
        """Check whether partitions belong to the ongoing transaction."""
        return self._topic.runtime_of(request.transactional_id).shard.verify(request)

    def is_here(self, transactional_id: str) -> bool:
        """Return whether this broker is the coordinator of a transactional id."""
        return self._topic.is_here(transactional_id)

    async def join(
        self, request: AddRequest, *, verify_only: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Add or verify partitions at the id's coordinator, on this broker or another.

        Raises KafkaError.
        """
        if not self.is_here(request.transactional_id):
            leader = self._topic.leader_of(request.transactional_id)
            return await self._additions.send(leader, request, verify_only=verify_only)
        if verify_only:
            return self.verify(request)
        return dict.fromkeys(request.partitions, await self.add_partitions(request))

    def describe(self, transactional_id: str) -> Transaction | None:
        """Return one id for DescribeTransactions, or None if it is unknown."""
        return self._topic.runtime_of(transactional_id).shard.transactions.get(transactional_id)

    def list_transactions(self) -> tuple[ErrorCode, list[Transaction]]:
        """Return every id led here, with COORDINATOR_LOAD_IN_PROGRESS if some still load."""
        error, shards = self._topic.shards()
        return error, [item for shard in shards for item in shard.transactions.values()]

    # -- inside -----------------------------------------------------------------------------

    def _submit_init(self, request: InitRequest) -> Awaitable[ProducerResponse]:
        return self._submit(
            request.transactional_id, lambda shard, now_ms: shard.init_producer_id(request, now_ms)
        )

    def _submit_end(self, request: EndRequest) -> Awaitable[ProducerResponse]:
        return self._submit(
            request.transactional_id, lambda shard, now_ms: shard.end(request, now_ms)
        )

    def _submit(
        self, transactional_id: str, step: Callable[[TransactionShard, int], TransactionOutcome]
    ) -> Awaitable[Any]:
        runtime = self._topic.runtime_of(transactional_id)
        return runtime.submit(
            lambda shard, ticket, now: step(shard, now.wall_ms).to_runtime(ticket)
        )

    async def _complete_transaction(
        self, runtime: PartitionRuntime[TransactionShard], decided: Transaction
    ) -> None:
        """Write the markers of a decided transaction, then record that it is complete."""
        try:
            is_marked = await self._markers.send(decided, runtime.leader_epoch)
        except (KafkaError, OSError):
            log.exception("the markers of %s were not written", decided.transactional_id)
            return
        if is_marked:
            await runtime.wait_writable()
            runtime.run_step(lambda shard, now: shard.complete(decided, now.wall_ms).to_runtime())
