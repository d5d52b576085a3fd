"""`/api/v1/completeness` and its metrics, from what links publish."""

from __future__ import annotations

import uuid

from local_cluster.records.batch import Record
from mirror_maker.formats.completeness.listing import ListedTopic
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    SourceSession,
    Statement,
    encode_statement,
)
from tests.support.listed_statements import with_listing
from tests.unit.aggregator.http_world import World

THROUGH_MS = 40_000


def state(
    world: World,
    link: str,
    partitions: int,
    *listed: ListedTopic,
    gaps: int = 0,
    listed_ms: int | None = None,
) -> None:
    """Let a link state that its copies are complete through `THROUGH_MS`, and list topics."""
    entries = tuple(
        Entry(
            *("flights", uuid.UUID(int=3), index, 0, 9, 0, 1),
            *(THROUGH_MS, 9, THROUGH_MS, None, gaps, NO_HOLD),
        )
        for index in range(partitions)
    )
    statement = Statement(
        *(True, "w", 1, 1, 0, 1, THROUGH_MS + 5),
        sessions=(SourceSession(0, THROUGH_MS),),
        entries=entries,
    )
    topic = world.aggregate.completeness.topic(link)
    topic.begin()
    for each in with_listing(statement, *listed, asked_ms=listed_ms):
        topic.apply(Record(0, 0, None, encode_statement(each)))
    topic.note_read(1, 1, 50.0)


async def test_strict_fast_and_per_datacenter(world: World) -> None:
    state(world, "jfk-nyc", 2, gaps=1)
    document = await world.get("/api/v1/completeness")
    (flights,) = document["topics"]
    times = [each["complete_through_ms"] for each in flights["datacenters"]]
    assert times == [None, THROUGH_MS], "ewr has stated nothing"
    assert flights["strict"]["complete_through_ms"] is None
    assert flights["strict"]["held_back_by"]["datacenter"] == "ewr"
    assert flights["fast"]["complete_through_ms"] == THROUGH_MS
    assert flights["fast"]["state"] == "complete_with_gaps"
    assert [each["datacenter"] for each in flights["fast"]["missing"]] == ["ewr"]
    state(world, "ewr-nyc", 3)
    document = await world.get("/api/v1/completeness?topic=flights")
    assert document["strict"]["complete_through_ms"] == THROUGH_MS
    (flights,) = document["topics"]
    assert [len(each["partitions"]) for each in flights["datacenters"]] == [3, 2]


async def test_a_topic_that_only_one_source_has_waits_for_the_listings_of_all(
    world: World,
) -> None:
    """Another source may have it by now. It is named until a worker has copied something."""
    state(world, "jfk-nyc", 2, ListedTopic("new", uuid.UUID(int=4), 2, 1, THROUGH_MS - 900))
    state(world, "ewr-nyc", 3, listed_ms=THROUGH_MS - 500)
    document = await world.get("/api/v1/completeness?topic=new")
    (new,) = document["topics"]
    assert [each["datacenter"] for each in new["datacenters"]] == ["jfk"]
    assert new["strict"]["complete_through_ms"] is None, "what partition 0 had is unknown"
    holder = new["strict"]["held_back_by"]
    assert (holder["datacenter"], holder["partition"]) == ("jfk", 0)
    everything = await world.get("/api/v1/completeness")
    assert everything["strict"]["complete_through_ms"] is None
    state(world, "jfk-nyc", 2, ListedTopic("new", uuid.UUID(int=4), 0, 0, None))
    document = await world.get("/api/v1/completeness?topic=flights")
    assert document["strict"]["complete_through_ms"] == THROUGH_MS - 500


async def test_a_short_limit_makes_all_late(world: World) -> None:
    state(world, "jfk-nyc", 2)
    state(world, "ewr-nyc", 3)
    document = await world.get("/api/v1/completeness?late_ms=100")
    assert document["fast"]["state"] == "unknown"
    assert len(document["fast"]["missing"]) == 2


async def test_errors(world: World, starting: World) -> None:
    wrong = await world.get("/api/v1/completeness?topic=flihgts", 404)
    assert wrong["did_you_mean"] == "flights"
    await world.get("/api/v1/completeness?late_ms=soon", 400)


async def test_metrics(world: World) -> None:
    state(world, "jfk-nyc", 2, gaps=1)
    async with world.client.get("/metrics") as response:
        text = await response.text()
    labels = '{datacenter="jfk",link="jfk-nyc"}'
    assert f"heliograph_complete_through_timestamp_seconds{labels} 40.0\n" in text
    assert f"heliograph_completeness_gaps{labels} 2.0\n" in text
    assert 'heliograph_complete_through_timestamp_seconds{datacenter="ewr"' not in text
