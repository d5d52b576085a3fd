"""An aggregator's HTTP API over clusters in memory, through a real aiohttp server."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from aiohttp.test_utils import TestClient

from aggregator.aggregate import Aggregate
from aggregator.maps.link_map import LinkMap
from aggregator.probe.link_probe import link_probes
from aggregator.watchers import TopicWatcher
from local_cluster.records.batch import Record
from tests.unit.aggregator.fakes import FakeCluster, FakeTopic, opening_and_block, settings_of

FLIGHTS_ID = uuid.UUID(int=4)


class World:
    """An aggregator's HTTP API, with everything behind it in memory."""

    def __init__(self) -> None:
        self.cluster, self.source = FakeCluster(), FakeCluster()
        self.cluster.topics = {
            "jfk.flights": FakeTopic(partitions=2, topic_id=FLIGHTS_ID),
            "ewr.flights": FakeTopic(partitions=3),
            "reports": FakeTopic(),
        }
        self.now = 50.0
        self.opened: list[str] = []
        settings = settings_of("jfk", "ewr", "lga")
        jfk, *others = settings.links
        settings = replace(settings, links=(replace(jfk, probe=True), *others))
        self.aggregate = Aggregate(
            settings,
            open_source=self._open_source,
            open_aggregate=lambda: self.cluster,
            monotonic=lambda: self.now,
            now_ms=lambda: int(self.now * 1000),
            probes=link_probes(settings, run_id="5eed", now_ms=self.now * 1000),
        )
        self.client: TestClient[Any, Any]

    def _open_source(self, link: Any) -> FakeCluster:
        self.opened.append(link.name)
        return self.source

    async def load(self) -> None:
        await TopicWatcher(self.cluster, self.aggregate).step()
        link_map = LinkMap()
        for key, value in opening_and_block(
            "flights", 0, "jfk.flights", FLIGHTS_ID, [(0, 100, 50)]
        ):
            link_map.apply(Record(0, 0, key, value))
        maps = self.aggregate.maps
        maps.topic("jfk-nyc").begin()
        maps.topic("jfk-nyc").value = link_map
        maps.topic("jfk-nyc").note_read(2, 2, 49.0)
        maps.topic("ewr-nyc").begin()
        maps.topic("ewr-nyc").note_read(0, 0, 50.0)
        maps.topic("lga-nyc").set_missing()

    async def get(self, path: str, status: int = 200) -> Any:
        async with self.client.get(path) as response:
            document = await response.json()
            assert response.status == status, document
            return document

    async def translate(self, status: int = 200, **query: object) -> Any:
        given = {"link": "jfk-nyc", "topic": "flights", "partition": 0, "offset": 23} | query
        text = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return await self.get(f"/api/v1/translate?{text}", status)
