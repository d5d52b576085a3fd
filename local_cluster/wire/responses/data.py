"""Responses of the handlers in `handlers/data`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class DeleteRecordsPartitionResult(TypedDict):
    partition_index: int
    low_watermark: int
    error_code: ErrorCode


class DeleteRecordsTopicResult(TypedDict):
    name: str
    partitions: Sequence[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(TypedDict):
    """DeleteRecords v0-v2."""

    throttle_time: NotRequired[int]
    topics: Sequence[DeleteRecordsTopicResult]


class EpochEndOffset(TypedDict):
    error_code: ErrorCode
    partition: int
    leader_epoch: NotRequired[int]
    end_offset: NotRequired[int]


class OffsetForLeaderTopicResult(TypedDict):
    topic: str
    partitions: Sequence[EpochEndOffset]


class OffsetForLeaderEpochResponse(TypedDict):
    """OffsetForLeaderEpoch v2-v4."""

    throttle_time: NotRequired[int]
    topics: Sequence[OffsetForLeaderTopicResult]
