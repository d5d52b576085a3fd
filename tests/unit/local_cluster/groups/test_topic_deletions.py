"""Which changes of the metadata delete the committed offsets of a topic."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from local_cluster.controller.model.cluster_image import ClusterImage, TopicState, difference
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.coordinator_runtime.outcome import Now
from local_cluster.groups import topic_deletions
from local_cluster.groups.requests import (
    CommitRequest,
    GroupLimits,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.groups.topic_deletions import TopicDeletions
from tests.unit.local_cluster.controller.samples import brokers, partition, topic

ME = 55
T = topic("t", partition(0, 1))
RE_CREATED = replace(T, topic_id=uuid.UUID(int=7))
NONE: frozenset[str] = frozenset()
DELETED = frozenset({"t"})
NOW = Now(1, 1)


class Broker:
    """A broker that receives states of the cluster from the controller, and may miss some."""

    def __init__(self) -> None:
        self.deletions = TopicDeletions()
        self._cache = MetadataCache()
        self._cache.broker_epoch = ME
        self._received: ClusterImage | None = None
        self._sequence = 0

    def receives(
        self,
        *topics: TopicState,
        term: int = 1,
        deletes: Sequence[TopicState] = (),
        is_whole: bool = True,
        in_full: bool = False,
    ) -> frozenset[str]:
        """Apply a state and return the topics whose offsets go."""
        self._sequence += 1
        image = ClusterImage(
            1,
            term,
            self._sequence,
            brokers(1),
            {each.name: each for each in topics},
            {each.name: each.topic_id for each in deletes},
            is_whole=is_whole,
        )
        base = None if in_full else self._received
        changes = self._cache.apply(difference(base, image, ME))
        self._received = image
        return self.deletions.apply(changes, self._cache.topics, is_whole=self._cache.is_whole)


def test_the_first_state_deletes_nothing() -> None:
    assert Broker().receives(T) == NONE


def test_a_deletion_record_suffices() -> None:
    broker = Broker()
    broker.receives(T, is_whole=False)
    assert broker.receives(deletes=[T], is_whole=False) == DELETED
    assert broker.deletions.absent == DELETED


def test_a_repeated_deletion_record_spares_the_new_topic() -> None:
    broker = Broker()
    broker.receives(T)
    broker.receives(deletes=[T])
    assert broker.receives(RE_CREATED) == NONE
    assert broker.deletions.absent == NONE
    assert broker.receives(RE_CREATED, deletes=[T], in_full=True) == NONE


@pytest.mark.parametrize("in_full", [False, True])
@pytest.mark.parametrize("term", [1, 2])
@pytest.mark.parametrize("is_whole", [False, True])
def test_another_topic_id_suffices(in_full: bool, term: int, is_whole: bool) -> None:
    broker = Broker()
    broker.receives(T)
    assert broker.receives(RE_CREATED, in_full=in_full, term=term, is_whole=is_whole) == DELETED
    assert broker.receives(RE_CREATED, in_full=True, term=term) == NONE
    assert broker.deletions.absent == NONE


@pytest.mark.parametrize("in_full", [False, True])
def test_absence_in_complete_metadata_is_a_deletion(in_full: bool) -> None:
    broker = Broker()
    broker.receives(T)
    assert broker.receives(in_full=in_full) == DELETED
    assert broker.deletions.absent == DELETED
    assert broker.receives(RE_CREATED) == NONE


@pytest.mark.parametrize(("term", "is_whole"), [(1, False), (2, True), (2, False)])
def test_a_missing_topic_keeps_its_offsets(term: int, is_whole: bool) -> None:
    broker = Broker()
    broker.receives(T)
    assert broker.receives(term=term, is_whole=is_whole) == NONE
    assert broker.deletions.absent == NONE
    assert broker.receives(T, term=term) == NONE


@pytest.mark.parametrize(("term", "is_whole"), [(1, False), (2, True)])
def test_the_id_of_a_missing_topic_is_remembered(term: int, is_whole: bool) -> None:
    broker = Broker()
    broker.receives(T)
    broker.receives(term=term, is_whole=is_whole)
    assert broker.receives(RE_CREATED, term=term) == DELETED


def test_a_deletion_record_may_follow_a_missing_topic() -> None:
    broker = Broker()
    broker.receives(T)
    broker.receives(is_whole=False)
    assert broker.receives(deletes=[T], is_whole=False) == DELETED
    assert broker.receives(RE_CREATED) == NONE


def test_remembered_absent_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_deletions, "ABSENT_TOPICS_MAX", 2)
    many = [topic(name, partition(0, 1)) for name in "abcd"]
    broker = Broker()
    broker.receives(*many)
    assert broker.receives() == frozenset("abcd")
    assert len(broker.deletions.absent) == 2
    broker.receives(*many)
    broker.receives(term=2)
    again = [replace(each, topic_id=uuid.uuid4()) for each in many]
    assert len(broker.receives(*again, term=2)) == 2


def test_pending_offsets_are_deleted_too_also_in_replay() -> None:
    shard = GroupShard(GroupLimits())
    offsets = tuple(OffsetToCommit(name, 0, 5, 0, None) for name in ("t", "kept"))
    committed = shard.commit_offsets(1, CommitRequest("g", "", None, -1, offsets), NOW)
    pending = shard.commit_transactional(
        2, TransactionalCommitRequest("x", "", None, -1, 9, 0, offsets), NOW
    )
    deleted = shard.delete_topics(DELETED)
    assert [record.value for record in deleted.records] == [None, None]

    replayed = GroupShard(GroupLimits())
    for record in committed.records:
        replayed.replay(*record)
    for record in pending.records:
        replayed.replay_transactional(9, *record)
    for record in deleted.records:
        replayed.replay(*record)
    for each in (shard, replayed):
        each.end_transaction(9, is_commit=True)
        assert each.state.offsets.partitions("g") == [("kept", 0)]
        assert each.state.offsets.partitions("x") == [("kept", 0)]
        # The deletion is idempotent.
        assert not each.delete_topics(DELETED).records
