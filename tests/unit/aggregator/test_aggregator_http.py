"""The HTTP API over an in-memory aggregate, through a real aiohttp server."""

from __future__ import annotations

import contextlib
import re
import socket
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import BaseTestServer, TestClient, TestServer

from aggregator import aggregate as aggregate_module
from aggregator.aggregate import Aggregate
from aggregator.link_map import LinkMap
from aggregator.metrics import AggregatorMetrics
from aggregator.mirror_watcher import MirrorWatcher
from aggregator.topic_watcher import TopicWatcher
from aggregator.web.app import make_app
from local_cluster.records.batch import Record
from mirror_maker.assignment import Subscription, encode_subscription
from mirror_maker.formats import FlowKey
from mirror_maker.formats.audit import (
    AuditChunk,
    Bucket,
    Side,
    audit_topic_name,
    encode_audit,
)
from mirror_maker.formats.workers import WorkerAddress
from tests.unit.aggregator.fakes import (
    FakeCluster,
    FakeTopic,
    opening_and_block,
    settings_of,
)

_FLIGHTS_ID = uuid.UUID(int=4)


class World:
    """An aggregator's HTTP side, with everything behind it in memory."""

    def __init__(self) -> None:
        self.cluster, self.source = FakeCluster(), FakeCluster()
        self.cluster.topics = {
            "jfk.flights": FakeTopic(partitions=2, topic_id=_FLIGHTS_ID),
            "ewr.flights": FakeTopic(partitions=3),
            "reports": FakeTopic(),
        }
        self.now = 50.0
        self.opened: list[str] = []
        self.aggregate = Aggregate(
            settings_of("jfk", "ewr", "lga"),
            open_source=self._open_source,
            open_aggregate=lambda: self.cluster,
            monotonic=lambda: self.now,
        )
        self.client: TestClient[Any, Any]

    def _open_source(self, link: Any) -> FakeCluster:
        self.opened.append(link.name)
        return self.source

    async def load(self) -> None:
        await TopicWatcher(self.cluster, self.aggregate).step()
        link_map = LinkMap()
        for key, value in opening_and_block(
            "flights", 0, "jfk.flights", _FLIGHTS_ID, [(0, 100, 50)]
        ):
            link_map.apply(Record(0, 0, key, value))
        maps = self.aggregate.maps
        maps.set_loading("jfk-nyc", link_map)
        maps.note_read("jfk-nyc", 2, 2, 49.0)
        maps.set_loading("ewr-nyc", LinkMap())
        maps.note_read("ewr-nyc", 0, 0, 50.0)
        maps.set_missing("lga-nyc")

    async def get(self, path: str, status: int = 200) -> Any:
        async with self.client.get(path) as response:
            document = await response.json()
            assert response.status == status, document
            return document

    async def translate(self, status: int = 200, **query: object) -> Any:
        given = {"link": "jfk-nyc", "topic": "flights", "partition": 0, "offset": 23} | query
        text = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return await self.get(f"/api/v1/translate?{text}", status)


@pytest.fixture
async def starting() -> AsyncIterator[World]:
    """Nothing is known yet."""
    world = World()
    metrics = AggregatorMetrics(world.aggregate)
    async with TestClient(TestServer(make_app(world.aggregate, metrics))) as client:
        world.client = client
        yield world
    metrics.close()


@pytest.fixture
async def world(starting: World) -> World:
    """Topics are known; jfk's map is read, ewr's is empty, lga has not started."""
    await starting.load()
    return starting


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
    starting.aggregate.maps.set_loading("ewr-nyc", LinkMap())
    await starting.translate(200)
    await starting.translate(503, link="ewr-nyc")
    starting.aggregate.maps.set_failed("ewr-nyc", "format version 9")
    assert "format version 9" in (await starting.translate(503, link="ewr-nyc"))["message"]


