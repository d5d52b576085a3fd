"""The Fetch that a follower sends its leader, within their session. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from local_cluster.replication.follower.apply_response import Position
from local_cluster.replication.follower.fetch_session import FollowerFetchSession
from local_cluster.replication.partition import Partition
from local_cluster.settings import BrokerSettings
from local_cluster.wire import fetch as codec

FETCH_VERSION: Final = 17
PARTITION_BYTES_MAX: Final = 1024 * 1024
"""Kafka's default of replica.fetch.max.bytes."""
RESPONSE_BYTES_MAX: Final = 10 * 1024 * 1024
"""Kafka's default of replica.fetch.response.max.bytes."""
WAIT_MS_MAX: Final = 500
"""Kafka's default of replica.fetch.wait.max.ms."""

_Entry = TypeVar("_Entry", codec.FetchPartition, codec.ForgottenPartition)


def encode_follower_request(
    settings: BrokerSettings, session: FollowerFetchSession, due: Mapping[Partition, Position]
) -> bytes:
    """The body of a request for what is due; the session holds it for named from now on."""
    asked, forgotten = session.name(due)
    bytes_max = settings.config_int("replica.fetch.max.bytes", PARTITION_BYTES_MAX)
    request = codec.FetchRequest(
        settings.broker_id,
        settings.config_int("replica.fetch.wait.max.ms", WAIT_MS_MAX),
        1,
        settings.config_int("replica.fetch.response.max.bytes", RESPONSE_BYTES_MAX),
        0,
        session.id,
        session.epoch,
        _by_topic(
            codec.FetchPartition(
                "",
                partition.partition,
                position.leader_epoch,
                position.fetch_offset,
                position.last_fetched_epoch,
                position.log_start_offset,
                bytes_max,
                partition.topic_id,
            )
            for partition, position in asked.items()
        ),
        _by_topic(
            codec.ForgottenPartition("", partition, topic_id) for topic_id, partition in forgotten
        ),
        "",
        session.broker_epoch,
    )
    return codec.encode_request(FETCH_VERSION, request)


def _by_topic(entries: Iterable[_Entry]) -> list[_Entry]:
    """Those of one topic adjacent, as requests have them."""
    return sorted(entries, key=_topic_number)


def _topic_number(entry: codec.FetchPartition | codec.ForgottenPartition) -> int:
    return 0 if entry.topic_id is None else entry.topic_id.int
