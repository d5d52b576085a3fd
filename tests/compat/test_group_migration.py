"""Groups that change between the classic and the consumer protocol, with clients as they are.

The Java program rolls a group member by member under load. Where this says "nothing twice", a
member commits what it processed before it gives a partition away.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.compat.conftest import Broker
from tests.compat.test_consumer_protocol import (
    PARTITIONS,
    Members,
    create,
    name,
    produce,
)
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import broker_jars, java_command

pytestmark = [pytest.mark.real, pytest.mark.oracle]

PROGRAM: Final = Path(__file__).parent / "java44" / "MigrateGroup.java"
FAST: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


async def roll(bootstrap: str, *arguments: str) -> dict[str, Any]:
    """Run the program; return what it found."""
    process = await asyncio.create_subprocess_exec(
        *java_command(str(PROGRAM), jars=broker_jars()),
        bootstrap,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    found: dict[str, Any] = json.loads(output.decode().splitlines()[-1])
    print(found)
    return found


def check(found: dict[str, Any]) -> None:
    """Nothing is lost or processed twice, and the group has the type of its members."""
    assert found["failures"] == ""
    assert found["processed"] == found["produced"]
    assert (found["twice"], found["lost"], found["refused"], found["went_back"]) == (0, 0, 0, 0)
    types = [phase["type"] for phase in found["phases"]]
    assert types == ["Consumer"] * 5 + ["Classic"]


async def test_a_rolling_upgrade_and_downgrade_under_load(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path, config=FAST) as broker:
        check(await roll(broker.bootstrap, "CooperativeStickyAssignor"))


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["CooperativeStickyAssignor", "RangeAssignor"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
async def test_every_kind_of_member(either_broker: Broker, assignor: str, kind: str) -> None:
    """With Kafka's own intervals. Kafka may lose partitions in the last step of the downgrade."""
    check(await roll(either_broker.bootstrap, assignor, kind))


async def test_librdkafka_members_of_both_protocols(zookeeper: str, tmp_path: Path) -> None:
    """Of the eager protocol: librdkafka's cooperative assignor adds data, which cannot migrate."""
    async with running_broker(zookeeper, tmp_path, config=FAST) as broker:
        topic, group = name("t"), name("g")
        await create(broker, topic)
        await asyncio.to_thread(produce, broker, topic, 0, 300)
        await asyncio.to_thread(_share, broker, topic, group)


CLASSIC: Final = {
    "group.protocol": "classic",
    "heartbeat.interval.ms": 200,
    "session.timeout.ms": 6_000,
}


def _share(broker: Any, topic: str, group: str) -> None:
    classic = {**CLASSIC, "partition.assignment.strategy": "range"}
    members = Members(broker, group)
    members.add(topic, **classic)
    members.poll_until(lambda: members.shares() == [PARTITIONS] and len(members.seen) == 300)
    members.add(topic, **classic)
    members.poll_until(lambda: members.shares() == [3, 3])
    newcomer = members.add(topic)
    members.poll_until(lambda: members.shares() == [2, 2, 2])
    held = [str(p) for consumer in members.consumers for p in consumer.assignment()]
    assert len(set(held)) == PARTITIONS, "no partition has two owners"
    assert protocol_of(broker, group) == "CONSUMER"
    produce(broker, topic, 300, 300)
    members.poll_until(lambda: len(members.seen) == 600)
    members.close(newcomer)
    members.poll_until(lambda: members.shares() == [3, 3])
    assert protocol_of(broker, group) == "CLASSIC"
    produce(broker, topic, 600, 300)
    members.poll_until(lambda: len(members.seen) == 900)
    for consumer in list(members.consumers):
        members.close(consumer)
    assert sorted(members.seen) == list(range(900)), "each once"


def protocol_of(broker: Any, group: str) -> str:
    """Return the type of a group as administrators see it."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_consumer_groups().result()
    (found,) = (each for each in listed.valid if each.group_id == group)
    return str(found.type.name)
