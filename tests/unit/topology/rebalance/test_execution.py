"""Execution of a plan: a few moves at a time, throttled, and continued by a later run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.controller.decisions.placement import Site
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.problems import DeployError
from topology.rebalance import execution
from topology.rebalance import run as rebalance_run
from topology.rebalance.execution import PARTITIONS_MOVING_MAX, Progress, Refused, execute
from topology.rebalance.layout import Layout
from topology.rebalance.planner import Move, PartitionLayout
from topology.rebalance.run import CONTINUES, Rebalance, rebalance

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


@dataclass
class Partition:
    """A partition in a response about reassignments."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


@dataclass
class Topic:
    name: str
    partitions: list[Partition]


@dataclass
class Config:
    name: str
    value: str


@dataclass
class Resource:
    """A resource in a response about configs."""

    resource_name: str
    configs: list[Config]
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass
class Response:
    """A response of any of the APIs that `Cluster` serves."""

    error_code: ErrorCode = ErrorCode.none
    topics: list[Topic] = field(default_factory=list)
    responses: list[Any] = field(default_factory=list)
    results: list[Resource] = field(default_factory=list)


class Cluster:
    """Brokers 1 and 2; a move is done after three requests for its state."""

    def __init__(self) -> None:
        self.moving: dict[TopicPartition, int] = {}
        self.begun: list[TopicPartition] = []
        self.most_at_once = 0
        self.elected: list[int] = []
        self.configs: dict[str, dict[str, str]] = {"1": {}, "2": {}, "t": {}}
        self.throttled_while_moving = True
        self.refused: set[int] = set()
        self.fails_at: ApiKey | None = None

    async def call_controller(self, api: ApiKey, fields: Mapping[str, Any]) -> Any:
        if api is self.fails_at:
            raise KafkaError(ErrorCode.network_exception, "no answer")
        if api is ApiKey.LIST_PARTITION_REASSIGNMENTS:
            return self._list()
        if api is ApiKey.ELECT_LEADERS:
            self.elected += fields["topic_partitions"][0]["partitions"]
            return Response()
        assert api is ApiKey.ALTER_PARTITION_REASSIGNMENTS
        assert not fields["allow_replication_factor_change"]
        (topic,) = fields["topics"]
        answers = [self._begin(each["partition_index"]) for each in topic["partitions"]]
        self.most_at_once = max(self.most_at_once, len(self.moving))
        return Response(responses=[Topic(topic["name"], answers)])

    def _begin(self, index: int) -> Partition:
        code = ErrorCode.invalid_replica_assignment if index in self.refused else ErrorCode.none
        if not code:
            self.moving[TopicPartition("t", index)] = 3
            self.begun.append(TopicPartition("t", index))
        return Partition(index, code)

    def _list(self) -> Response:
        self.throttled_while_moving &= not self.moving or RATE in self.configs["1"]
        self.moving = {key: left - 1 for key, left in self.moving.items() if left > 1}
        entries = [Partition(key.partition, adding_replicas=(2,)) for key in self.moving]
        return Response(topics=[Topic("t", entries)] if entries else [])

    async def call(
        self, api: ApiKey, fields: Mapping[str, Any], *, node_id: int | None = None
    ) -> Any:
        results = []
        for resource in fields["resources"]:
            configs = self.configs[resource["resource_name"]]
            for change in resource.get("configs", ()):
                configs.pop(change["name"], None)
                if change["value"] is not None:
                    configs[change["name"]] = change["value"]
            entries = [
                Config(name, configs[name])
                for name in resource.get("configuration_keys", ())
                if name in configs
            ]
            results.append(Resource(resource["resource_name"], entries))
        return Response(responses=[*results], results=results)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(execution, "POLL_S", 0)
    return Cluster()


def moves(count: int) -> list[Move]:
    return [Move(TopicPartition("t", index), (1,), (2,), 10) for index in range(count)]


