"""The HTTP API without translation, lag and audit: topics, links, readiness, metrics, page."""

from __future__ import annotations

import re

from aggregator.watchers import TopicWatcher
from tests.unit.aggregator.http_world import World


async def test_topics(world: World) -> None:
    document = await world.get("/api/v1/topics")
    assert document["aggregate"] == "nyc"
    (flights,) = document["topics"]
    assert (flights["name"], flights["partitions"]) == ("flights", 5)
    assert [part["topic"] for part in flights["parts"]] == ["ewr.flights", "jfk.flights"]
    assert document["local"] == [{"name": "reports", "partitions": 1}]


async def test_topics_before_they_are_known(starting: World) -> None:
    await starting.get("/api/v1/topics", 503)


async def test_links(world: World) -> None:
    jfk, ewr, lga = (await world.get("/api/v1/links"))["links"]
    assert jfk == {
        "name": "jfk-nyc",
        "datacenter": "jfk",
        "source": "jfk",
        "target": "nyc",
        "lag": {"records": None, "bytes": None, "seconds": None},
        "map": {
            "state": "ready",
            "problem": None,
            "partitions": 1,
            "lag_records": 0,
            "age_seconds": 1.0,
        },
    }
    assert ewr["map"]["partitions"] == 0
    assert lga["map"] == {
        "state": "pending",
        "problem": None,
        "partitions": None,
        "lag_records": None,
        "age_seconds": None,
    }


async def test_readiness_waits_for_maps_and_topics_only(starting: World) -> None:
    assert await starting.get("/healthz") == {"state": "alive"}
    assert await starting.get("/readyz", 503) == {"ready": False}
    await starting.load()
    starting.aggregate.maps.topic("ewr-nyc").begin()
    verbose = await starting.get("/readyz?verbose=1", 503)
    assert [(c["check"], c["passed"]) for c in verbose["checks"]] == [
        ("topics of the aggregate", True),
        ("offset map of link jfk-nyc", True),
        ("offset map of link ewr-nyc", False),
        ("offset map of link lga-nyc", True),
    ]
    starting.aggregate.maps.topic("ewr-nyc").note_read(0, 0, 0.0)
    assert await starting.get("/readyz") == {"ready": True}
    # Reading one map again later must not take the others out of rotation.
    starting.aggregate.maps.topic("ewr-nyc").begin()
    assert await starting.get("/readyz") == {"ready": True}


async def test_lost_aggregate_keeps_the_known_topics(world: World) -> None:
    world.cluster.down = True
    world.now += 30
    await TopicWatcher(world.cluster, world.aggregate).step()
    document = await world.get("/api/v1/topics")
    assert document["age_seconds"] == 30.0
    verbose = await world.get("/readyz?verbose=1")
    assert "connection refused" in verbose["checks"][0]["problem"]


async def test_metrics(world: World) -> None:
    await world.translate()
    await world.translate(404, link="nowhere")
    await world.get("/no/such/page?x=1", 404)
    async with world.client.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    lines = text.splitlines()
    assert 'heliograph_offset_map_ready{datacenter="jfk",link="jfk-nyc"} 1.0' in lines
    assert 'heliograph_offset_map_ready{datacenter="lga",link="lga-nyc"} 0.0' in lines
    assert 'heliograph_offset_map_age_seconds{datacenter="jfk",link="jfk-nyc"} 1.0' in lines
    assert 'heliograph_offset_map_lag_records{datacenter="jfk",link="jfk-nyc"} 0.0' in lines
    assert "heliograph_merged_topics 1.0" in lines
    assert (
        'heliograph_offset_translations_total{direction="forward",link="jfk-nyc",state="exact"} 1.0'
        in lines
    )
    assert re.search(r"^heliograph_build_info\{version=\"[^\"]+\"\} 1.0$", text, re.MULTILINE)
    assert re.search(
        r'http_server_request_duration_seconds_count\{[^}]*http_response_status_code="404"[^}]*'
        r'http_route="unmatched"',
        text,
    )
    assert "such" not in text
    # Nothing was read of lga: unknown has no sample, so that it cannot read as 0.
    assert not re.search(r"offset_map_(age_seconds|lag_records|partitions)\{[^}]*lga", text)


async def test_page_is_plain_and_complete(world: World) -> None:
    world.aggregate.maps.topic("ewr-nyc").set_failed("<script>alert(1)</script>")
    async with world.client.get("/") as response:
        assert response.content_type == "text/html"
        text = await response.text()
    for expected in ("jfk-nyc", "ewr.flights", "jfk.flights", "pending", "&lt;script&gt;"):
        assert expected in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


async def test_page_before_anything_is_known(starting: World) -> None:
    async with starting.client.get("/") as response:
        assert "are not known yet" in await response.text()


async def test_wrong_address_and_method(world: World) -> None:
    document = await world.get("/api/v1/translat", 404)
    assert document["did_you_mean"] == "/api/v1/translate"
    async with world.client.post("/api/v1/links") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET, HEAD"