async def test_contradictory_map_is_503(world: World) -> None:
    link_map = LinkMap()
    for runs in ([(0, 100, 10)], [(5, 50, 10)]):
        for key, value in opening_and_block("flights", 0, "jfk.flights", _FLIGHTS_ID, runs):
            link_map.apply(Record(0, 0, key, value))
    world.aggregate.maps.set_loading("jfk-nyc", link_map)
    world.aggregate.maps.note_read("jfk-nyc", 1, 1, 0.0)
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
    starting.aggregate.maps.set_loading("ewr-nyc", LinkMap())
    verbose = await starting.get("/readyz?verbose=1", 503)
    assert [(c["check"], c["passed"]) for c in verbose["checks"]] == [
        ("topics of the aggregate", True),
        ("offset map of link jfk-nyc", True),
        ("offset map of link ewr-nyc", False),
        ("offset map of link lga-nyc", True),
    ]
    starting.aggregate.maps.note_read("ewr-nyc", 0, 0, 0.0)
    assert await starting.get("/readyz") == {"ready": True}
    # Reading one map again later must not take the others out of rotation.
    starting.aggregate.maps.set_loading("ewr-nyc", LinkMap())
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
    world.aggregate.maps.set_failed("ewr-nyc", "<script>alert(1)</script>")
    async with world.client.get("/") as response:
        assert response.content_type == "text/html"
        text = await response.text()
    for expected in ("jfk-nyc", "ewr.flights", "jfk.flights", "pending", "&lt;script&gt;"):
        assert expected in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


async def test_page_before_anything_is_known(starting: World) -> None:
    async with starting.client.get("/") as response:
        assert "Not known yet" in await response.text()


async def test_wrong_address_and_method(world: World) -> None:
    document = await world.get("/api/v1/translat", 404)
    assert document["did_you_mean"] == "/api/v1/translate"
    async with world.client.post("/api/v1/links") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET, HEAD"


async def test_audit_names_the_bucket_that_differs(world: World) -> None:
    same, lost = Side(10, 0, 9, 77), Side(4, 10, 13, 5)
    chunk = AuditChunk(
        flow=FlowKey("flights", 0, uuid.UUID(int=1), _FLIGHTS_ID),
        producer_epoch=0,
        nonce=1,
        target_topic="jfk.flights",
        source_from=0,
        source_to=14,
        written_at_ms=1,
        buckets={
            0: Bucket(same, same._replace(offset_first=100, offset_last=109)),
            600_000: Bucket(lost, Side(3, 110, 112, 4)),
        },
    )
    topic = FakeTopic()
    topic.append(encode_audit(chunk))
    world.cluster.topics[audit_topic_name("jfk-nyc")] = topic
    audit = await world.get("/api/v1/audit?link=jfk-nyc")
    assert audit["equal"] is False
    assert audit["records"] == {"source": 14, "target": 13}
    (differing,) = audit["differing"]
    assert (differing["topic"], differing["partition"], differing["start_ms"]) == (
        ("flights", 0, 600_000)
    )
    assert (differing["source"]["offset_first"], differing["source"]["offset_last"]) == (10, 13)
    assert (differing["target"]["records"], differing["target"]["hash"]) == (3, f"{4:016x}")
    assert [part["buckets"] for part in audit["partitions"]] == [2]
    one = await world.get("/api/v1/audit?link=jfk-nyc&topic=flights&partition=0")
    assert [bucket["equal"] for bucket in one["partitions"][0]["buckets"]] == [True, False]


async def test_audit_refusals(world: World) -> None:
    missing = await world.get("/api/v1/audit?link=ewr-nyc", 404)
    assert "published no audit" in missing["message"]
    topic = FakeTopic()
    topic.append((b"key", b"no audit"))
    world.cluster.topics[audit_topic_name("jfk-nyc")] = topic
    assert (await world.get("/api/v1/audit?link=jfk-nyc", 502))["error"] == "aggregate_error"
    assert (await world.get("/api/v1/audit", 400))["parameter"] == "link"
    assert (await world.get("/api/v1/audit?link=jfk-ny", 404))["did_you_mean"] == "jfk-nyc"


def worker(*flows: dict[str, Any], known: int = 2, link: str = "jfk-nyc") -> dict[str, Any]:
    """What a mirror worker's /status has of one link."""
    return {
        "target": "nyc",
        "links": [{"name": link, "partitions_known": known, "flows": list(flows)}],
    }


def copied_flow(partition: int, records: int | None, seconds: float | None) -> dict[str, Any]:
    return {
        "topic": "flights",
        "partition": partition,
        "target_topic": "jfk.flights",
        "state": "RUNNING",
        "lag_records": records,
        "lag_bytes": None if records is None else 10 * records,
        "lag_seconds": seconds,
    }


