"""Logs of deleted topics: when they are set aside, when not, and how they come back."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    PartitionState,
    TopicState,
    difference,
)
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.directory.log_directories import LogDirectories
from local_cluster.log.disk.files import OsFiles
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.replication.stray_replicas import StrayReplicas
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.wire.errors import KafkaError
from tests.unit.local_cluster.log.directory.log_directories import StandingClock
from tests.unit.local_cluster.log.samples import append, batch, offsets_of

OLD, NEW, OTHER = (uuid.UUID(int=number) for number in (1, 2, 3))
STRAY = f"t-0.{OLD.hex}-stray"


def topic(name: str, topic_id: uuid.UUID, *replicas: int, leader: int = 1) -> TopicState:
    partitions = {0: PartitionState(0, replicas, leader, 0, replicas, 0)}
    return TopicState(name, topic_id, partitions, {})


HERE = topic("here", OTHER, 1, 2)


class Broker:
    """Broker 1 over one log directory, and the metadata that it gets."""

    def __init__(self, root: Path) -> None:
        self.directories = LogDirectories([root], OsFiles(), broker_id=1, clock=StandingClock())
        self.directories.open(cluster_id="c")
        self.cache = MetadataCache()
        self.is_connected = True
        self.replicas = ReplicaSet(
            broker_id=1,
            broker_config={},
            directories=self.directories,
            cache=self.cache,
            flusher_of=lambda _: None,
            clock=StandingClock(),
            throttle=ReplicationThrottle(1, {}, lambda: 0),
        )
        self.strays = StrayReplicas(
            self.directories,
            self.cache,
            set_aside=lambda log: self.replicas.set_aside(log, "its topic does not exist"),
            is_connected=lambda: self.is_connected,
        )
        self._sequence = 0

    def apply(self, *topics: TopicState, term: int = 1, is_whole: bool = True) -> None:
        self._sequence += 1
        image = ClusterImage(
            2,
            term,
            self._sequence,
            {n: BrokerEndpoints(n, None, {"P": ("h", n)}) for n in (1, 2)},
            {each.name: each for each in topics},
            {},
            is_whole=is_whole,
        )
        changes = self.cache.apply(difference(None, image, -1))
        self.replicas.apply(changes)
        self.strays.apply(changes)

    def close(self) -> None:
        for directory in self.directories.all:
            directory.close(clean=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The log directory of a broker with replicas of t, which has three records, and of here."""
    before = Broker(tmp_path)
    before.strays.directories_bound()
    before.apply(topic("t", OLD, 1), HERE)
    append(before.replicas.get_leader("t", 0).log, batch(3))
    before.close()
    return tmp_path


def held(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir()}


def started(root: Path) -> Broker:
    broker = Broker(root)
    broker.strays.directories_bound()
    return broker


def test_the_log_of_a_deleted_topic_is_set_aside(root: Path) -> None:
    broker = started(root)
    broker.apply(HERE)
    assert held(root) == {STRAY, "here-0"}
    broker.close()
    again = started(root)
    again.apply(HERE)
    assert held(root) == {STRAY, "here-0"}, "a start neither deletes it nor serves it"
    again.close()


def test_a_recreated_topic_is_served_and_the_old_log_set_aside(root: Path) -> None:
    broker = started(root)
    broker.apply(topic("t", NEW, 1, 2), HERE)
    assert held(root) == {STRAY, "t-0", "here-0"}
    assert broker.replicas.report().offline == frozenset()
    log = broker.replicas.get_leader("t", 0).log
    assert (log.topic_id, log.log_end_offset) == (NEW, 0)
    broker.close()


def test_a_topic_recreated_within_a_controller_epoch_is_served(root: Path) -> None:
    broker = started(root)
    broker.apply(topic("t", OLD, 1), HERE, is_whole=False)
    broker.apply(HERE, is_whole=False)
    broker.apply(topic("t", NEW, 1, 2), HERE, is_whole=False)
    assert held(root) == {STRAY, "t-0", "here-0"}
    assert broker.replicas.report().offline == frozenset()
    log = broker.replicas.get_leader("t", 0).log
    assert (log.topic_id, log.log_end_offset) == (NEW, 0)
    broker.close()


def test_a_topic_recreated_on_other_brokers_leaves_only_the_stray(root: Path) -> None:
    broker = started(root)
    broker.apply(topic("t", NEW, 2, leader=2), HERE)
    assert held(root) == {STRAY, "here-0"}
    broker.close()


def test_a_stray_that_is_assigned_again_comes_back_with_its_records(root: Path) -> None:
    broker = started(root)
    broker.apply(HERE)
    broker.apply(topic("t", OLD, 1, 2), HERE)
    assert held(root) == {"t-0", "here-0"}
    assert offsets_of(broker.replicas.get_leader("t", 0).log) == [0, 1, 2]
    broker.close()


def test_a_stray_that_is_assigned_again_comes_back_after_a_start(root: Path) -> None:
    broker = started(root)
    broker.apply(HERE)
    broker.close()
    again = started(root)
    again.apply(topic("t", OLD, 1, 2), HERE)
    assert held(root) == {"t-0", "here-0"}
    assert offsets_of(again.replicas.get_leader("t", 0).log) == [0, 1, 2]
    again.close()


def test_nothing_is_set_aside_by_incomplete_metadata(root: Path) -> None:
    broker = started(root)
    broker.apply(HERE, is_whole=False)
    assert held(root) == {"t-0", "here-0"}
    broker.apply(HERE, is_whole=True)
    assert held(root) == {STRAY, "here-0"}, "the controller vouches for all topics"
    broker.close()


def test_nothing_is_set_aside_within_a_controller_epoch(root: Path) -> None:
    broker = started(root)
    broker.apply(topic("t", OLD, 1), HERE)
    broker.apply(HERE)
    assert held(root) == {"t-0", "here-0"}, "a missing topic is no deletion"
    with pytest.raises(KafkaError):
        broker.replicas.get_leader("t", 0)
    broker.apply(HERE, term=2)
    assert held(root) == {STRAY, "here-0"}
    assert broker.replicas.get("t", 0) is None
    broker.close()


def test_nothing_is_set_aside_while_zookeeper_does_not_answer(root: Path) -> None:
    broker = started(root)
    broker.is_connected = False
    broker.apply(HERE)
    assert held(root) == {"t-0", "here-0"}
    broker.is_connected = True
    broker.apply(HERE)
    assert held(root) == {STRAY, "here-0"}
    broker.close()


def test_nothing_is_set_aside_before_the_directories_belong_to_the_cluster(root: Path) -> None:
    broker = Broker(root)
    broker.apply(HERE)
    assert held(root) == {"t-0", "here-0"}
    broker.strays.directories_bound()
    assert held(root) == {STRAY, "here-0"}
    broker.close()


def test_a_cluster_without_any_topic_is_no_evidence(root: Path) -> None:
    broker = started(root)
    broker.apply()
    assert held(root) == {"t-0", "here-0"}
    broker.close()


def test_a_partition_that_its_topic_lacks_is_kept(root: Path) -> None:
    broker = started(root)
    broker.apply(TopicState("t", OLD, {}, {}), HERE)
    assert held(root) == {"t-0", "here-0"}
    broker.close()
