"""WriteTxnMarkers v1-v2: a coordinator, or `kafka-transactions abort`, ends transactions (KIP-98).

It needs CLUSTER_ACTION, or a broker's principal where brokers have one. A partition's result is
ready when its marker is committed. v2 has the
transaction version of each marker (KIP-1228): from 2 on its epoch is above that of the records.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from local_cluster.handlers.broker_requests import may_write_markers
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.records.control import EndMarker
from local_cluster.transactions.markers import write_markers
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest

    from local_cluster.wire.responses.transactions import (
        WritableTxnMarkerResult,
        WriteTxnMarkersResponse,
    )


@handles(ApiKey.WRITE_TXN_MARKERS, min_version=1, max_version=2)
def write_txn_markers(
    broker: BrokerServices, context: RequestContext, request: WriteTxnMarkersRequest
) -> Awaitable[WriteTxnMarkersResponse]:
    """Write each marker to each of its partitions that this broker leads."""
    allowed = may_write_markers(broker, context)
    return _write_all(broker, request, allowed)


async def _write_all(
    broker: BrokerServices, request: WriteTxnMarkersRequest, allowed: bool
) -> WriteTxnMarkersResponse:
    """Write all markers concurrently."""
    return {
        "markers": await asyncio.gather(
            *(_write_one(broker, entry, allowed) for entry in request.markers)
        )
    }


async def _write_one(
    broker: BrokerServices, entry: WritableTxnMarker, allowed: bool
) -> WritableTxnMarkerResult:
    partitions: list[TopicPartition] = [
        (topic.name, index) for topic in entry.topics for index in topic.partition_indexes
    ]
    if allowed:
        errors = await write_markers(
            broker,
            partitions,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            marker=EndMarker(
                entry.transaction_result,
                entry.coordinator_epoch,
                get(entry, "transaction_version", 0),
            ),
        )
    else:
        errors = dict.fromkeys(partitions, ErrorCode.cluster_authorization_failed)
    return {
        "producer_id": entry.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": index, "error_code": errors[topic.name, index]}
                    for index in topic.partition_indexes
                ],
            }
            for topic in entry.topics
        ],
    }
