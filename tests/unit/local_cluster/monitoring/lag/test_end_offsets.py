"""End offsets of partitions that other brokers lead: asked at their leaders, or unknown."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.monitoring.lag import end_offsets
from local_cluster.monitoring.lag.end_offsets import EndOffsets
from local_cluster.monitoring.sliced import Slices
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

OWN, WELL, SILENT = 1, 2, 3
LEADERS = {0: OWN, 1: WELL, 2: WELL, 3: SILENT, 4: NO_LEADER}


class FakePeers:
    """Broker 2 answers with 100 and the partition's number, and refuses partition 2."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    async def call(self, broker_id: int, api: ApiKey, fields: Any, version: int) -> Any:
        assert api is ApiKey.LIST_OFFSETS
        wanted = [each["partition_index"] for of in fields["topics"] for each in of["partitions"]]
        self.asked.append((broker_id, len(wanted)))
        if broker_id == SILENT:
            raise KafkaError(ErrorCode.network_exception, "it does not answer")
        partitions = [
            SimpleNamespace(
                partition_index=index,
                offset=-1 if index == 2 else 100 + index,
                error_code=ErrorCode.not_leader_or_follower if index == 2 else ErrorCode.none,
            )
            for index in wanted
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])


def ends(peers: FakePeers) -> EndOffsets:
    own = SimpleNamespace(is_leader=True, high_watermark=7)
    follower = SimpleNamespace(is_leader=False, high_watermark=5)
    replicas: Any = SimpleNamespace(get=lambda topic, index: {0: own, 1: follower}.get(index))
    metadata: Any = SimpleNamespace(
        partition=lambda topic, index: PartitionState(
            index, (1, 2, 3), LEADERS.get(index, WELL), 0, (1,), 0
        )
    )
    return EndOffsets(replicas, metadata, peers, OWN)


async def test_what_a_leader_does_not_answer_is_unknown() -> None:
    found = await ends(FakePeers()).find([("t", index) for index in LEADERS], Slices())
    assert found == {("t", 0): 7, ("t", 1): 101}


async def test_a_request_has_a_limit_and_names_each_partition_once() -> None:
    peers = FakePeers()
    many = [("t", 10 + index % 450) for index in range(900)]
    found = await ends(peers).find(many, Slices())
    assert sorted(peers.asked) == [(WELL, 50), (WELL, 200), (WELL, 200)]
    assert len(found) == 450


async def test_a_slow_leader_is_not_waited_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(end_offsets, "RESPONSE_WAIT_MS_MAX", 20)

    class SlowPeers(FakePeers):
        async def call(self, broker_id: int, api: ApiKey, fields: Any, version: int) -> Any:
            await asyncio.Event().wait()

    assert await ends(SlowPeers()).find([("t", 0), ("t", 1)], Slices()) == {("t", 0): 7}
