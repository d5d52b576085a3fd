"""`/api/v1/completeness` and its metrics, from what links publish."""

from __future__ import annotations

import uuid

from local_cluster.records.batch import Record
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    SourceSession,
    Statement,
    encode_statement,
)
from tests.unit.aggregator.http_world import World

THROUGH_MS = 40_000


def state(world: World, link: str, partitions: int, gaps: int = 0) -> None:
    """Let a link state that its copies are complete through `THROUGH_MS`."""
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
    topic.apply(Record(0, 0, None, encode_statement(statement)))
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
