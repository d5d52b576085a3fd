"""Lag in seconds: looked up once, at the leader, and unknown without its answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.groups.offset_times import AT_END, Place, Time, decode_places, encode_times
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.monitoring.lag import unread_times
from local_cluster.monitoring.lag.unread_times import UnreadTimes, lag_seconds
from local_cluster.monitoring.sliced import Slices
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

OWN, OTHER, SILENT = 1, 2, 3
LEADERS = {0: OWN, 1: OTHER, 2: SILENT, 3: OTHER, 4: OTHER}
ENDS = {("t", index): 10 for index in LEADERS}


class FakePeers:
    """Broker 2 knows partition 1, has nothing to read in 3, and does not lead 4."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def call_raw(self, broker_id: int, api: ApiKey, body: bytes) -> bytes:
        assert api is ApiKey.OFFSET_TIMES
        self.asked.append(broker_id)
        if broker_id == SILENT:
            raise KafkaError(ErrorCode.network_exception, "it does not answer")
        times: dict[int, Time] = {1: 700, 3: AT_END, 4: None}
        return encode_times([times[place.partition] for place in decode_places(body)])


class FakeReader:
    def __init__(self) -> None:
        self.reads = 0

    def unread_time(self, offset: int, limit: int) -> int:
        self.reads += 1
        return 600


def lookups(peers: FakePeers, reader: FakeReader) -> UnreadTimes:
    own = SimpleNamespace(is_leader=True, high_watermark=10, log=SimpleNamespace(reader=reader))
    replicas: Any = SimpleNamespace(get=lambda topic, index: own if index == 0 else None)
    metadata: Any = SimpleNamespace(
        partition=lambda topic, index: PartitionState(index, (1, 2, 3), LEADERS[index], 0, (1,), 0)
    )
    return UnreadTimes(replicas, metadata, peers, ColdReads())


def coordinator(offset: int = 4) -> Any:
    committed = {("t", index): SimpleNamespace(offset=offset) for index in LEADERS}
    offsets = SimpleNamespace(group_ids=lambda: ["g"], committed=lambda group: committed)
    return SimpleNamespace(shards=lambda: [SimpleNamespace(state=SimpleNamespace(offsets=offsets))])


async def test_what_is_known_is_not_asked_again() -> None:
    peers, reader = FakePeers(), FakeReader()
    times = lookups(peers, reader)
    found = await times.find(coordinator(), ENDS, Slices())
    behind = [lag_seconds(Place("t", index, 4), 10, found, 1_000) for index in LEADERS]
    assert behind == [0.4, 0.3, None, 0.0, None]
    assert await times.find(coordinator(), ENDS, Slices()) == found
    assert (reader.reads, sorted(peers.asked)) == (1, [OTHER, OTHER, SILENT, SILENT])


async def test_a_group_without_a_lag_asks_nobody() -> None:
    peers, reader = FakePeers(), FakeReader()
    assert await lookups(peers, reader).find(coordinator(10), ENDS, Slices()) == {}
    assert (reader.reads, peers.asked) == (0, [])
    assert lag_seconds(Place("t", 0, 12), 10, {}, 1_000) == 0


async def test_a_scrape_has_a_limit_of_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_times, "LOOKUPS_PER_SCRAPE_MAX", 1)
    peers, reader = FakePeers(), FakeReader()
    times = lookups(peers, reader)
    assert await times.find(coordinator(), ENDS, Slices()) == {Place("t", 0, 4): 600}
    assert Place("t", 1, 4) in await times.find(coordinator(), ENDS, Slices())


async def test_a_scrape_does_not_wait_long_for_cold_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread_times, "LOOKUP_SECONDS_MAX", 0)
    peers, reader = FakePeers(), FakeReader()
    found = await lookups(peers, reader).find(coordinator(), ENDS, Slices())
    assert (reader.reads, found[Place("t", 1, 4)]) == (0, 700)
    assert Place("t", 0, 4) not in found
