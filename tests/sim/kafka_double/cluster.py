"""The state of a simulated cluster: topics, leaders, fetch sessions, and what it refuses."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from local_cluster.client.model import TopicPartition
from local_cluster.fetch_sessions.session_cache import FetchSessionCache
from local_cluster.records.batch import Record
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.kafka_double.log import SimPartition

Refuse = Callable[[TopicPartition, BatchHeader], ErrorCode | None]
"""Return the error with which the cluster refuses a produced batch, or None to append it."""


@dataclass
class SimTopic:
    """One incarnation of a topic."""

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
        self.tracks_leader_epochs = False
        """Whether a moved leader has another epoch, which metadata and fetches name."""
        self.views: dict[tuple[TopicPartition, int], SimPartition] = {}
        """What a broker that is no longer the leader, or not yet up to date, serves instead."""
        self.published_leaders: dict[TopicPartition, tuple[int, int]] = {}
        """Leaders and epochs that metadata still names after an election."""
        self.fetches_by_topic_id = random.random() < 0.5
        """Whether its brokers know Fetch v13."""
        self.fetch_names_count = 0
        """Partitions named so far in fetches of sessions."""
        self.throttle_ms: Callable[[], int] = lambda: 0
        """Returns how long a quota throttles a fetch; above 0 its response is empty."""
        self.denied: set[str] = set()
        """Topics that the client may not read."""
        self.hidden: set[str] = set()
        """Topics that the client may neither describe nor write."""
        self.refuse: Refuse = lambda at, header: None
        """Checks every produced batch; a test sets it to refuse some."""
        self.refuse_records: Callable[[list[Record]], ErrorCode | None] = lambda records: None
        """The same by the records of a batch, for topics that are not internal."""

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

    def add_partition(self, name: str) -> TopicPartition:
        """Add a partition to a topic."""
        partitions = self.topics[name].partitions
        at = TopicPartition(name, len(partitions))
        partitions.append(SimPartition())
        self.leaders[at] = at.partition % self.brokers
        return at

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the name of the topic with this id."""
        for name, each in self.topics.items():
            if each.topic_id == topic_id:
                return name
        return None

    def fetch_sessions(self, node_id: int) -> FetchSessionCache:
        """Return the fetch sessions of one broker."""
        if node_id not in self._fetch_sessions:
            ids = itertools.count(1)
            self._fetch_sessions[node_id] = FetchSessionCache(
                lambda: next(ids), slots_max=self.fetch_session_slots
            )
        return self._fetch_sessions[node_id]

    def lose_fetch_sessions(self) -> None:
        """Let every broker forget its fetch sessions, as after a restart."""
        for sessions in self._fetch_sessions.values():
            sessions.close()

    def partition(self, at: TopicPartition) -> SimPartition:
        return self.topics[at.topic].partitions[at.partition]

    def has(self, at: TopicPartition) -> bool:
        """Return whether a partition exists."""
        return at.topic in self.topics and at.partition < len(self.topics[at.topic].partitions)

    def move_leader(self, at: TopicPartition) -> None:
        self.leaders[at] = (self.leaders[at] + 1) % self.brokers
        if self.tracks_leader_epochs:
            self.partition(at).leader_epoch += 1

    def leader_and_epoch(self, at: TopicPartition) -> tuple[int, int]:
        """Return what metadata says."""
        epoch = self.partition(at).leader_epoch if self.tracks_leader_epochs else 0
        return self.published_leaders.get(at, (self.leaders[at], epoch))

    def cut_off_leader(self, at: TopicPartition) -> None:
        """Elect another leader. The old one does not learn of it, nor does metadata."""
        old = self.leaders[at]
        self.published_leaders[at] = self.leader_and_epoch(at)
        self.views[at, old] = self.partition(at).snapshot()
        self.move_leader(at)

    def publish_election(self, at: TopicPartition) -> None:
        """Let metadata name the new leader; the old one stays cut off."""
        self.published_leaders.pop(at, None)

    def reconnect(self, at: TopicPartition) -> None:
        """Let every broker know the leader and its log."""
        self.published_leaders.pop(at, None)
        self.views = {key: view for key, view in self.views.items() if key[0] != at}

    def move_to_lagging_leader(self, at: TopicPartition) -> None:
        """Elect a leader whose high watermark is not yet up to date, see KIP-207."""
        self.move_leader(at)
        view = self.partition(at).snapshot()
        view.lose_high_watermark(self.random)
        self.views[at, self.leaders[at]] = view

    def find(self, at: TopicPartition, node_id: int) -> SimPartition:
        """Return the partition that this broker leads. Raises KafkaError as the broker would."""
        topic = self.topics.get(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.unknown_topic_or_partition, str(at))
        if (at, node_id) in self.views:
            return self.views[at, node_id]
        if self.leaders[at] != node_id:
            raise KafkaError(ErrorCode.not_leader_or_follower, str(at))
        return topic.partitions[at.partition]
