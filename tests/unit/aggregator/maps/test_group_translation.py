"""A group's committed offsets are translated to the aggregate, or are `pending`."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from aggregator.maps.group_translation import (
    CommittedOffset,
    fetch_committed,
    translate_group,
    translate_group_back,
)
from aggregator.maps.link_map import LinkMap, TranslationState
from aggregator.maps.translation import LinkMaps
from aggregator.settings import LinkSettings
from local_cluster.records.batch import Record
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.records import NO_TOPIC_ID
from tests.unit.aggregator.fakes import SOURCE_TOPIC_ID, FakeCluster, FakeTopic, opening_and_block

JFK = LinkSettings(name="jfk-nyc", datacenter="jfk", source="jfk", source_bootstrap="-")


def _maps(source_topic_id: uuid.UUID = SOURCE_TOPIC_ID) -> LinkMaps:
    link_map = LinkMap()
    for partition in (0, 1):
        for key, value in opening_and_block(
            "flights",
            partition,
            "jfk.flights",
            uuid.UUID(int=4),
            [(0, 1_000 * partition, 50)],
            source_topic_id=source_topic_id,
        ):
            link_map.apply(Record(0, 0, key, value))
    maps = LinkMaps({"jfk-nyc": "jfk"})
    maps.topic("jfk-nyc").begin()
    maps.topic("jfk-nyc").value = link_map
    return maps


def _source(**offsets: dict[tuple[str, int], int]) -> FakeCluster:
    source = FakeCluster()
    source.offsets = offsets
    return source


async def test_exact_positions() -> None:
    source = _source(boards={("flights", 1): 20, ("flights", 0): 50})
    found = await translate_group(source, _maps(), JFK, "boards", ["flights"])
    assert found.is_exact
    assert found.target_offsets() == {("jfk.flights", 0): 50, ("jfk.flights", 1): 1_020}
    assert [part.partition for part in found.partitions] == [0, 1]
    assert found.pending == ()


async def test_pending_positions_have_no_offset() -> None:
    source = _source(boards={("flights", 0): 10, ("flights", 1): 51, ("gates", 0): 1})
    found = await translate_group(source, _maps(), JFK, "boards")
    assert not found.is_exact
    assert found.target_offsets() == {("jfk.flights", 0): 10}
    assert [(part.topic, part.partition) for part in found.pending] == [
        ("flights", 1),
        ("gates", 0),
    ]
    assert all(part.state is TranslationState.PENDING for part in found.pending)


@pytest.mark.parametrize(
    "names",
    [
        TopicNames(merge=("flights",)),
        TopicNames(otherwise="identity"),
        TopicNames(map={"flights": "all-flights"}),
    ],
    ids=["merge", "identity", "map"],
)
async def test_positions_in_copies_that_others_write_into_have_no_offset(names: TopicNames) -> None:
    source = _source(boards={("flights", 0): 10})
    found = await translate_group(source, _maps(), replace(JFK, names=names), "boards")
    assert [(part.state, part.target_offset) for part in found.partitions] == [
        (TranslationState.SHARED, None)
    ]
    assert (found.is_exact, found.target_offsets()) == (False, {})
    assert (found.pending, found.shared) == ((), found.partitions)


@pytest.mark.parametrize(
    ("committed", "source", "state"),
    [
        (0, 0, "exact"),
        (50, 0, "exact"),
        (100, 0, "exact"),
        (103, 3, "exact"),
        (110, 20, "exact"),
        (115, 20, "exact"),
        (120, 20, "exact"),
        (125, 25, "exact"),
        (130, 30, "exact"),
        (131, 30, "inexact"),
    ],
)
async def test_positions_of_the_aggregate(committed: int, source: int, state: str) -> None:
    """Copies of [0, 10) at 100 and of [20, 30) at 120; the rest is others', or not copied."""
    link_map = LinkMap()
    for key, value in opening_and_block(
        "flights", 0, "jfk.flights", uuid.UUID(int=4), [(0, 100, 10), (20, 120, 10)]
    ):
        link_map.apply(Record(0, 0, key, value))
    maps = LinkMaps({"jfk-nyc": "jfk"})
    maps.topic("jfk-nyc").begin()
    maps.topic("jfk-nyc").value = link_map
    aggregate = _source(boards={("jfk.flights", 0): committed, ("others", 0): 9})
    (found,) = (await translate_group_back(aggregate, maps, JFK, "boards")).partitions
    assert (found.topic, found.offset, found.state) == ("flights", source, state)
    assert (found.target_topic, found.target_offset) == ("jfk.flights", committed)


