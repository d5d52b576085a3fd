"""Reads the copies of a link with one fetch session per broker, without waiting there. Shell."""

from __future__ import annotations

from typing import Final

from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from mirror_maker.clusters.partition_log import LeaderOf
from mirror_maker.ports import DataSource

FETCH_BYTES_MAX: Final = 1024 * 1024
PARTITION_BYTES_MAX: Final = 256 * 1024
"""One partition at once: a millisecond of work or less."""


class CopyReader:
    """The wanted positions of copies, at the brokers that lead them."""

    def __init__(self, reader: DataSource, leader_of: LeaderOf) -> None:
        self._reader = reader
        self._leader_of = leader_of
        self._brokers: dict[TopicPartition, int] = {}
        """The broker whose session reads a copy."""
        self._sessions: dict[int, FetchSession] = {}

    @property
    def brokers(self) -> set[int]:
        return set(self._brokers.values())

    def want(self, copy: TopicPartition, position: int | None) -> None:
        """Read a copy from a position on, where it is led now; None: do not read it now."""
        leader = self._leader_of(copy)
        before = self._brokers.get(copy)
        if before is not None and before != leader:
            self.leave(copy)
        if leader is None:
            return
        if position is None:
            self.leave(copy)
            return
        wanted = FetchPosition(position)
        session = self._session(leader)
        if session.wanted.get(copy) != wanted:
            session.add(copy, wanted)
        self._brokers[copy] = leader

    def leave(self, copy: TopicPartition) -> None:
        """Do not read a copy any more."""
        broker = self._brokers.pop(copy, None)
        if broker is not None:
            self._session(broker).remove(copy)

    def forget_all(self) -> None:
        """Start over with new sessions."""
        self._brokers.clear()
        self._sessions.clear()

    def lose_broker(self, node_id: int) -> list[TopicPartition]:
        """Forget a broker that does not answer; return the copies that it led."""
        del self._sessions[node_id]
        lost = [copy for copy, broker in self._brokers.items() if broker == node_id]
        for copy in lost:
            del self._brokers[copy]
        return lost

    def high_watermark(self, copy: TopicPartition) -> int | None:
        """Return the copy's end, as its session knows it."""
        broker = self._brokers.get(copy)
        return None if broker is None else self._session(broker).high_watermark(copy)

    def position(self, copy: TopicPartition) -> int:
        """Return the position from which a copy was fetched last."""
        return self._session(self._brokers[copy]).wanted[copy].offset

    async def fetch(self, node_id: int) -> dict[TopicPartition, FetchedPartition]:
        """Return what a broker has of its copies. Raises KafkaError."""
        answer = await self._reader.fetch_in_session(
            node_id,
            self._session(node_id),
            wait_ms_max=0,
            bytes_max=FETCH_BYTES_MAX,
            partition_bytes_max=PARTITION_BYTES_MAX,
        )
        return dict(answer.partitions)

    def _session(self, node_id: int) -> FetchSession:
        if node_id not in self._sessions:
            self._sessions[node_id] = FetchSession()
        return self._sessions[node_id]
