"""Responses of the handlers in `handlers/transactions`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class InitProducerIdResponse(TypedDict):
    """InitProducerId v0-v5."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    producer_id: NotRequired[int]
    producer_epoch: int


class AddPartitionsToTxnPartitionResult(TypedDict):
    partition_index: int
    partition_error_code: ErrorCode


class AddPartitionsToTxnTopicResult(TypedDict):
    name: str
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(TypedDict):
    transactional_id: str
    topic_results: Sequence[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(TypedDict):
    """AddPartitionsToTxn v0-v5."""

    throttle_time: NotRequired[int]
    error_code: NotRequired[ErrorCode]
    results_by_transaction: NotRequired[Sequence[AddPartitionsToTxnResult]]
    results_by_topic_v3_and_below: NotRequired[Sequence[AddPartitionsToTxnTopicResult]]


class AddOffsetsToTxnResponse(TypedDict):
    """AddOffsetsToTxn v0-v4."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode


class EndTxnResponse(TypedDict):
    """EndTxn v0-v5."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    producer_id: NotRequired[int]
    producer_epoch: NotRequired[int]


class WritableTxnMarkerPartitionResult(TypedDict):
    partition_index: int
    error_code: ErrorCode


class WritableTxnMarkerTopicResult(TypedDict):
    name: str
    partitions: Sequence[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(TypedDict):
    producer_id: int
    topics: Sequence[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(TypedDict):
    """WriteTxnMarkers v1-v2."""

    markers: Sequence[WritableTxnMarkerResult]


class TxnOffsetCommitResponsePartition(TypedDict):
    partition_index: int
    error_code: ErrorCode


class TxnOffsetCommitResponseTopic(TypedDict):
    topic_id: NotRequired[uuid.UUID | None]
    partitions: Sequence[TxnOffsetCommitResponsePartition]
    name: NotRequired[str]


class TxnOffsetCommitResponse(TypedDict):
    """TxnOffsetCommit v0-v6."""

    throttle_time: NotRequired[int]
    topics: Sequence[TxnOffsetCommitResponseTopic]


class ProducerState(TypedDict):
    producer_id: int
    producer_epoch: int
    last_sequence: NotRequired[int]
    last_timestamp: NotRequired[int]
    coordinator_epoch: int
    current_txn_start_offset: NotRequired[int]


class PartitionResponse(TypedDict):
    partition_index: int
    error_code: ErrorCode
    error_message: NotRequired[str | None]
    active_producers: Sequence[ProducerState]


class TopicResponse(TypedDict):
    name: str
    partitions: Sequence[PartitionResponse]


class DescribeProducersResponse(TypedDict):
    """DescribeProducers v0."""

    throttle_time: NotRequired[int]
    topics: Sequence[TopicResponse]


class TopicData(TypedDict):
    topic: str
    partitions: NotRequired[Sequence[int]]


class DescribeTransactionsTransactionState(TypedDict):
    error_code: ErrorCode
    transactional_id: str
    transaction_state: str
    transaction_timeout: int
    transaction_start_time: int | None
    producer_id: int
    producer_epoch: int
    topics: Sequence[TopicData]


class DescribeTransactionsResponse(TypedDict):
    """DescribeTransactions v0."""

    throttle_time: NotRequired[int]
    transaction_states: Sequence[DescribeTransactionsTransactionState]


class ListTransactionsTransactionState(TypedDict):
    transactional_id: str
    producer_id: int
    transaction_state: str


class ListTransactionsResponse(TypedDict):
    """ListTransactions v0-v2."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    unknown_state_filters: NotRequired[Sequence[str]]
    transaction_states: Sequence[ListTransactionsTransactionState]
