"""Markers: written to partitions led here, sent to the leaders of the others (WriteTxnMarkers).

The leaders are told side by side. What fails is tried again, with pauses up to a second, for as
long as this broker coordinates: the decision is in the log, so there is nothing else to do. A
partition that is gone needs none. Where a leader knows a newer coordinator or a newer
producer epoch, this coordinator was deposed and stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.records.control import EndMarker
from local_cluster.transactions.broker_lines import BrokerLines
from local_cluster.transactions.transaction import TopicPartition, Transaction
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.transactions.services import TransactionServices

RETRY_SECONDS_MIN: Final = 0.02
RETRY_SECONDS_MAX: Final = 1.0
COMMIT_SECONDS_MAX: Final = 10.0
"""A marker that is not committed by then is written again; well within a call's time."""
MARKERS_VERSION: Final = 2

_DEPOSED: Final = frozenset(
    {ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch}
)

_TOLD: Final = {
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_leader_or_follower,
    ErrorCode.coordinator_not_available: ErrorCode.not_leader_or_follower,
    ErrorCode.not_coordinator: ErrorCode.not_leader_or_follower,
    ErrorCode.kafka_storage_error: ErrorCode.unknown_topic_or_partition,
}
"""Why this broker does not take a marker now, as Kafka tells it: a coordinator tries again whatever
it is told, but kafka-transactions gives up where it is none of these two."""

_log = logging.getLogger(__name__)


def begin_marker(
    broker: TransactionServices,
    topic: str,
    partition: int,
    *,
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
) -> asyncio.Future[None]:
    """Write a marker to a partition led here; the future is done when it is committed.

    Raises KafkaError (NOT_ENOUGH_REPLICAS before anything is written); so may the future.
    """
    try:
        if topic == OFFSETS_TOPIC:
            # The positions of the transaction become visible, or vanish, with the marker.
            return broker.groups.end_transaction(partition, producer_id, producer_epoch, marker)
        replica = broker.replicas.get_leader(topic, partition)
    except KafkaError as error:
        raise KafkaError(_TOLD.get(error.code, error.code), error.message) from None
    # Else it would wait, and be written again with each try; and what goes by the same line to
    # this broker would wait behind it.
    replica.require_in_sync_replicas()
    result = replica.append_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch)
    return replica.committed(result.last_offset + 1)


async def write_markers(
    broker: TransactionServices,
    partitions: Iterable[TopicPartition],
    *,
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
) -> dict[TopicPartition, ErrorCode]:
    """Write a marker to each partition; ErrorCode.none where it is committed.

    Where it is not in time the error is REQUEST_TIMED_OUT, after which coordinators try again: a
    partition whose replicas fell out of sync must not hold up the others, nor their next markers.
    """
    errors: dict[TopicPartition, ErrorCode] = {}
    waiting: dict[TopicPartition, asyncio.Future[None]] = {}
    for topic, partition in partitions:
        try:
            waiting[topic, partition] = begin_marker(
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
            # All at once: who is cancelled over the first leaves none whose failure nobody hears.
            await asyncio.gather(*waiting.values(), return_exceptions=True)
    except TimeoutError:
        _log.info("markers of producer %d are not committed in time", producer_id)
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
    """Writes the markers of decided transactions wherever their partitions are led."""

    def __init__(self, broker: TransactionServices, lines: BrokerLines) -> None:
        self._broker = broker
        self._lines = lines

    async def __call__(self, decided: Transaction, coordinator_epoch: int) -> bool:
        """Until every partition has its marker: True. False if this coordinator was deposed."""
        marker = EndMarker(
            decided.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch,
            decided.client_version,
        )
        missing = set(decided.partitions)
        wait_seconds = RETRY_SECONDS_MIN
        while True:
            answers = await asyncio.gather(
                *(
                    self._send(leader, partitions, decided, marker)
                    for leader, partitions in self._by_leader(missing).items()
                )
            )
            for errors in answers:
                deposed = _DEPOSED & set(errors.values())
                if deposed:
                    _log.warning("markers of %s: %s", decided.transactional_id, deposed)
                    return False
                missing -= {key for key, error in errors.items() if error is ErrorCode.none}
            metadata = self._broker.metadata
            if metadata.is_whole:
                # Else a topic may be missing that was not deleted, and will be led again.
                missing = {key for key in missing if metadata.partition(*key) is not None}
            if not missing:
                return True
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, RETRY_SECONDS_MAX)

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by their leader; those without one are left for the next round."""
        found: dict[int, list[TopicPartition]] = {}
        for topic, partition in sorted(partitions):
            state = self._broker.metadata.partition(topic, partition)
            if state is not None and state.leader >= 0:
                found.setdefault(state.leader, []).append((topic, partition))
        return found

    async def _send(
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
            response = await self._lines.call(
                leader,
                ApiKey.WRITE_TXN_MARKERS,
                _fields(partitions, decided, marker),
                MARKERS_VERSION,
            )
        except KafkaError as error:
            _log.info("markers to broker %d are sent again: %s", leader, error)
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
