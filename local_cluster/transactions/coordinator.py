"""The transaction coordinator of one broker: routes transactional ids to the partitions it leads.

Guarantees: a transactional id is served only by the leader of its partition of
`__transaction_state`, elsewhere NOT_COORDINATOR; before the partition is loaded
COORDINATOR_LOAD_IN_PROGRESS. The topic is created by the first FindCoordinator, which is told
COORDINATOR_NOT_AVAILABLE until its leader is known.

Not here: the rules of transactions (shard.py), markers (markers.py), the wire (handlers/).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model import NO_LEADER, TRANSACTIONS_TOPIC, PartitionState
from local_cluster.groups.partition_shell import ShellState
from local_cluster.groups.partitioning import partition_of
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .broker_lines import BrokerLines
from .markers import MarkerSender
from .partition_shell import TransactionPartitionShell
from .requests import AddRequest, EndRequest, InitAnswer, InitRequest, TransactionLimits
from .transaction import TopicPartition, Transaction

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices
    from local_cluster.settings import BrokerSettings

EXPIRY_INTERVAL_MS_DEFAULT: Final = 10_000
"""Default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""
VERIFY_VERSION: Final = 4

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

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self._limits = read_limits(broker.settings)
        self._lines = BrokerLines(broker)
        self._markers = MarkerSender(broker, self._lines)
        self._shells: dict[int, TransactionPartitionShell] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._creation: asyncio.Task[None] | None = None
        self._expiry: asyncio.Task[None] | None = None

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to look for transactions past their timeout."""
        self._expiry = asyncio.create_task(self._expire_periodically(), name="transaction expiry")

    async def stop(self) -> None:
        """Fail whoever waits, stop every task. Markers under way go on after the next start."""
        for partition in tuple(self._shells):
            self.on_leadership(TRANSACTIONS_TOPIC, partition, False)
        tasks = [task for task in (self._expiry, self._creation) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)
        await self._lines.close()

    def on_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """This broker begins or ends to lead a partition of some topic."""
        if topic != TRANSACTIONS_TOPIC:
            return
        shell = self._shells.pop(partition, None)
        if shell is not None:
            shell.close()
            closing = asyncio.ensure_future(shell.wait_closed())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if leads:
            replica = self._broker.replicas.get_leader(topic, partition)
            shell = TransactionPartitionShell(
                partition, replica, self._limits, self._broker.clock, self._markers
            )
            self._shells[partition] = shell
            shell.start()

    # -- where a transactional id lives -----------------------------------------------------

    def find_coordinator(self, transactional_id: str, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of the coordinator, on the listener that asked.

        Raises KafkaError(coordinator_not_available) until the topic has a leader there.
        """
        if TRANSACTIONS_TOPIC not in self._broker.metadata.topics:
            self._start_creation()
            raise KafkaError(ErrorCode.coordinator_not_available, "the topic is created")
        state = self._partition(transactional_id)
        leader = NO_LEADER if state is None else state.leader
        endpoints = self._broker.metadata.brokers.get(leader)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(ErrorCode.coordinator_not_available, "the partition has no leader")
        return leader, address[0], address[1]

    # -- requests: each raises KafkaError where the id is not served here and now -----------

    async def init_producer_id(self, request: InitRequest) -> InitAnswer:
        """InitProducerId; takes a new producer id only where one is needed."""
        answer = await self._ask_init(request)
        if not answer.needs_producer_id:
            return answer
        producer_id = await self._broker.producer_ids.next()
        return await self._ask_init(request._replace(new_producer_id=producer_id))

    def add_partitions(self, request: AddRequest) -> Awaitable[ErrorCode]:
        """AddPartitionsToTxn: one error for all partitions."""
        shell = self._shell(request.transactional_id)
        return shell.ask(lambda shard, now_ms: shard.add_partitions(request, now_ms))

    def end(self, request: EndRequest) -> Awaitable[ErrorCode]:
        """EndTxn."""
        shell = self._shell(request.transactional_id)
        return shell.ask(lambda shard, now_ms: shard.end(request, now_ms))

    def verify(self, request: AddRequest) -> Mapping[TopicPartition, ErrorCode]:
        """Whether partitions belong to the ongoing transaction."""
        return self._shell(request.transactional_id).shard.verify(request)

    def is_here(self, transactional_id: str) -> bool:
        """Whether this broker is the coordinator of a transactional id."""
        state = self._partition(transactional_id)
        return state is None or state.partition in self._shells

    async def verify_elsewhere(self, request: AddRequest) -> Mapping[TopicPartition, ErrorCode]:
        """`verify` by the broker that coordinates the id. Raises KafkaError."""
        state = self._partition(request.transactional_id)
        if state is None or state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.coordinator_not_available)
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(request.partitions):
            by_topic.setdefault(topic, []).append(partition)
        fields = {
            "transactions": [
                {
                    "transactional_id": request.transactional_id,
                    "producer_id": request.producer_id,
                    "producer_epoch": request.producer_epoch,
                    "verify_only": True,
                    "topics": [
                        {"name": topic, "partitions": tuple(indexes)}
                        for topic, indexes in by_topic.items()
                    ],
                }
            ]
        }
        response = await self._lines.call(
            state.leader, ApiKey.ADD_PARTITIONS_TO_TXN, fields, VERIFY_VERSION
        )
        if response.error_code:
            raise KafkaError(response.error_code)
        return {
            (topic.name, entry.partition_index): entry.partition_error_code
            for result in response.results_by_transaction
            for topic in result.topic_results
            for entry in topic.results_by_partition
        }

    def describe(self, transactional_id: str) -> Transaction | None:
        """DescribeTransactions of one id; None if it is not known."""
        return self._shell(transactional_id).shard.transactions.get(transactional_id)

    def list_transactions(self) -> tuple[ErrorCode, list[Transaction]]:
        """Every id led here; COORDINATOR_LOAD_IN_PROGRESS where some are not known yet."""
        error = ErrorCode.none
        found: list[Transaction] = []
        for shell in self._shells.values():
            if shell.state is ShellState.ACTIVE:
                found.extend(shell.shard.transactions.values())
            elif shell.state is ShellState.LOADING:
                error = ErrorCode.coordinator_load_in_progress
        return error, found

    # -- inside -----------------------------------------------------------------------------

    def _ask_init(self, request: InitRequest) -> Awaitable[InitAnswer]:
        shell = self._shell(request.transactional_id)
        return shell.ask(lambda shard, now_ms: shard.init_producer_id(request, now_ms))

    def _partition(self, transactional_id: str) -> PartitionState | None:
        topic = self._broker.metadata.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        return topic.partitions.get(partition_of(transactional_id, len(topic.partitions)))

    def _shell(self, transactional_id: str) -> TransactionPartitionShell:
        state = self._partition(transactional_id)
        shell = None if state is None else self._shells.get(state.partition)
        if shell is None:
            raise KafkaError(ErrorCode.not_coordinator, f"{transactional_id} lives elsewhere")
        return shell

    async def _expire_periodically(self) -> None:
        interval_ms = self._broker.settings.config_int(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            EXPIRY_INTERVAL_MS_DEFAULT,
        )
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for shell in tuple(self._shells.values()):
                shell.expire()
                await asyncio.sleep(0)

    def _start_creation(self) -> None:
        """Start creating the topic unless that runs already; the next question tells the result."""
        if self._creation is None or self._creation.done():
            self._creation = asyncio.create_task(
                self._create_topic(), name="create transactions topic"
            )

    async def _create_topic(self) -> None:
        """Have the controller create the topic; what goes wrong the client's next try repeats."""
        error = await self._broker.control_plane.auto_create_topic(TRANSACTIONS_TOPIC)
        if error is not None:
            _log.warning("%s was not created: %s", TRANSACTIONS_TOPIC, error)
