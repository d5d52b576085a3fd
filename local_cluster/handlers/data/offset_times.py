"""OFFSET_TIMES v0 (private): the times of the first unread records at committed offsets.

The coordinator of a group asks the leaders for them, for the group's lag in seconds. Bodies are in
groups/offset_times.py. Inter-broker only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from local_cluster.groups.offset_times import (
    Place,
    Time,
    decode_places,
    encode_times,
    unread_time,
)
from local_cluster.handlers.broker_requests import is_from_broker
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.disk.page_cache import ColdReadError, warm_only
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

PLACES_MAX: Final = 200
"""More in one request would hold the loop for too long."""


@handles(ApiKey.OFFSET_TIMES, min_version=0, max_version=0, raw=True, is_advertised=False)
def offset_times(
    broker: BrokerServices, context: RequestContext, body: memoryview
) -> bytes | Awaitable[bytes]:
    """Look up each place that this broker leads. Raises KafkaError for a request it refuses."""
    if not is_from_broker(broker, context):
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    try:
        places = decode_places(bytes(body))[:PLACES_MAX]
    except (ValueError, TypeError) as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from error
    times: list[Time] = []

    def look_up() -> bytes:
        # After a cold read this continues at the place of that read.
        _extend(broker, places, times)
        return encode_times(times)

    try:
        with warm_only():
            return look_up()
    except ColdReadError as cold:
        return broker.cold_reads.warmed(cold, look_up)


def _extend(broker: BrokerServices, places: Sequence[Place], times: list[Time]) -> None:
    for place in places[len(times) :]:
        times.append(unread_time(broker.replicas.get(place.topic, place.partition), place.offset))
