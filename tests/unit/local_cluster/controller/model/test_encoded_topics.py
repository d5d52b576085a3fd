"""Encoded topics are used again while the image says the same of them."""

from __future__ import annotations

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    TopicState,
    difference,
)
from local_cluster.controller.model.encoded_topics import VIEWS_MAX, EncodedTopics, View
from local_cluster.controller.model.metadata_cache import MetadataCache
from tests.unit.local_cluster.controller.samples import partition, topic

ONE = BrokerEndpoints(1, "r1", {"P": ("h", 1)})
TWO = BrokerEndpoints(2, "r1", {"P": ("h", 2)})
VIEW: View = ("P", 12)


class Encodings:
    """A cache, its image, and how often it has encoded a topic."""

    def __init__(self, *topics: TopicState) -> None:
        self.image = MetadataCache()
        self.encoded_topics = EncodedTopics(self.image)
        self.count = 0
        self._last = ClusterImage(1, 1, 0, {}, {}, {})
        self.show(*topics)

    def show(self, *topics: TopicState, brokers: tuple[BrokerEndpoints, ...] = (ONE,)) -> None:
        """Apply the difference to the last image, as a controller sends it."""
        first = self._last.sequence == 0
        image = ClusterImage(
            1,
            1,
            self._last.sequence + 1,
            {each.id: each for each in brokers},
            {each.name: each for each in topics},
            {},
        )
        base = None if first else self._last
        self.image.apply(difference(base, image, self.image.broker_epoch))
        self._last = image

    def ask(self, name: str, view: View = VIEW) -> bytes:
        return self.encoded_topics.get(view, self.image.topics[name], self._encode)

    def _encode(self) -> bytes:
        self.count += 1
        return b"%d" % self.count


def test_a_topic_is_encoded_once_per_view() -> None:
    a = topic("a", partition(0, 1))
    world = Encodings(a)
    assert [world.ask("a"), world.ask("a"), world.ask("a", ("P", 9))] == [b"1", b"1", b"2"]


def test_a_delta_about_another_topic_keeps_it() -> None:
    a = topic("a", partition(0, 1))
    world = Encodings(a, topic("b", partition(0, 1)))
    world.ask("a")
    world.show(a, topic("b", partition(0, 1, epoch=9)))
    assert world.ask("a") == b"1"


def test_a_changed_topic_is_encoded_again_and_the_others_are_not() -> None:
    b = topic("b", partition(0, 1))
    world = Encodings(topic("a", partition(0, 1)), b)
    assert (world.ask("a"), world.ask("b")) == (b"1", b"2")
    world.show(topic("a", partition(0, 1, epoch=9)), b)
    assert (world.ask("a"), world.ask("b")) == (b"3", b"2")


def test_a_broker_that_comes_or_goes_changes_every_topic() -> None:
    a = topic("a", partition(0, 1))
    world = Encodings(a)
    world.ask("a")
    world.show(a, brokers=(ONE, TWO))
    assert world.ask("a") == b"2"


def test_deleted_topics_and_old_views_are_dropped() -> None:
    world = Encodings(topic("a", partition(0, 1)), topic("b", partition(0, 1)))
    world.ask("a")
    world.ask("b")
    world.show(topic("c", partition(0, 1)))
    world.ask("c")
    for version in range(VIEWS_MAX):
        world.ask("c", ("other", version))
    views = world.encoded_topics._views
    assert len(views) == VIEWS_MAX
    assert VIEW not in views
    assert all(list(topics) == ["c"] for topics in views.values())
