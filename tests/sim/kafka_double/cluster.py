"""The state of a simulated cluster: topics, leaders, fetch sessions, and what it refuses."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from local_cluster.client.model import TopicPartition
from local_cluster.fetch_sessions.session_cache import FetchSessionCache
from local_cluster.records import header as h
from local_cluster.records.batch import Record
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.kafka_double.log import SimPartition


@dataclass
class SimTopic:
    """A topic of one incarnation."""

    name: str
    topic_id: uuid.UUID
    partitions: list[SimPartition]
    configs: dict[str, str]


class SimCluster:
    """The state of one cluster of `brokers` brokers; partition leaders can be moved."""

    def __init__(self, name: str, random: Random, brokers: int = 2) -> None:
        self.name = name
        self.random = random
        self.brokers = brokers
        self.topics: dict[str, SimTopic] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.next_producer_id = 1000
        self.fetch_session_slots = 1_000
        self._fetch_sessions: dict[int, FetchSessionCache] = {}
        self.fetches_by_topic_id = random.random() < 0.5
        """Whether its brokers know Fetch v13."""
        self.fetch_names_count = 0
        """Partitions named in fetches of sessions so far."""
        self.throttle_ms: Callable[[], int] = lambda: 0
        """For how long a fetch is held back by a quota; above 0 its answer is empty."""
        self.denied: set[str] = set()
        """Topics that may not be read."""
        self.hidden: set[str] = set()
        """Topics that may not even be described, nor written."""
        self.refuse: Callable[[TopicPartition, h.BatchHeader], ErrorCode | None] = (
            lambda at, header: None
        )
        """A further check of every produced batch, for faults that a test wants."""
        self.refuse_records: Callable[[list[Record]], ErrorCode | None] = lambda records: None
        """The same by the records of a batch to a topic that is not internal."""

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> SimTopic:
        topic = SimTopic(
            name,
            uuid.UUID(int=self.random.getrandbits(128)),
            [SimPartition() for _ in range(partitions)],
            dict(configs or {}),
        )
        self.topics[name] = topic
        for index in range(partitions):
            self.leaders[TopicPartition(name, index)] = index % self.brokers
        return topic

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Of the topic that has this id now."""
        return next((name for name, each in self.topics.items() if each.topic_id == topic_id), None)

    def fetch_sessions(self, node_id: int) -> FetchSessionCache:
        """Those of one broker."""
        if node_id not in self._fetch_sessions:
            ids = itertools.count(1)
            self._fetch_sessions[node_id] = FetchSessionCache(
                lambda: next(ids), slots_max=self.fetch_session_slots
            )
        return self._fetch_sessions[node_id]

    def lose_fetch_sessions(self) -> None:
        """Every broker forgets its fetch sessions, as when it starts again."""
        for sessions in self._fetch_sessions.values():
            sessions.close()

    def partition(self, at: TopicPartition) -> SimPartition:
        return self.topics[at.topic].partitions[at.partition]

    def move_leader(self, at: TopicPartition) -> None:
        self.leaders[at] = (self.leaders[at] + 1) % self.brokers

    def find(self, at: TopicPartition, node_id: int) -> SimPartition:
        """The partition, asked of a broker. Raises KafkaError as that broker answers."""
        topic = self.topics.get(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.unknown_topic_or_partition, str(at))
        if self.leaders[at] != node_id:
            raise KafkaError(ErrorCode.not_leader_or_follower, str(at))
        return topic.partitions[at.partition]
