"""What Metadata responses prove about partitions, one after the other."""

from __future__ import annotations

import uuid

from local_cluster.client.model import PartitionMetadata, TopicMetadata
from local_cluster.wire.errors import ErrorCode
from mirror_maker.clusters.source_listing import SourceListing
from mirror_maker.formats.completeness.listing import ListedTopic
from mirror_maker.formats.records import NO_TOPIC_ID

ID, OTHER_ID = uuid.UUID(int=5), uuid.UUID(int=6)


def topics(**counts: int) -> dict[str, TopicMetadata]:
    return {name: described(name, count) for name, count in counts.items()}


def described(name: str, count: int, topic_id: uuid.UUID | None = ID) -> TopicMetadata:
    partitions = {
        index: PartitionMetadata(index, 0, 0, (), (), ErrorCode.none) for index in range(count)
    }
    return TopicMetadata(name, topic_id, ErrorCode.none, False, partitions)


def listed(listing: SourceListing) -> list[ListedTopic]:
    assert listing.newest is not None
    return list(listing.newest.topics)


def test_an_added_partition_did_not_exist_in_the_listing_before() -> None:
    listing = SourceListing()
    assert listing.newest is None
    listing.note(topics(t=2), 100)
    assert listed(listing) == [ListedTopic("t", ID, 2, 2, None)]
    listing.note(topics(t=5), 200)
    assert listed(listing) == [ListedTopic("t", ID, 5, 2, 100)]
    listing.note(topics(t=6), 300)
    assert listed(listing) == [ListedTopic("t", ID, 6, 5, 200)]


def test_a_topic_that_was_not_listed_may_have_been_there_before() -> None:
    """The right to see it may be new, or it was re-created."""
    listing = SourceListing()
    listing.note(topics(t=2), 100)
    listing.note(topics(t=2, u=1), 200)
    assert listed(listing)[1] == ListedTopic("u", ID, 1, 1, None)
    listing.note({"t": described("t", 3, OTHER_ID)}, 300)
    assert listed(listing) == [ListedTopic("t", OTHER_ID, 3, 3, None)]
    listing.note({"t": described("t", 3, None)}, 400)
    assert listed(listing) == [ListedTopic("t", NO_TOPIC_ID, 3, 3, None)]


def test_a_broker_that_lags_behind_proves_nothing() -> None:
    listing = SourceListing()
    listing.note(topics(t=2), 100)
    listing.note(topics(t=3), 200)
    before, lagging = listing.newest, topics(t=2)
    listing.note(lagging, 300)
    listing.note(lagging, 400)
    assert listing.newest == before
    listing.note(topics(t=3), 500)
    assert listing.newest is not None and listing.newest.asked_ms == 500
    assert listed(listing) == [ListedTopic("t", ID, 3, 2, 100)]
    listing.note({"u": described("u", 3, None)}, 600)
    listing.note({"u": described("u", 2, None)}, 700)
    assert listed(listing) == [ListedTopic("u", NO_TOPIC_ID, 2, 2, None)], "it was re-created"


def test_without_a_change_only_the_time_moves() -> None:
    """Readers need the topics again if they are another object, so it must stay the same one."""
    listing, wanted = SourceListing(), topics(t=2)
    listing.note(wanted, 100)
    first = listing.newest
    listing.note(wanted, 200)
    listing.note(topics(t=2), 300)
    assert first is not None and listing.newest is not None
    assert listing.newest.asked_ms == 300
    assert listing.newest.topics is first.topics
