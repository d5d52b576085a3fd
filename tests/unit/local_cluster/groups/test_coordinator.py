"""The coordinator of a group: lookup, leadership, deleted topics, expiry."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.coordinator_runtime.partitioning import partition_of
from local_cluster.groups.coordinator import read_limits
from local_cluster.groups.requests import CommitRequest, HeartbeatRequest, OffsetToCommit
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.groups.doubles import BROKER_ID, FakeBroker


def refusal(broker: FakeBroker, group: str = "boards") -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        broker.groups.heartbeat(HeartbeatRequest(group, "m", None, 1))
    return refused.value.code


def not_found(broker: FakeBroker) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        broker.groups.find_coordinator("boards", "PLAINTEXT")
    return refused.value.code


async def test_the_first_lookup_creates_the_topic_once() -> None:
    broker = FakeBroker()
    assert not_found(broker) is ErrorCode.coordinator_not_available
    assert not_found(broker) is ErrorCode.coordinator_not_available
    await asyncio.sleep(0.01)
    assert broker.control_plane.created == [OFFSETS_TOPIC]
    # The creation failed: the next lookup retries.
    broker.control_plane.error = KafkaError(ErrorCode.not_controller)
    assert not_found(broker) is ErrorCode.coordinator_not_available
    await asyncio.sleep(0.01)
    assert broker.control_plane.created == [OFFSETS_TOPIC] * 2
    await broker.groups.stop()


async def test_the_coordinator_is_the_leader_of_the_groups_partition() -> None:
    broker = FakeBroker(partitions=50)
    await broker.lead()
    assert broker.groups.find_coordinator("boards", "PLAINTEXT") == (BROKER_ID, "127.0.0.1", 9092)
    assert broker.groups.find_coordinator("boards", "OUTSIDE") == (
        BROKER_ID,
        "kafka.example",
        19092,
    )
    assert not broker.control_plane.created
    offsets = (OffsetToCommit("t", 0, 1, 0, None),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    written = [index for index, replica in broker.partitions.items() if replica.batches]
    assert written == [partition_of("boards", 50)] == [21]
    await broker.groups.stop()


async def test_lookups_fail_without_a_leader_or_its_listener() -> None:
    broker = FakeBroker()
    broker.add_topic(OFFSETS_TOPIC, 2, leader=-1)
    assert not_found(broker) is ErrorCode.coordinator_not_available
    broker.add_topic(OFFSETS_TOPIC, 2)
    with pytest.raises(KafkaError) as refused:
        broker.groups.find_coordinator("boards", "NOWHERE")
    assert refused.value.code is ErrorCode.coordinator_not_available


async def test_only_the_leader_serves_a_group() -> None:
    broker = FakeBroker()
    assert refusal(broker) is ErrorCode.not_coordinator
    broker.add_topic(OFFSETS_TOPIC, 2)
    assert refusal(broker) is ErrorCode.not_coordinator
    broker.groups.on_leadership(OFFSETS_TOPIC, partition_of("boards", 2), True)
    assert refusal(broker) is ErrorCode.coordinator_load_in_progress
    assert broker.groups.list_groups()[0] is ErrorCode.coordinator_load_in_progress
    await broker.loaded()
    response = await broker.groups.heartbeat(HeartbeatRequest("boards", "m", None, 1))
    assert response is ErrorCode.unknown_member_id
    broker.groups.on_leadership(OFFSETS_TOPIC, partition_of("boards", 2), False)
    assert refusal(broker) is ErrorCode.not_coordinator
    broker.groups.on_leadership("some-topic", 0, True)
    assert broker.groups.list_groups() == (ErrorCode.none, [])
    await broker.groups.stop()


async def test_committed_offsets_survive_a_change_of_leadership() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    offsets = (OffsetToCommit("t", 3, 99, 7, "metadata"),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    await broker.loaded()
    (fetched,) = await broker.positions("boards")
    assert (fetched.topic, fetched.partition) == ("t", 3)
    assert fetched.committed[:3] == (99, 7, "metadata")
    assert [group.group_id for group in broker.groups.list_groups()[1]] == ["boards"]
    await broker.groups.stop()


async def commit_in(broker: FakeBroker, *topics: str) -> None:
    """Create the topics, with a committed offset of a group in each."""
    for topic in topics:
        broker.add_topic(topic, 1)
    broker.groups.on_metadata_changes(Changes(topics=topics))
    await broker.lead()
    offsets = tuple(OffsetToCommit(topic, 0, 1, 0, None) for topic in topics)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))


async def topics_with_offsets(broker: FakeBroker) -> list[str]:
    await broker.loaded()
    return [entry.topic for entry in await broker.positions("boards")]


def delete(broker: FakeBroker, topic: str) -> None:
    left = dict(broker.metadata.topics)
    deleted = left.pop(topic)
    broker.metadata.topics = left
    broker.groups.on_metadata_changes(Changes(deleted={topic: deleted.topic_id}))


def re_create(broker: FakeBroker, topic: str) -> None:
    """Re-create a topic; the changes hold only the new one, not the deletion."""
    broker.add_topic(topic, 1)
    broker.groups.on_metadata_changes(Changes(topics=(topic,)))


async def test_offsets_of_deleted_topics_are_deleted() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "gone", "kept")
    delete(broker, "gone")
    assert await topics_with_offsets(broker) == ["kept"]
    await broker.groups.stop()


async def test_offsets_of_a_topic_re_created_unseen_are_deleted() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "back", "kept")
    re_create(broker, "back")
    assert await topics_with_offsets(broker) == ["kept"]
    # Later commits belong to the new topic, whatever later changes report.
    offsets = (OffsetToCommit("back", 0, 3, 0, None),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    broker.groups.on_metadata_changes(Changes(topics=("back",), deleted={"back": uuid.uuid4()}))
    assert await topics_with_offsets(broker) == ["back", "kept"]
    await broker.groups.stop()


async def test_deletions_during_a_load_are_applied_afterwards() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "back", "gone", "kept")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    delete(broker, "gone")
    re_create(broker, "back")
    assert await topics_with_offsets(broker) == ["kept"]
    await broker.groups.stop()


async def test_deletions_before_a_term_are_applied_unless_the_topic_is_back() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "back", "gone", "kept")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    delete(broker, "gone")
    # Another leader may have accepted commits to the new topic meanwhile.
    delete(broker, "back")
    re_create(broker, "back")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    assert await topics_with_offsets(broker) == ["back", "kept"]
    await broker.groups.stop()


async def test_absence_in_incomplete_metadata_is_no_deletion() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "gone")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    delete(broker, "gone")
    # It may be back, and unreadable for the controller.
    broker.metadata.is_whole = False
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    assert await topics_with_offsets(broker) == ["gone"]
    await broker.groups.stop()


async def test_old_offsets_expire_in_the_background() -> None:
    config = {"offsets.retention.check.interval.ms": "1", "offsets.retention.minutes": "0"}
    broker = FakeBroker(partitions=1, config=config)
    await broker.lead()
    await broker.groups.start()
    offsets = (OffsetToCommit("t", 0, 1, 0, None),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    while broker.groups.list_groups()[1]:
        await asyncio.sleep(0.001)
    assert await broker.positions("boards") == ()
    await broker.groups.stop()


async def test_a_deleted_group_is_gone() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    assert await broker.groups.delete_group("boards") is ErrorCode.group_id_not_found
    offsets = (OffsetToCommit("t", 0, 1, 0, None),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    assert await broker.groups.delete_group("boards") is ErrorCode.none
    assert broker.groups.list_groups()[1] == []
    await broker.groups.stop()


def test_settings_have_kafkas_names() -> None:
    config = {
        "group.initial.rebalance.delay.ms": "1",
        "group.min.session.timeout.ms": "2",
        "group.max.session.timeout.ms": "3",
        "group.max.size": "4",
        "offset.metadata.max.bytes": "5",
        "offsets.retention.minutes": "6",
    }
    limits = read_limits(FakeBroker(config=config).settings)
    assert limits.group_initial_rebalance_delay_ms == 1
    assert limits.group_min_session_timeout_ms == 2
    assert limits.group_max_session_timeout_ms == 3
    assert limits.group_max_size == 4
    assert limits.offset_metadata_max_bytes == 5
    assert limits.offsets_retention_ms == 360_000
