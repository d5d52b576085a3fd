"""Transaction markers: appended to partitions led here, and sent to other leaders by
WriteTxnMarkers.

All leaders get their markers concurrently. Failed markers are retried, with a backoff of up to one
second, while this broker coordinates: the decision is in the log and cannot change. A deleted
partition needs no marker. If a leader knows a newer coordinator epoch or producer epoch, this
coordinator was replaced and stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.coordinator_runtime.ports import CoordinatorBroker
from local_cluster.records.control import EndMarker
from local_cluster.transactions.broker_connections import BrokerCalls
from local_cluster.transactions.transaction import TopicPartition, Transaction
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

RETRY_SECONDS_MIN: Final = 0.02
RETRY_SECONDS_MAX: Final = 1.0
COMMIT_SECONDS_MAX: Final = 10.0
"""A marker that is not committed by then is written again. Far below CALL_TIMEOUT_MS."""
MARKERS_VERSION: Final = 2

_REPLACED: Final = frozenset(
    {ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch}
)

_WIRE_ERRORS: Final = {
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_leader_or_follower,
    ErrorCode.coordinator_not_available: ErrorCode.not_leader_or_follower,
    ErrorCode.not_coordinator: ErrorCode.not_leader_or_follower,
    ErrorCode.kafka_storage_error: ErrorCode.unknown_topic_or_partition,
}
"""The errors by which Kafka refuses a marker for now. Coordinators retry after any error, but
kafka-transactions retries only after these two."""

log = logging.getLogger(__name__)


class OffsetsTransactions(Protocol):
    """Ends transactions on the partitions of the offsets topic."""

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]: ...


class MarkerBroker(CoordinatorBroker, Protocol):
    """What markers need of their broker."""

    @property
    def groups(self) -> OffsetsTransactions: ...


def _append_marker(
    broker: MarkerBroker,
    topic: str,
    partition: int,
    *,
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
) -> asyncio.Future[None]:
    """Append a marker to a partition led here; the future is done when it is committed.

    Raises KafkaError, and NOT_ENOUGH_REPLICAS before anything is written. The future may fail with
    KafkaError too.
    """
    try:
        if topic == OFFSETS_TOPIC:
            # The marker commits or drops the pending transactional offsets.
            return broker.groups.end_transaction(partition, producer_id, producer_epoch, marker)
        replica = broker.replicas.get_leader(topic, partition)
    except KafkaError as error:
        raise KafkaError(_WIRE_ERRORS.get(error.code, error.code), error.message) from None
    # Otherwise each retry would append another marker, and requests behind it on the same
    # connection to this broker would wait.
    replica.require_in_sync_replicas()
    result = replica.append_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch)
    return replica.committed(result.last_offset + 1)


async def write_markers(
    broker: MarkerBroker,
    partitions: Iterable[TopicPartition],
    *,
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
) -> dict[TopicPartition, ErrorCode]:
    """Append a marker to each partition and return its error, ErrorCode.none once committed.

    After COMMIT_SECONDS_MAX the error is REQUEST_TIMED_OUT, after which coordinators retry: a
    partition whose replicas fell out of sync must not delay the others, nor their next markers.
    """
    errors: dict[TopicPartition, ErrorCode] = {}
    waiting: dict[TopicPartition, asyncio.Future[None]] = {}
    for topic, partition in partitions:
        try:
            waiting[topic, partition] = _append_marker(
                broker,
                topic,
                partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                marker=marker,
            )
        except KafkaError as error:
            errors[topic, partition] = error.code
    try:
        async with asyncio.timeout(COMMIT_SECONDS_MAX):
            # gather retrieves every failure, even if this task is cancelled during the wait.
            await asyncio.gather(*waiting.values(), return_exceptions=True)
    except TimeoutError:
        log.info("markers of producer %d are not committed in time", producer_id)
    for key, committed in waiting.items():
        if committed.cancelled():
            errors[key] = ErrorCode.request_timed_out
            continue
        failure = committed.exception()
        if failure is None:
            errors[key] = ErrorCode.none
        elif isinstance(failure, KafkaError):
            errors[key] = failure.code
        else:
            raise failure
    return errors


class MarkerSender:
    """Writes the markers of decided transactions to the leaders of their partitions."""

    def __init__(self, broker: MarkerBroker, calls: BrokerCalls) -> None:
        self._broker = broker
        self._calls = calls

    async def send(self, decided: Transaction, coordinator_epoch: int) -> bool:
        """Return True once every partition has its marker, False if another coordinator leads."""
        marker = EndMarker(
            decided.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch,
            decided.client_version,
        )
        missing = set(decided.partitions)
        wait_seconds = RETRY_SECONDS_MIN
        while True:
            responses = await asyncio.gather(
                *(
                    self._send_to_leader(leader, partitions, decided, marker)
                    for leader, partitions in self._by_leader(missing).items()
                )
            )
            for errors in responses:
                replaced = _REPLACED & set(errors.values())
                if replaced:
                    log.warning(
                        "markers of %s were refused, another coordinator leads: %s",
                        decided.transactional_id,
                        replaced,
                    )
                    return False
                missing -= {key for key, error in errors.items() if error is ErrorCode.none}
            metadata = self._broker.metadata
            if metadata.is_whole:
                # Otherwise the metadata may lack a topic that was not deleted and returns later.
                missing = {key for key in missing if metadata.partition(*key) is not None}
            if not missing:
                return True
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, RETRY_SECONDS_MAX)

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group the partitions by leader; those without a leader wait for the next round."""
        found: dict[int, list[TopicPartition]] = {}
        for topic, partition in sorted(partitions):
            state = self._broker.metadata.partition(topic, partition)
            if state is not None and state.leader >= 0:
                found.setdefault(state.leader, []).append((topic, partition))
        return found

    async def _send_to_leader(
        self,
        leader: int,
        partitions: list[TopicPartition],
        decided: Transaction,
        marker: EndMarker,
    ) -> Mapping[TopicPartition, ErrorCode]:
        if leader == self._broker.settings.broker_id:
            return await write_markers(
                self._broker,
                partitions,
                producer_id=decided.producer_id,
                producer_epoch=decided.producer_epoch,
                marker=marker,
            )
        try:
            response = await self._calls.call(
                leader,
                ApiKey.WRITE_TXN_MARKERS,
                _fields(partitions, decided, marker),
                MARKERS_VERSION,
            )
        except KafkaError as error:
            log.info("markers to broker %d will be sent again: %s", leader, error)
            return {}
        return {
            (topic.name, partition.partition_index): partition.error_code
            for entry in response.markers
            for topic in entry.topics
            for partition in topic.partitions
        }


def _fields(
    partitions: list[TopicPartition], decided: Transaction, marker: EndMarker
) -> dict[str, Any]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {
        "markers": [
            {
                "producer_id": decided.producer_id,
                "producer_epoch": decided.producer_epoch,
                "transaction_result": marker.is_commit,
                "topics": [
                    {"name": topic, "partition_indexes": tuple(indexes)}
                    for topic, indexes in by_topic.items()
                ],
                "coordinator_epoch": marker.coordinator_epoch,
                "transaction_version": marker.transaction_version,
            }
        ]
    }
