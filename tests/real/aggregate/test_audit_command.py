"""`heliograph audit` on a deployment whose copies are first correct, and later not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

WAIT_S = 60.0
RECORDS = 10
TOPOLOGY = """\
name: audited
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    brokers: [{{id: 1, port: {1}}}]
  - name: nyc
    kind: aggregate
    brokers: [{{id: 1, port: {2}}}]
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    command.file.write_text(TOPOLOGY.format(*quiet_ports(3)))
    try:
        command.up()
        yield command
    finally:
        if command.state_dir.exists():
            command.run("down", "--purge")


def _bootstrap(command: HeliographCommand, cluster: str) -> str:
    clusters = command.document("status")["clusters"]
    return str(next(each["bootstrap"] for each in clusters if each["name"] == cluster))


def _produce(bootstrap: str, topic: str, partition: int, values: list[bytes]) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for value in values:
                await producer.send_and_wait(topic, value, partition=partition)

    asyncio.run(produce())


def _until(
    command: HeliographCommand, is_so: Callable[[Any], bool], *arguments: str
) -> dict[str, Any]:
    """Return the first audit of the only link that satisfies the condition."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        links = command.document("audit", *arguments)["links"]
        if links and is_so(links[0]):
            return dict(links[0])
        assert time.monotonic() < deadline_s, links
        time.sleep(0.3)


def _counts(link: Any, part: str = "partitions") -> list[dict[str, int]]:
    return [each["records"] for each in link[part]]


def test_an_audit_of_copies_that_are_well_and_then_are_not(command: HeliographCommand) -> None:
    source, target = _bootstrap(command, "jfk"), _bootstrap(command, "nyc")

    async def create() -> None:
        async with KafkaClient(source) as client:
            topic = NewTopic(name="flights", partitions=2, replication_factor=1)
            assert (await client.create_topics([topic]))["flights"] is None

    asyncio.run(create())
    for partition in range(2):
        _produce(source, "flights", partition, [b"%d" % each for each in range(RECORDS)])
    complete = [{"COMPLETE": RECORDS}] * 2
    link = _until(command, lambda link: _counts(link) == complete)
    assert link["is_well"]
    assert [each["audited_to"] for each in link["partitions"]] == [RECORDS, RECORDS]
    (link,) = command.run("audit", "jfk.flights", "--records", "--since", "1h")["links"]
    assert _counts(link, "records_read") == complete

    said = command.complain("audit", "fligts", code=2)
    assert "no link or mirrored topic 'fligts'; did you mean 'flights'?" in said
    assert "neither a duration such as 30m" in command.complain("audit", "--since", "soon", code=2)

    _produce(target, "jfk.flights", 0, [b"not yours"])
    link = _until(command, lambda link: not link["is_well"], "flights")
    (finding,) = link["partitions"][0]["findings"]
    assert (finding["verdict"], finding["target_from"]) == ("FOREIGN", RECORDS)
    (link,) = command.run("audit", "jfk-nyc", "--records", code=4)["links"]
    one, other = link["records_read"]
    assert other["is_well"]
    (fault,) = one["faults"]
    assert (fault["verdict"], fault["target_offset"]) == ("FOREIGN", RECORDS)
    assert fault["target_record"]["value"] == "not yours"
    status = command.run("status", code=4)
    reason = f"the audit found flights-0: FOREIGN at target offset {RECORDS}"
    assert any(reason in str(each["reason"]) for each in status["problems"]), status["problems"]

    async def delete() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=target)
        await admin.start()
        try:
            await admin.delete_records(
                {TopicPartition("jfk.flights", 1): RecordsToDelete(before_offset=4)}
            )
        finally:
            await admin.close()

    asyncio.run(delete())
    (link,) = command.run("audit", "flights", "--records", code=4)["links"]
    assert link["records_read"][1]["records"] == {"COMPLETE": RECORDS - 4, "CLEANED": 4}
