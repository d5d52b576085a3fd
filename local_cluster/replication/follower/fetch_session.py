"""A follower's side of its fetch session with one leader (KIP-227): what has to be named. Pure.

The first request names everything that is followed; the later ones name what is new or is to be
fetched from somewhere else than was said last, and what is to be forgotten. The leader answers
what it has news of. After any trouble, and when this broker registered anew, all is named again:
the leader counts a replica only in the run of the broker that it heard it from (KIP-903), so
what is at rest would else never be in sync again.

It has only the arithmetic of epochs (wire/fetch.py) in common with client/fetch_session.py: here
the caller says with every request what is wanted, by topic id, and there the session itself
remembers that, speaks by name or by id, and keeps high watermarks.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.replication.follower.apply_response import Position
from local_cluster.replication.partition import Partition
from local_cluster.wire.fetch import INITIAL_EPOCH, NO_SESSION, next_session_epoch

_Key = tuple[int, int]
"""Topic id, as a number that hashes faster than a UUID, and partition."""


class FollowerFetchSession:
    """Of this broker with one other."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        """Of the next request."""
        self.broker_epoch = NO_EPOCH
        """The registration that it was begun in."""
        self._named: dict[_Key, tuple[Partition, Position]] = {}
        """What the leader knows."""
        self._forgotten: dict[_Key, Partition] = {}
        """What it knows and is to forget."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names everything."""
        return self.epoch == INITIAL_EPOCH

    def begin_anew(self) -> None:
        """Name everything next time; the id goes along, so that the leader ends that session."""
        self.epoch = INITIAL_EPOCH
        self._named.clear()
        self._forgotten.clear()

    def registered_as(self, broker_epoch: int) -> None:
        """The present registration of this broker: another one is another session."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.begin_anew()

    def drop(self, partition: Partition) -> None:
        """Fetch it no more, or name it again before it is fetched."""
        key = _key(partition)
        known = self._named.get(key)
        if known is not None and known[0] is partition:
            del self._named[key]
            self._forgotten[key] = partition

    def name(
        self, wanted: Mapping[Partition, Position]
    ) -> tuple[dict[Partition, Position], list[tuple[uuid.UUID, int]]]:
        """What the next request names of the wanted partitions, and what it has forgotten (topic
        ids and partitions)."""
        asked = {}
        if self.is_full:
            # The leader may have answered without a session: it knows nothing.
            self._named.clear()
            self._forgotten.clear()
        for partition, position in wanted.items():
            key = _key(partition)
            if self._named.get(key) != (partition, position):
                asked[partition] = position
                self._named[key] = (partition, position)
                self._forgotten.pop(key, None)
        forgotten = [(gone.topic_id, gone.partition) for gone in self._forgotten.values()]
        self._forgotten.clear()
        return asked, forgotten

    def answered(self, session_id: int) -> None:
        """An answer came; without a session the next request is a full one as well."""
        if session_id == NO_SESSION:
            self.id = NO_SESSION
            self.epoch = INITIAL_EPOCH
            return
        self.id = session_id
        self.epoch = next_session_epoch(self.epoch)

    def find(self, topic_id: uuid.UUID | None, index: int) -> tuple[Partition, Position] | None:
        """Who an answer is for, and what it was asked at; None where that is no longer wanted."""
        return None if topic_id is None else self._named.get((topic_id.int, index))


def _key(partition: Partition) -> _Key:
    return (partition.topic_id.int, partition.partition)
