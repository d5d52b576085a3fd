"""The metadata cache: applied and refused deltas, and the changes that it returns."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping

import pytest

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    TopicState,
    difference,
)
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import broker, brokers, partition, topic, topic_id

ME = 55


def image(
    sequence: int = 1,
    *topics: TopicState,
    epoch: int = 1,
    live: Mapping[int, BrokerEndpoints] | None = None,
    deletions: Mapping[str, uuid.UUID] | None = None,
) -> ClusterImage:
    return ClusterImage(
        1,
        epoch,
        sequence,
        brokers(1) if live is None else live,
        {each.name: each for each in topics},
        deletions or {},
    )


def registered() -> MetadataCache:
    cache = MetadataCache()
    cache.broker_epoch = ME
    return cache


def take(cache: MetadataCache, base: ClusterImage | None, to: ClusterImage) -> Changes:
    return cache.apply(difference(base, to, ME))


def test_a_full_image_fills_the_cache() -> None:
    cache = registered()
    a = topic("a", partition(0, 1))
    changes = take(cache, None, image(1, a))
    assert changes == Changes(topics=("a",), brokers=True, controller=True, is_first_of_term=True)
    assert cache.topics == {"a": a}
    assert cache.topic_by_id(a.topic_id) is a
    assert cache.partition("a", 0) == partition(0, 1)
    assert cache.partition("a", 1) is None
    assert cache.partition("b", 0) is None
    assert (cache.controller_id, cache.controller_epoch) == (1, 1)


def test_the_first_image_of_each_term_is_marked() -> None:
    cache = registered()
    a = topic("a", partition(0, 1))
    first = image(1, a)
    assert take(cache, None, first).is_first_of_term
    told = [cache.is_whole]
    assert not take(cache, first, image(2, a)).is_first_of_term
    assert not take(cache, None, image(3, a)).is_first_of_term
    other = dataclasses.replace(image(1, a, epoch=2), is_whole=True)
    assert take(cache, None, other) == Changes(is_first_of_term=True)
    told.append(cache.is_whole)
    assert not take(cache, other, image(2, a, epoch=2))
    assert [*told, cache.is_whole] == [False, True, False]


def test_a_difference_has_only_changed_values() -> None:
    cache = registered()
    a, b, c = (topic(name, partition(0, 1)) for name in "abc")
    first = image(1, a, b)
    take(cache, None, first)
    moved = topic("b", partition(0, 1, leader=-1, epoch=1))
    second = image(2, a, moved, c)
    changes = take(cache, first, second)
    assert changes == Changes(topics=("b", "c"))
    assert cache.topics == second.topics


def test_controllers_of_earlier_epochs_are_refused() -> None:
    cache = registered()
    a = topic("a", partition(0, 1))
    first = image(7, a, epoch=3)
    take(cache, None, first)
    cache.observe_controller_epoch(2)
    assert cache.controller_epoch == 3
    cache.observe_controller_epoch(4)
    for base in (None, first):
        with pytest.raises(KafkaError) as refused:
            take(cache, base, image(8, epoch=3))
        assert refused.value.code is ErrorCode.stale_controller_epoch
    # A difference of the new term, from an image with the sequence of the old one.
    base = image(7, a, epoch=4)
    with pytest.raises(KafkaError) as refused:
        take(cache, base, image(8, epoch=4))
    assert refused.value.code is ErrorCode.invalid_update_version
    assert cache.topics == {"a": a}
    take(cache, None, image(1, epoch=4))
    assert not cache.topics


def test_a_missing_topic_is_removed_not_deleted() -> None:
    cache = registered()
    first = image(1, topic("a", partition(0, 1)))
    take(cache, None, first)
    changes = take(cache, first, image(2))
    assert changes == Changes(removed=("a",))
    assert cache.topic_by_id(topic_id("a")) is None


def test_a_full_image_without_the_topic_removes_it_too() -> None:
    cache = registered()
    take(cache, None, image(1, topic("a", partition(0, 1))))
    assert take(cache, None, image(2)) == Changes(removed=("a",))


def test_a_delete_record_makes_it_deleted() -> None:
    cache = registered()
    first = image(1, topic("a", partition(0, 1)))
    take(cache, None, first)
    changes = take(cache, first, image(2, deletions={"a": topic_id("a")}))
    assert changes.deleted == {"a": topic_id("a")}
    assert changes.removed == ()


def test_a_full_image_has_the_deletions() -> None:
    changes = take(registered(), None, image(7, deletions={"old": topic_id("old")}))
    assert changes.deleted == {"old": topic_id("old")}


def test_changes_without_a_change_are_false() -> None:
    cache = registered()
    first = image(1, topic("a", partition(0, 1)))
    take(cache, None, first)
    assert not take(cache, first, image(2, topic("a", partition(0, 1))))
    assert not take(cache, None, image(3, topic("a", partition(0, 1))))


def test_brokers_come_and_go() -> None:
    cache = registered()
    first = image(1, live=brokers(1, 2))
    take(cache, None, first)
    moved = {1: broker(1), 3: broker(3)}
    assert take(cache, first, image(2, live=moved)) == Changes(brokers=True)
    assert cache.brokers == moved


def refused(
    cache: MetadataCache, base: ClusterImage | None, to: ClusterImage, me: int
) -> ErrorCode:
    before = (dict(cache.topics), dict(cache.brokers), cache.controller_epoch)
    with pytest.raises(KafkaError) as refusal:
        cache.apply(difference(base, to, me))
    assert (dict(cache.topics), dict(cache.brokers), cache.controller_epoch) == before
    return refusal.value.code


def test_a_deposed_controller_is_refused() -> None:
    cache = registered()
    take(cache, None, image(1, epoch=5))
    a = topic("a", partition(0, 1))
    assert refused(cache, None, image(99, a, epoch=4), ME) is ErrorCode.stale_controller_epoch


def test_a_delta_for_an_earlier_broker_epoch_is_refused() -> None:
    a = topic("a", partition(0, 1))
    assert refused(registered(), None, image(1, a), ME - 1) is ErrorCode.stale_broker_epoch


def test_a_broker_that_is_not_registered_takes_nothing() -> None:
    assert refused(MetadataCache(), None, image(1), ME) is ErrorCode.stale_broker_epoch


def test_a_difference_must_start_from_the_cached_image() -> None:
    cache = registered()
    take(cache, None, image(1))
    gap = refused(cache, image(2), image(3), ME)
    assert gap is ErrorCode.invalid_update_version


def test_a_difference_of_a_new_term_needs_a_full_image_first() -> None:
    cache = registered()
    take(cache, None, image(4, epoch=1))
    other_term = refused(cache, image(4, epoch=2), image(5, epoch=2), ME)
    assert other_term is ErrorCode.invalid_update_version


def test_an_old_full_image_that_was_delayed_is_refused() -> None:
    cache = registered()
    take(cache, None, image(5))
    assert refused(cache, None, image(4), ME) is ErrorCode.invalid_update_version


def test_the_same_full_image_may_come_twice() -> None:
    cache = registered()
    take(cache, None, image(5))
    assert not take(cache, None, image(5))


def test_a_new_term_restarts_the_image_sequence() -> None:
    cache = registered()
    take(cache, None, image(50, epoch=1))
    take(cache, None, image(1, epoch=2))
    assert cache.controller_epoch == 2


def test_the_controller_is_observed() -> None:
    cache = registered()
    assert cache.observe_controller(7) == Changes(controller=True)
    assert not cache.observe_controller(7)
    assert cache.controller_id == 7


def test_the_shared_state_is_read_only() -> None:
    cache = registered()
    take(cache, None, image(1, topic("a", partition(0, 1))))
    with pytest.raises(TypeError):
        cache.topics["b"] = cache.topics["a"]  # type: ignore[index]
