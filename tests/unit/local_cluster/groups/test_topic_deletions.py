"""Positions of topics that were deleted: when it is known that they mean nothing any more."""

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
ANEW = replace(T, topic_id=uuid.UUID(int=7))
NONE: frozenset[str] = frozenset()
GONE = frozenset({"t"})
NOW = Now(1, 1)


class Broker:
    """Hears states of the cluster as the controller sends them: those between two are skipped."""

    def __init__(self) -> None:
        self.deletions = TopicDeletions()
        self._cache = MetadataCache()
        self._cache.broker_epoch = ME
        self._heard: ClusterImage | None = None
        self._sequence = 0

    def hears(
        self,
        *topics: TopicState,
        term: int = 1,
        deletes: Sequence[TopicState] = (),
        is_whole: bool = True,
        in_full: bool = False,
    ) -> frozenset[str]:
        """The topics whose positions go."""
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
        base = None if in_full else self._heard
        changes = self._cache.apply(difference(base, image, ME))
        self._heard = image
        return self.deletions.apply(changes, self._cache.topics, is_whole=self._cache.is_whole)


def test_the_first_state_says_nothing_of_what_was_before() -> None:
    assert Broker().hears(T) == NONE


def test_a_delete_record_is_enough() -> None:
    broker = Broker()
    broker.hears(T, is_whole=False)
    assert broker.hears(deletes=[T], is_whole=False) == GONE
    assert broker.deletions.absent == GONE


def test_a_delete_record_that_comes_again_takes_nothing_from_the_new_topic() -> None:
    broker = Broker()
    broker.hears(T)
    broker.hears(deletes=[T])
    assert broker.hears(ANEW) == NONE
    assert broker.deletions.absent == NONE
    assert broker.hears(ANEW, deletes=[T], in_full=True) == NONE


@pytest.mark.parametrize("in_full", [False, True])
@pytest.mark.parametrize("term", [1, 2])
@pytest.mark.parametrize("is_whole", [False, True])
def test_another_id_under_the_name_is_enough(in_full: bool, term: int, is_whole: bool) -> None:
    broker = Broker()
    broker.hears(T)
    assert broker.hears(ANEW, in_full=in_full, term=term, is_whole=is_whole) == GONE
    assert broker.hears(ANEW, in_full=True, term=term) == NONE
    assert broker.deletions.absent == NONE


@pytest.mark.parametrize("in_full", [False, True])
def test_what_a_controller_that_vouches_does_not_name_any_more_was_deleted(in_full: bool) -> None:
    broker = Broker()
    broker.hears(T)
    assert broker.hears(in_full=in_full) == GONE
    assert broker.deletions.absent == GONE
    assert broker.hears(ANEW) == NONE


@pytest.mark.parametrize(("term", "is_whole"), [(1, False), (2, True), (2, False)])
def test_a_topic_that_is_merely_missing_keeps_its_positions(term: int, is_whole: bool) -> None:
    broker = Broker()
    broker.hears(T)
    assert broker.hears(term=term, is_whole=is_whole) == NONE
    assert broker.deletions.absent == NONE
    assert broker.hears(T, term=term) == NONE


@pytest.mark.parametrize(("term", "is_whole"), [(1, False), (2, True)])
def test_its_id_is_remembered_while_it_is_missing(term: int, is_whole: bool) -> None:
    broker = Broker()
    broker.hears(T)
    broker.hears(term=term, is_whole=is_whole)
    assert broker.hears(ANEW, term=term) == GONE


def test_a_delete_record_may_come_after_it_was_missing() -> None:
    broker = Broker()
    broker.hears(T)
    broker.hears(is_whole=False)
    assert broker.hears(deletes=[T], is_whole=False) == GONE
    assert broker.hears(ANEW) == NONE


def test_what_is_remembered_of_absent_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_deletions, "ABSENT_TOPICS_MAX", 2)
    many = [topic(name, partition(0, 1)) for name in "abcd"]
    broker = Broker()
    broker.hears(*many)
    assert broker.hears() == frozenset("abcd")
    assert len(broker.deletions.absent) == 2
    broker.hears(*many)
    broker.hears(term=2)
    again = [replace(each, topic_id=uuid.uuid4()) for each in many]
    assert len(broker.hears(*again, term=2)) == 2


def test_positions_in_open_transactions_go_as_well_and_a_replay_says_the_same() -> None:
    shard = GroupShard(GroupLimits())
    offsets = tuple(OffsetToCommit(name, 0, 5, 0, None) for name in ("t", "kept"))
    committed = shard.commit_offsets(1, CommitRequest("g", "", None, -1, offsets), NOW)
    pending = shard.commit_transactional(
        2, TransactionalCommitRequest("x", "", None, -1, 9, 0, offsets), NOW
    )
    deleted = shard.delete_topics(GONE)
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
        # Twice is as good as once.
        assert not each.delete_topics(GONE).records
