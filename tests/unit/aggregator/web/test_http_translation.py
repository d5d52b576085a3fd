"""Translation of offsets and groups over HTTP, and its errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aggregator import aggregate as aggregate_module
from aggregator.maps.link_map import LinkMap
from local_cluster.records.batch import Record
from mirror_maker.formats.naming import TopicNames
from tests.unit.aggregator.fakes import opening_and_block
from tests.unit.aggregator.http_world import FLIGHTS_ID, World


async def test_translate_exact(world: World) -> None:
    assert await world.translate() == {
        "link": "jfk-nyc",
        "datacenter": "jfk",
        "topic": "flights",
        "partition": 0,
        "offset": 23,
        "state": "exact",
        "target_topic": "jfk.flights",
        "target_offset": 123,
    }


async def test_translate_pending_is_null_not_zero(world: World) -> None:
    past = await world.translate(offset=51)
    assert (past["state"], past["target_topic"], past["target_offset"]) == (
        "pending",
        "jfk.flights",
        None,
    )
    unmapped_partition = await world.translate(partition=1)
    assert unmapped_partition["state"] == "pending"
    assert unmapped_partition["target_topic"] == "jfk.flights"
    assert unmapped_partition["target_offset"] is None
    not_started = await world.translate(link="lga-nyc")
    assert (not_started["state"], not_started["target_topic"]) == ("pending", None)


@pytest.mark.parametrize(
    ("query", "parameter", "words"),
    [
        ({"link": None}, "link", "required"),
        ({"topic": None}, "topic", "required"),
        ({"topic": ""}, "topic", "required"),
        ({"partition": None}, "partition", "required"),
        ({"partition": -1}, "partition", "integer from 0 to 2147483647, not '-1'"),
        ({"partition": 2**31}, "partition", "integer"),
        ({"offset": "12a"}, "offset", "not '12a'"),
        ({"offset": "1_0"}, "offset", "integer"),
        ({"offset": "%D9%A3"}, "offset", "integer"),
        ({"offset": 2**63}, "offset", "integer"),
        ({"offset": "9" * 5000}, "offset", "integer"),
        ({"ofset": 1}, "ofset", "did you mean 'offset'"),
        ({"offset": "1&offset=2"}, "offset", "more than once"),
    ],
)
async def test_bad_parameters_are_named(
    world: World, query: dict[str, object], parameter: str, words: str
) -> None:
    document = await world.translate(400, **query)
    assert document["error"] == "bad_parameter"
    assert document["parameter"] == parameter
    assert words in document["message"]


@pytest.mark.parametrize(
    ("query", "parameter", "did_you_mean"),
    [
        ({"link": "jkf-nyc"}, "link", "jfk-nyc"),
        ({"topic": "flihgts"}, "topic", "flights"),
        ({"partition": 2}, "partition", None),
    ],
)
async def test_unknown_names_get_the_nearest(
    world: World, query: dict[str, object], parameter: str, did_you_mean: str | None
) -> None:
    document = await world.translate(404, **query)
    assert document["parameter"] == parameter
    assert document["did_you_mean"] == did_you_mean


async def test_unread_map_is_503_for_its_link_only(starting: World) -> None:
    async with starting.client.get(
        "/api/v1/translate?link=jfk-nyc&topic=flights&partition=0&offset=1"
    ) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"
        assert (await response.json())["error"] == "not_loaded"
    await starting.load()
    starting.aggregate.maps.topic("ewr-nyc").begin()
    await starting.translate(200)
    await starting.translate(503, link="ewr-nyc")
    starting.aggregate.maps.topic("ewr-nyc").set_failed("format version 9")
    assert "format version 9" in (await starting.translate(503, link="ewr-nyc"))["message"]


async def test_contradictory_map_is_503(world: World) -> None:
    link_map = LinkMap()
    for runs in ([(0, 100, 10)], [(5, 50, 10)]):
        for key, value in opening_and_block("flights", 0, "jfk.flights", FLIGHTS_ID, runs):
            link_map.apply(Record(0, 0, key, value))
    world.aggregate.maps.topic("jfk-nyc").begin()
    world.aggregate.maps.topic("jfk-nyc").value = link_map
    world.aggregate.maps.topic("jfk-nyc").note_read(1, 1, 0.0)
    await world.translate(503)
    assert (await world.get("/api/v1/links"))["links"][0]["map"]["state"] == "failed"


async def test_reverse(world: World) -> None:
    path = "/api/v1/translate/reverse?topic=jfk.flights&partition=0&offset="
    document = await world.get(path + "123")
    assert document["state"] == "exact"
    assert (document["link"], document["topic"], document["offset"]) == ("jfk-nyc", "flights", 23)
    assert (document["target_topic"], document["target_offset"]) == ("jfk.flights", 123)
    assert (await world.get(path + "99"))["state"] == "unmapped"
    pending = await world.get(path + "150&link=jfk-nyc")
    assert (pending["state"], pending["topic"], pending["offset"]) == ("pending", "flights", None)
    wrong_link = await world.get(path + "1&link=ewr-nyc", 404)
    assert wrong_link["did_you_mean"] == "jfk-nyc"
    typo = await world.get("/api/v1/translate/reverse?topic=jfk.flight&partition=0&offset=1", 404)
    assert typo["did_you_mean"] == "jfk.flights"
    beyond = await world.get(
        "/api/v1/translate/reverse?topic=jfk.flights&partition=9&offset=1", 404
    )
    assert beyond["parameter"] == "partition"


async def test_groups(world: World) -> None:
    world.source.offsets = {"boards": {("flights", 0): 23, ("gates", 0): 1}}
    path = "/api/v1/groups/translate?link=jfk-nyc&group=boards"
    document = await world.get(path)
    assert document["exact"] is False
    assert [part["target_offset"] for part in document["partitions"]] == [123, None]
    only = await world.get(path + "&topic=flights&topic=other")
    assert only["exact"] is True
    assert [part["topic"] for part in only["partitions"]] == ["flights"]
    empty = await world.get("/api/v1/groups/translate?link=jfk-nyc&group=nobody")
    assert (empty["partitions"], empty["exact"]) == ([], False)
    assert world.opened == ["jfk-nyc"] * 3
    assert world.source.closed


async def test_a_group_of_a_merged_topic_is_not_exact(world: World) -> None:
    settings = world.aggregate.settings
    jfk, *others = settings.links
    merging = replace(jfk, names=TopicNames(merge=("flights",)))
    world.aggregate.settings = replace(settings, links=(merging, *others))
    world.source.offsets = {"boards": {("flights", 0): 23}}
    document = await world.get("/api/v1/groups/translate?link=jfk-nyc&group=boards")
    (part,) = document["partitions"]
    assert document["exact"] is False
    assert (part["state"], part["target_offset"]) == ("shared", None)


async def test_a_group_of_a_merged_topic_has_the_position_of_the_group_sync(world: World) -> None:
    settings = world.aggregate.settings
    jfk, *others = settings.links
    merging = replace(jfk, names=TopicNames(merge=("flights",)))
    world.aggregate.settings = replace(settings, links=(merging, *others))
    position = {"group": "boards", "topic": "flights", "partition": 0, "target_topic": "flights"}
    known = {**position, "source_offset": 20, "target_offset": 111, "state": "merged"}
    unknown = {**position, "partition": 1, "source_offset": 7, "target_offset": None}
    groups = {"positions": [known, unknown, {**known, "group": "others", "target_offset": 5}]}
    status = {"links": [{"name": "jfk-nyc", "groups": groups}, {"name": "ewr-nyc"}]}
    world.aggregate.set_workers([status])
    path = "/api/v1/groups/translate?link=jfk-nyc&group=boards"
    world.source.offsets = {"boards": {("flights", 0): 23, ("flights", 1): 7}}
    document = await world.get(path)
    assert document["exact"] is False
    assert [(part["state"], part["target_offset"]) for part in document["partitions"]] == [
        ("shared", 111),
        ("shared", None),
    ]
    # The group went back: records before the position are unread.
    world.source.offsets = {"boards": {("flights", 0): 19}}
    (part,) = (await world.get(path))["partitions"]
    assert (part["state"], part["target_offset"]) == ("shared", None)


async def test_groups_of_the_aggregate(world: World) -> None:
    world.cluster.offsets = {
        "boards": {("jfk.flights", 0): 123, ("ewr.flights", 0): 4, ("reports", 0): 1}
    }
    path = "/api/v1/groups/translate?link=jfk-nyc&group=boards&direction=to_source"
    document = await world.get(path)
    assert document["exact"] is True
    (part,) = document["partitions"]
    assert (part["topic"], part["offset"], part["state"]) == ("flights", 23, "exact")
    assert (part["target_topic"], part["target_offset"]) == ("jfk.flights", 123)
    assert (await world.get(path + "&topic=reports"))["partitions"] == []
    assert world.opened == []
    typo = await world.get(path.replace("to_source", "to_sorce"), 400)
    assert typo["did_you_mean"] == "to_source"
    world.cluster.down = True
    assert (await world.get(path, 502))["error"] == "aggregate_error"


async def test_group_of_an_unreachable_source(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/v1/groups/translate?link=jfk-nyc&group=boards"
    world.source.down = True
    assert "connection refused" in (await world.get(path, 502))["message"]
    world.source.down = False
    world.source.stalled.clear()
    monkeypatch.setattr(aggregate_module, "GROUP_SECONDS_MAX", 0.01)
    assert (await world.get(path, 504))["error"] == "source_timeout"
    await world.translate(200)
    await world.get("/readyz")