async def test_a_shared_position_leaves_the_others_as_they_are() -> None:
    link = replace(JFK, names=TopicNames(merge=("gates",)))
    source = _source(boards={("flights", 0): 10, ("gates", 0): 1})
    found = await translate_group(source, _maps(), link, "boards")
    assert found.target_offsets() == {("jfk.flights", 0): 10}
    assert not found.is_exact


async def test_positions_in_a_source_topic_made_anew_are_pending() -> None:
    source = _source(boards={("flights", 0): 50})
    source.topics["flights"] = FakeTopic(topic_id=uuid.UUID(int=9))
    maps = _maps()
    found = await translate_group(source, maps, JFK, "boards")
    assert (found.is_exact, found.target_offsets()) == (False, {})
    assert found.pending == found.partitions
    assert [part.target_topic for part in found.partitions] == ["jfk.flights"]
    # The link has opened the new one: its positions are those of the new copies.
    link_map = maps.topic("jfk-nyc").value
    assert link_map is not None
    for key, value in opening_and_block(
        "flights",
        0,
        "jfk.flights",
        uuid.UUID(int=4),
        [(0, 700, 60)],
        source_topic_id=uuid.UUID(int=9),
        producer_epoch=1,
    ):
        link_map.apply(Record(0, 0, key, value))
    found = await translate_group(source, maps, JFK, "boards")
    assert found.target_offsets() == {("jfk.flights", 0): 750}


@pytest.mark.parametrize(
    ("present", "copied"),
    [
        (SOURCE_TOPIC_ID, SOURCE_TOPIC_ID),
        (None, SOURCE_TOPIC_ID),
        (uuid.UUID(int=9), NO_TOPIC_ID),
        (None, NO_TOPIC_ID),
    ],
    ids=["the same", "not told any more", "not told when it was copied", "never told"],
)
async def test_where_ids_do_not_tell_otherwise_the_topic_is_the_one_of_the_name(
    present: uuid.UUID | None, copied: uuid.UUID
) -> None:
    source = _source(boards={("flights", 0): 50})
    source.topics["flights"] = FakeTopic(topic_id=present)
    found = await translate_group(source, _maps(copied), JFK, "boards")
    assert found.target_offsets() == {("jfk.flights", 0): 50}


async def test_a_topic_made_anew_after_its_commit_was_read_is_not_the_one_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = _source(boards={("flights", 0): 50})
    source.topics["flights"] = FakeTopic(topic_id=SOURCE_TOPIC_ID)
    call = source.call

    async def call_and_make_anew(*args: Any, **options: Any) -> Any:
        answer = await call(*args, **options)
        source.topics["flights"] = FakeTopic(topic_id=uuid.UUID(int=9))
        return answer

    monkeypatch.setattr(source, "call", call_and_make_anew)
    assert (await translate_group(source, _maps(), JFK, "boards")).target_offsets() == {}


async def test_only_the_topics_asked_for() -> None:
    source = _source(boards={("flights", 0): 10, ("gates", 0): 1})
    found = await translate_group(source, _maps(), JFK, "boards", {"flights"})
    assert [part.topic for part in found.partitions] == ["flights"]


async def test_group_without_commits_is_empty_and_not_exact() -> None:
    found = await translate_group(_source(), _maps(), JFK, "nobody")
    assert found.partitions == ()
    assert not found.is_exact


async def test_partitions_never_committed_are_left_out() -> None:
    source = _source(boards={("flights", 0): -1, ("flights", 1): 0})
    assert await fetch_committed(source, "boards") == [
        CommittedOffset(topic="flights", partition=1, offset=0, metadata="")
    ]


async def test_loading_coordinator_is_waited_for() -> None:
    source = _source(boards={("flights", 0): 10})
    source.coordinator_errors = [ErrorCode.coordinator_load_in_progress] * 2
    assert len(await fetch_committed(source, "boards")) == 1


async def test_refusal_is_not_an_empty_group() -> None:
    source = _source(boards={("flights", 0): 10})
    source.coordinator_errors = [ErrorCode.group_authorization_failed]
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        await fetch_committed(source, "boards")


async def test_unknown_link_is_an_error() -> None:
    source = _source(boards={("flights", 0): 10})
    with pytest.raises(KeyError):
        await translate_group(source, _maps(), replace(JFK, name="ewr-nyc"), "boards")
