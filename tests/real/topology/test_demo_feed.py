"""The demo's producers: acknowledged records exist, and a refused one is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.cluster import running_broker
from topology.demo.feed import PARTITIONS, TOPIC, FeedError, create_topic, feed_airports
from topology.demo.flights import AirportFlights

pytestmark = pytest.mark.real

FLIGHTS = AirportFlights(
    keys=[b"UA", b"AA", b"B6"] * 1_500,
    values=[b'{"flight":%d}' % number for number in range(4_500)],
    timestamps_ms=[1_357_034_400_000 + number for number in range(4_500)],
)


async def test_flights_arrive_once_in_order_of_their_carrier(
    zookeeper: str, tmp_path: Path
) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        create_topic({"bootstrap.servers": broker.bootstrap})
        create_topic(
            {"bootstrap.servers": broker.bootstrap}
        )  # a topic that is there already is fine
        seen: list[tuple[str, int]] = []
        fed = feed_airports(
            {"jfk": FLIGHTS},
            {"jfk": {"bootstrap.servers": broker.bootstrap}},
            lambda *said: seen.append(said),
        )
        assert fed == len(FLIGHTS)
        assert seen[-1] == ("jfk", len(FLIGHTS))
        async with KafkaClient(broker.bootstrap) as client:
            records = [
                record
                for partition in range(PARTITIONS)
                async for record in read_topic(client, TOPIC, partition=partition)
            ]
            configs = (await client.describe_topic_configs([TOPIC]))[TOPIC]
    for carrier in (b"UA", b"AA", b"B6"):
        found = [(r.value, r.timestamp_ms) for r in records if r.key == carrier]
        assert found == [
            (value, timestamp)
            for key, value, timestamp in zip(
                FLIGHTS.keys, FLIGHTS.values, FLIGHTS.timestamps_ms, strict=True
            )
            if key == carrier
        ]
    assert configs["retention.ms"][0] == "-1"


async def test_a_refused_flight_is_told(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            small = NewTopic(name=TOPIC, partitions=1, configs={"max.message.bytes": "100"})
            created = await client.create_topics([small])
            assert not any(created.values()), created
        with pytest.raises(FeedError, match="jfk: a flight was not accepted"):
            feed_airports(
                {"jfk": FLIGHTS},
                {"jfk": {"bootstrap.servers": broker.bootstrap}},
                lambda *said: None,
            )