def layout(count: int, *under_way: int) -> Layout:
    keys = [TopicPartition("t", index) for index in range(count)]
    return Layout(
        sites=(Site(1, "r", "h"), Site(2, "r", "h")),
        partitions={key: PartitionLayout(replicas=(1,)) for key in keys},
        replicas=dict.fromkeys(keys, (1,)),
        under_way={TopicPartition("t", index): (2,) for index in under_way},
    )


async def run(
    cluster: Cluster, layout: Layout, moves: list[Move], throttle: int | None = None
) -> list[Progress]:
    told: list[Progress] = []
    await execute(cluster, layout, moves, throttle=throttle, on_progress=told.append)
    return told


async def test_a_few_move_at_a_time_until_all_have_moved(cluster: Cluster) -> None:
    count = PARTITIONS_MOVING_MAX * 2 + 5
    told = await run(cluster, layout(count), moves(count))
    assert cluster.begun == [move.partition for move in moves(count)]
    assert cluster.most_at_once == PARTITIONS_MOVING_MAX
    assert told[-1] == Progress(moved=count, moving=0, planned=count)
    assert [each.moved for each in told] == sorted(each.moved for each in told)
    assert cluster.elected == list(range(count))


async def test_throttles_are_there_while_something_moves_and_gone_afterwards(
    cluster: Cluster,
) -> None:
    configs = cluster.configs
    changed: dict[str, str] = {}
    list_moves = cluster._list

    def watching() -> Any:
        changed.update(configs["t"])
        return list_moves()

    cluster._list = watching  # type: ignore[method-assign]
    await run(cluster, layout(2), moves(2), throttle=1000)
    assert changed == {LEADERS: "0:1,1:1", FOLLOWERS: "0:2,1:2"}
    assert cluster.throttled_while_moving
    assert configs == {"1": {}, "2": {}, "t": {}}


async def test_what_was_begun_before_is_waited_for_and_throttled(cluster: Cluster) -> None:
    cluster.moving[TopicPartition("t", 5)] = 3
    told = await run(cluster, layout(6, 5), [], throttle=1000)
    assert told[0] == Progress(moved=0, moving=1, planned=1)
    assert told[-1] == Progress(moved=1, moving=0, planned=1)
    assert cluster.throttled_while_moving
    assert cluster.configs == {"1": {}, "2": {}, "t": {}}


async def test_throttles_that_a_run_left_behind_go_with_the_next(cluster: Cluster) -> None:
    cluster.configs["1"][RATE] = "5"
    cluster.configs["t"][LEADERS] = "*"
    await run(cluster, layout(1), [])
    assert cluster.configs == {"1": {}, "2": {}, "t": {}}


async def test_what_is_refused_is_told_by_name(cluster: Cluster) -> None:
    cluster.refused = {1}
    with pytest.raises(Refused, match="t-1: invalid_replica_assignment"):
        await run(cluster, layout(3), moves(3))


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_cluster_that_does_not_answer_moves_nothing(dry_run: bool) -> None:
    with pytest.raises(DeployError, match="does not do it") as caught:
        rebalance(Rebalance(bootstrap="127.0.0.1:1", dry_run=dry_run))
    assert caught.value.details == ()


@pytest.mark.parametrize(
    ("fails_at", "details"),
    [
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, ()),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, (CONTINUES,)),
        (ApiKey.ELECT_LEADERS, (CONTINUES,)),
    ],
)
def test_running_moves_are_mentioned_only_after_a_move_was_requested(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    fails_at: ApiKey,
    details: tuple[str, ...],
) -> None:
    async def read_layout(client: Cluster) -> Layout:
        return layout(1)

    monkeypatch.setattr(
        rebalance_run, "KafkaClient", lambda *_, **__: contextlib.nullcontext(cluster)
    )
    monkeypatch.setattr(rebalance_run, "read_layout", read_layout)
    monkeypatch.setattr(rebalance_run, "plan_moves", lambda *_: moves(1))
    cluster.fails_at = fails_at
    with pytest.raises(DeployError, match="does not do it") as caught:
        rebalance(Rebalance(bootstrap="b:1"))
    assert caught.value.details == details
