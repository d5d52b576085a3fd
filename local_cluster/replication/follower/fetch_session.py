"""A follower's fetch session with one leader (KIP-227), and the requests in it. Pure.

The first request names every replica that is followed. Later ones name the replicas that are new
or whose position differs from the one named last, and those to forget. The leader responds with
what changed. After any failure, and after this broker registered again, the session starts over:
the leader counts a replica only in the broker epoch that it fetched in (KIP-903), so an idle
replica would never be in sync again.

`client/fetch_session.py` shares only the epoch arithmetic (wire/fetch/). There the session keeps
what is wanted, uses names or ids, and keeps high watermarks. Here the caller passes what is wanted
with each request, by topic id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.replication.follower.apply_response import Position
from local_cluster.settings import BrokerSettings
from local_cluster.wire.fetch import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchRequest,
    ForgottenPartition,
    encode_request,
    next_session_epoch,
)

FETCH_VERSION: Final = 17
PARTITION_BYTES_MAX: Final = 1024 * 1024
"""Kafka's default of replica.fetch.max.bytes."""
RESPONSE_BYTES_MAX: Final = 10 * 1024 * 1024
"""Kafka's default of replica.fetch.response.max.bytes."""
WAIT_MS_MAX: Final = 500
"""Kafka's default of replica.fetch.wait.max.ms."""
_BYTES_MIN: Final = 1

_Key = tuple[int, int]
"""Topic id, as a number that hashes faster than a UUID, and partition."""
_Entry = TypeVar("_Entry", FetchPartition, ForgottenPartition)


class TopicIdPartition(Protocol):
    """A replica, as requests name it."""

    @property
    def topic_id(self) -> uuid.UUID: ...
    @property
    def partition(self) -> int: ...


Replica = TypeVar("Replica", bound=TopicIdPartition)


class FollowerFetchSession(Generic[Replica]):
    """The session of this broker with one leader."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        """The epoch of the next request."""
        self.broker_epoch = NO_EPOCH
        """The broker epoch that the session started in."""
        self._named: dict[_Key, tuple[Replica, Position]] = {}
        """What the leader knows."""
        self._forgotten: dict[_Key, Replica] = {}
        """What the leader knows and has to forget."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names everything."""
        return self.epoch == INITIAL_EPOCH

    def start_over(self) -> None:
        """Name everything in the next request. Its id lets the leader end this session."""
        self.epoch = INITIAL_EPOCH
        self._named.clear()
        self._forgotten.clear()

    def set_broker_epoch(self, broker_epoch: int) -> None:
        """Start over if this broker has registered again."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.start_over()

    def drop(self, replica: Replica) -> None:
        """Forget a replica. If it is fetched for later, it is named again."""
        key = _key(replica)
        known = self._named.get(key)
        if known is not None and known[0] is replica:
            del self._named[key]
            self._forgotten[key] = replica

    def name(
        self, wanted: Mapping[Replica, Position]
    ) -> tuple[dict[Replica, Position], list[tuple[uuid.UUID, int]]]:
        """Return what the next request names of the wanted replicas, and (topic id, partition)
        of what it forgets. From then on they count as named."""
        named: dict[Replica, Position] = {}
        if self.is_full:
            # The leader may have responded without a session: it knows nothing.
            self._named.clear()
            self._forgotten.clear()
        for replica, position in wanted.items():
            key = _key(replica)
            if self._named.get(key) != (replica, position):
                named[replica] = position
                self._named[key] = (replica, position)
                self._forgotten.pop(key, None)
        forgotten = [(each.topic_id, each.partition) for each in self._forgotten.values()]
        self._forgotten.clear()
        return named, forgotten

    def record_response(self, session_id: int) -> None:
        """Record a response. Without a session the next request is a full one too."""
        if session_id == NO_SESSION:
            self.id = NO_SESSION
            self.epoch = INITIAL_EPOCH
            return
        self.id = session_id
        self.epoch = next_session_epoch(self.epoch)

    def find(self, topic_id: uuid.UUID | None, index: int) -> tuple[Replica, Position] | None:
        """Return the replica of a response and its position in the request, None if dropped."""
        return None if topic_id is None else self._named.get((topic_id.int, index))


def encode_fetch(
    settings: BrokerSettings,
    session: FollowerFetchSession[Replica],
    wanted: Mapping[Replica, Position],
) -> bytes:
    """Return the body of the next request, and count the wanted replicas as named."""
    named, forgotten = session.name(wanted)
    bytes_max = settings.config_int("replica.fetch.max.bytes", PARTITION_BYTES_MAX)
    request = FetchRequest(
        settings.broker_id,
        settings.config_int("replica.fetch.wait.max.ms", WAIT_MS_MAX),
        _BYTES_MIN,
        settings.config_int("replica.fetch.response.max.bytes", RESPONSE_BYTES_MAX),
        0,
        session.id,
        session.epoch,
        _by_topic(
            FetchPartition(
                "",
                replica.partition,
                position.leader_epoch,
                position.fetch_offset,
                position.last_fetched_epoch,
                position.log_start_offset,
                bytes_max,
                replica.topic_id,
            )
            for replica, position in named.items()
        ),
        _by_topic(ForgottenPartition("", partition, topic_id) for topic_id, partition in forgotten),
        "",
        session.broker_epoch,
    )
    return encode_request(FETCH_VERSION, request)


def _key(replica: TopicIdPartition) -> _Key:
    return (replica.topic_id.int, replica.partition)


def _by_topic(entries: Iterable[_Entry]) -> list[_Entry]:
    """Sort entries so that those of one topic are adjacent, as requests have them."""
    return sorted(entries, key=_topic_number)


def _topic_number(entry: FetchPartition | ForgottenPartition) -> int:
    return 0 if entry.topic_id is None else entry.topic_id.int