async def test_lag_is_the_same_in_api_metrics_and_page(world: World) -> None:
    world.aggregate.set_workers([worker(copied_flow(0, 3, 0.5)), worker(copied_flow(1, 4, 2.0))])
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["bytes"], jfk["seconds"]) == (7, 70, 2.0)
    assert [part["records"] for part in jfk["partitions"]] == [3, 4]
    (linked, *_) = (await world.get("/api/v1/links"))["links"]
    assert linked["lag"] == {"records": 7, "bytes": 70, "seconds": 2.0}
    async with world.client.get("/metrics") as response:
        text = await response.text()
    labels = '{datacenter="jfk",link="jfk-nyc"}'
    for line in ("records{} 7.0", "bytes{} 70.0", "seconds{} 2.0"):
        assert f"heliograph_link_lag_{line.replace('{}', labels)}\n" in text
    async with world.client.get("/") as response:
        page = await response.text()
    assert "<td class=number>7</td>" in page


@pytest.mark.parametrize(
    "workers",
    [
        [],
        [worker(copied_flow(0, 3, 0.5))],
        [worker(copied_flow(0, 3, 0.5), copied_flow(1, None, None))],
        [worker(known=0)],
    ],
    ids=["no worker", "a partition that nobody tells of", "one unknown", "nothing known"],
)
async def test_an_unknown_lag_is_null_and_has_no_sample(
    world: World, workers: list[dict[str, Any]]
) -> None:
    world.aggregate.set_workers(workers)
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["bytes"], jfk["seconds"]) == (None, None, None)
    async with world.client.get("/metrics") as response:
        assert "heliograph_link_lag" not in await response.text()


async def test_a_partition_that_is_handed_over_counts_once(world: World) -> None:
    world.aggregate.set_workers(
        [worker(copied_flow(0, None, None), copied_flow(1, 1, 0.1)), worker(copied_flow(0, 5, 0.2))]
    )
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert jfk["records"] == 6


async def test_workers_are_found_in_their_group_wherever_they_run(world: World) -> None:
    here, cluster = socket.gethostname(), world.cluster
    async with contextlib.AsyncExitStack() as stack:
        loopback, far, unreachable, other = [
            await stack.enter_async_context(status_server(document))
            for document in (
                worker(copied_flow(0, 3, 0.5)),
                worker(copied_flow(1, 4, 0.5)),
                worker(copied_flow(1, 50, 0.5)),
                {**worker(copied_flow(0, 60, 0.5)), "target": "another"},
            )
        ]
        cluster.worker_group_state = "Stable"
        cluster.workers = [
            ("/10.0.0.1", said(loopback, "127.0.0.1", here)),
            ("far.example/127.0.0.1", said(far, "0.0.0.0", "elsewhere")),
            ("/127.0.0.1", said(unreachable, "127.0.0.1", "elsewhere")),
            ("/127.0.0.1", said(other, "127.0.0.1", here)),
            ("/127.0.0.1", said(None)),
            ("/127.0.0.1", b"\2 another version"),
        ]
        watcher = MirrorWatcher(world.aggregate, cluster)
        session = await stack.enter_async_context(ClientSession())
        await watcher.find()
        await watcher.ask(session)
        assert world.aggregate.link_lag("jfk-nyc").records == 3 + 4

        cluster.worker_group_state, cluster.workers = "PreparingRebalance", []
        await watcher.find()
        cluster.down = True
        await watcher.find()
        await watcher.ask(session)
        assert world.aggregate.link_lag("jfk-nyc").records == 3 + 4, "they are those of before"

        await far.close()
        await watcher.ask(session)
        assert world.aggregate.link_lag("jfk-nyc").records is None, "nothing old is kept"

        cluster.down, cluster.worker_group_state = False, "Empty"
        await watcher.find()
        await watcher.ask(session)
        assert world.aggregate.link_lag("jfk-nyc").partitions_known is None


def status_server(document: dict[str, Any]) -> TestServer:
    async def status(request: web.Request) -> web.Response:
        return web.json_response(document)

    app = web.Application()
    app.router.add_get("/status", status)
    return TestServer(app, host="127.0.0.1")


def said(server: BaseTestServer | None, host: str = "", machine: str = "") -> bytes:
    """What a worker that serves there says when it joins."""
    address = None
    if server is not None:
        assert server.port is not None
        address = WorkerAddress(host, server.port, machine)
    return encode_subscription(Subscription(frozenset(), frozenset(), 1, address))
