"""Where a group lives, and who may serve it."""

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


async def test_the_first_question_creates_the_topic_once() -> None:
    broker = FakeBroker()
    assert not_found(broker) is ErrorCode.coordinator_not_available
    assert not_found(broker) is ErrorCode.coordinator_not_available
    await asyncio.sleep(0.01)
    assert broker.control_plane.created == [OFFSETS_TOPIC]
    # It went wrong: the next question tries again.
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


async def test_without_a_leader_or_its_listener_nobody_is_named() -> None:
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
    answer = await broker.groups.heartbeat(HeartbeatRequest("boards", "m", None, 1))
    assert answer is ErrorCode.unknown_member_id
    broker.groups.on_leadership(OFFSETS_TOPIC, partition_of("boards", 2), False)
    assert refusal(broker) is ErrorCode.not_coordinator
    broker.groups.on_leadership("some-topic", 0, True)
    assert broker.groups.list_groups() == (ErrorCode.none, [])
    await broker.groups.stop()


async def test_positions_survive_a_change_of_leadership() -> None:
    broker = FakeBroker(partitions=1)
    await broker.lead()
    offsets = (OffsetToCommit("t", 3, 99, 7, "where I was"),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    await broker.loaded()
    (fetched,) = await broker.positions("boards")
    assert (fetched.topic, fetched.partition) == ("t", 3)
    assert fetched.committed[:3] == (99, 7, "where I was")
    assert [group.group_id for group in broker.groups.list_groups()[1]] == ["boards"]
    await broker.groups.stop()


async def commit_in(broker: FakeBroker, *topics: str) -> None:
    """The topics are there, and a group has a position in each."""
    for topic in topics:
        broker.add_topic(topic, 1)
    broker.groups.on_metadata_changes(Changes(topics=topics))
    await broker.lead()
    offsets = tuple(OffsetToCommit(topic, 0, 1, 0, None) for topic in topics)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))


async def topics_with_positions(broker: FakeBroker) -> list[str]:
    await broker.loaded()
    return [entry.topic for entry in await broker.positions("boards")]


def delete(broker: FakeBroker, topic: str) -> None:
    left = dict(broker.metadata.topics)
    deleted = left.pop(topic)
    broker.metadata.topics = left
    broker.groups.on_metadata_changes(Changes(deleted={topic: deleted.topic_id}))


def make_anew(broker: FakeBroker, topic: str) -> None:
    """The deletion is not told: only the new topic is."""
    broker.add_topic(topic, 1)
    broker.groups.on_metadata_changes(Changes(topics=(topic,)))


async def test_positions_of_deleted_topics_go() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "gone", "kept")
    delete(broker, "gone")
    assert await topics_with_positions(broker) == ["kept"]
    await broker.groups.stop()


async def test_positions_of_a_topic_that_was_made_anew_go_also_where_its_deletion_is_not_told() -> (
    None
):
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "anew", "kept")
    make_anew(broker, "anew")
    assert await topics_with_positions(broker) == ["kept"]
    # What is committed from now on is of the new one, whatever is told of it later.
    offsets = (OffsetToCommit("anew", 0, 3, 0, None),)
    await broker.groups.commit_offsets(CommitRequest("boards", "", None, -1, offsets))
    broker.groups.on_metadata_changes(Changes(topics=("anew",), deleted={"anew": uuid.uuid4()}))
    assert await topics_with_positions(broker) == ["anew", "kept"]
    await broker.groups.stop()


async def test_what_is_told_while_the_log_is_loaded_is_done_after_that() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "anew", "gone", "kept")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    delete(broker, "gone")
    make_anew(broker, "anew")
    assert await topics_with_positions(broker) == ["kept"]
    await broker.groups.stop()


async def test_what_was_deleted_before_a_log_is_led_goes_unless_it_is_there_again() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "anew", "gone", "kept")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    delete(broker, "gone")
    # Whoever led it meanwhile may have taken positions in the new one.
    delete(broker, "anew")
    make_anew(broker, "anew")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    assert await topics_with_positions(broker) == ["anew", "kept"]
    await broker.groups.stop()


async def test_what_is_not_there_is_no_evidence_where_nobody_vouches_for_all() -> None:
    broker = FakeBroker(partitions=1)
    await commit_in(broker, "gone")
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, False)
    delete(broker, "gone")
    # It may be there again, and unreadable.
    broker.metadata.is_whole = False
    broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    assert await topics_with_positions(broker) == ["gone"]
    await broker.groups.stop()


async def test_old_positions_are_removed_in_the_background() -> None:
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
