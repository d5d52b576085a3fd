"""A listener that failed gets the missed changes merged with the next ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.controller.model.cluster_image import ClusterImage, TopicState, difference
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from tests.unit.local_cluster.controller.samples import brokers, partition, topic, topic_id

NAMES = ("a", "b", "c")
ME = 55

STATES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=3)
"""Leader epoch by topic. A topic that goes is deleted by a record, or is only missing."""


class Listener:
    """A listener that keeps the last state of each topic."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicState] = {}
        self.deleted: set[str] = set()
        self.brokers = 0

    def on_change(self, changes: Changes, cache: MetadataCache) -> None:
        for name in (*changes.removed, *changes.deleted):
            self.topics.pop(name, None)
        self.deleted |= changes.deleted.keys()
        for name in changes.topics:
            self.topics[name] = cache.topics[name]
        if changes.brokers:
            self.brokers = len(cache.brokers)


def image(sequence: int, epochs: dict[str, int], deleted: set[str], live: int) -> ClusterImage:
    topics = {name: topic(name, partition(0, 1, epoch=e)) for name, e in epochs.items()}
    ids = {name: topic_id(name) for name in deleted}
    return ClusterImage(1, 1, sequence, brokers(*range(1, live + 1)), topics, ids)


@given(
    st.lists(
        st.tuples(STATES, st.booleans(), st.integers(1, 3), st.booleans()), min_size=1, max_size=8
    )
)
def test_a_listener_that_fails_at_times_misses_nothing(
    steps: list[tuple[dict[str, int], bool, int, bool]],
) -> None:
    cache = MetadataCache()
    cache.broker_epoch = ME
    steady, failing = Listener(), Listener()
    missed = Changes()
    before: ClusterImage | None = None
    for sequence, (epochs, by_record, live, fails) in enumerate((*steps, ({}, True, 1, False))):
        gone = before.topics.keys() - epochs.keys() if before is not None and by_record else set()
        current = image(sequence, epochs, set(gone), live)
        changes = cache.apply(difference(before, current, ME))
        before = current
        steady.on_change(changes, cache)
        merged = changes.after(missed)
        if fails:
            missed = merged
            continue
        failing.on_change(merged, cache)
        missed = Changes()
        assert failing.topics == steady.topics == cache.topics
        assert failing.deleted == steady.deleted
        assert failing.brokers == steady.brokers


def test_each_kind_of_change_is_kept() -> None:
    everything = Changes(
        topics=("a",),
        removed=("b",),
        deleted={"c": topic_id("c")},
        brokers=True,
        controller=True,
        broker_configs=True,
        is_first_of_term=True,
    )
    assert Changes().after(everything) == everything
    assert everything.after(Changes()) == everything
