"""The rights of a mirror's principals, against Apache Kafka with an authorizer: what is taken away
in mid-copy and given back loses nothing, and stops nothing else.

One cluster is both sides; copies lie beside their sources.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import ClientSession

from local_cluster.client.acls import (
    Acl,
    PatternType,
    Permission,
    ResourceType,
    create_acls,
    delete_acls,
)
from local_cluster.client.acls import (
    Operation as Op,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.configs import alter_topic_configs
from local_cluster.client.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats import gaps_topic_name
from mirror_maker.settings import Limits
from mirror_maker.trouble import Policies
from tests.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records
from tests.producing import produce_to
from tests.secure_kafka import SecureKafka, running_secure_kafka

pytestmark = [
    pytest.mark.real,
    pytest.mark.oracle,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

WAIT_SECONDS_MAX = 120.0
T0 = TopicPartition("t", 0)
COPY = TopicPartition("a.t", 0)
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
KAFKA_CLUSTER = "kafka-cluster"
"""What ACLs on the cluster name it."""
READER, WRITER = "reader", "writer"
SYNCS = "mm2-offset-syncs.b.internal"


def acl(user: str, kind: ResourceType, name: str, operation: Op, *, prefixed: bool = False) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, name, pattern, f"User:{user}", "*", operation, Permission.ALLOW)


def acls(
    user: str, kind: ResourceType, name: str, *operations: Op, prefixed: bool = False
) -> list[Acl]:
    return [acl(user, kind, name, operation, prefixed=prefixed) for operation in operations]


DOCUMENTED = [
    *acls(READER, TOPIC, "t", Op.READ, Op.DESCRIBE_CONFIGS),
    *acls(READER, TOPIC, "u", Op.READ, Op.DESCRIBE_CONFIGS),
    *acls(READER, TOPIC, "later-", Op.READ, Op.DESCRIBE_CONFIGS, prefixed=True),
    *acls(READER, GROUP, "app", Op.DESCRIBE),
    *acls(READER, GROUP, "lag", Op.READ),
    *acls(READER, CLUSTER, KAFKA_CLUSTER, Op.DESCRIBE),
    *acls(READER, TOPIC, SYNCS, Op.CREATE, Op.WRITE),
    *acls(READER, TOPIC, "heartbeats", Op.CREATE, Op.WRITE, Op.READ, Op.DESCRIBE_CONFIGS),
    *acls(WRITER, GROUP, "heliograph-mirror-b", Op.READ),
    *acls(WRITER, TOPIC, "heliograph-", Op.CREATE, Op.READ, Op.WRITE, prefixed=True),
    *acls(WRITER, TOPIC, "a.", Op.CREATE, Op.READ, Op.WRITE, Op.ALTER, prefixed=True),
    *acls(WRITER, TOPIC, "a.", Op.ALTER_CONFIGS, prefixed=True),
    *acls(WRITER, GROUP, "app", Op.READ),
    *acls(WRITER, CLUSTER, KAFKA_CLUSTER, Op.ALTER),
    *acls(WRITER, TOPIC, "heartbeats", Op.CREATE, Op.WRITE),
]
"""The table "Security and rights" of mirror_maker/README.md, for a link that does everything."""


@dataclass
class World:
    """The cluster, and what goes on in it."""

    kafka: SecureKafka
    admin: KafkaClient
    serial: itertools.count[int] = field(default_factory=itertools.count)

    async def write(self) -> None:
        """One more of everything that a link follows: records, a position, a config, an ACL."""
        number = next(self.serial)
        record = NewRecord(1_790_000_000_000 + number, b"k%d" % number, b"v")
        for topic in ("t", "u"):
            await produce_to(self.admin, TopicPartition(topic, 0), encode_batch([record]))
        commit = {T0: CommittedOffset(number, -1, "")}
        assert await commit_offsets(self.admin, "app", commit) == {T0: ErrorCode.none}
        retention = {"retention.ms": str(10**12 + number)}
        assert await alter_topic_configs(self.admin, {"t": retention}) == {"t": None}
        user = acl(f"user-{number}", TOPIC, "t", Op.READ)
        assert await create_acls(self.admin, [user]) == {user: None}


async def create(client: KafkaClient, name: str) -> None:
    # The records have a time of their own; by time they would be deleted.
    new = NewTopic(name=name, partitions=1, configs={"retention.ms": "-1"})
    assert (await client.create_topics([new]))[name] is None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with (
        running_secure_kafka(tmp_path / "kafka") as kafka,
        KafkaClient(kafka.plain_bootstrap) as admin,
    ):
        for name in (READER, WRITER):
            await kafka.add_user(admin, name)
        assert not any((await create_acls(admin, DOCUMENTED)).values())
        for name in ("t", "u"):
            await create(admin, name)
        yield World(kafka, admin)


def worker_of(
    world: World, directory: Path, **link_settings: Any
) -> contextlib.AbstractAsyncContextManager[MirrorProcess]:
    return mirror(
        directory,
        world.kafka.bootstrap,
        world.kafka.bootstrap,
        source_security=world.kafka.security(READER),
        target_security=world.kafka.security(WRITER),
        limits=Limits(topic_sync_ms=500, source_group_ms=500, pause_ms_max=2_000),
        **link_settings,
    )


async def until(condition: Callable[[], Awaitable[bool]], worker: MirrorProcess) -> None:
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not await condition():
                await asyncio.sleep(0.2)
    except TimeoutError:
        link = await worker.link()
        shown = {key: link[key] for key in ("state", "reason", "rights_missing", "groups")}
        raise AssertionError(f"{shown}\n{worker.log_text()[-4000:]}") from None


TAKEN = {
    "source": next(each for each in DOCUMENTED if each[1] == "t" and each.operation == Op.READ),
    "target": acl(WRITER, TOPIC, "a.t", Op.WRITE)._replace(permission=Permission.DENY),
}
"""What is taken away; on the target it is denied for one of the two copies."""


@pytest.mark.parametrize("policy", ["pause"])
async def test_a_right_that_is_lost_in_mid_copy_stops_one_topic_and_loses_nothing(
    policy: Literal["pause", "fail"], world: World, tmp_path: Path
) -> None:
    admin = world.admin

    async def is_copied(topic: str) -> bool:
        originals = await read_records(admin, TopicPartition(topic, 0))
        return len(await read_records(admin, TopicPartition(f"a.{topic}", 0))) == len(originals)

    async with worker_of(
        world, tmp_path, topics=("t", "u"), on=Policies(unauthorized=policy)
    ) as worker:

        async def flow() -> dict[str, Any]:
            flows = (await worker.link())["flows"]
            return next((each for each in flows if each["topic"] == "t"), {})

        for side, taken in TAKEN.items():
            await world.write()
            await until(lambda: is_copied("t"), worker)
            change, undo = (
                (create_acls, delete_acls) if side == "target" else (delete_acls, create_acls)
            )
            assert (await change(admin, [taken]))[taken] is None
            state = {"pause": "PAUSED", "fail": "FAILED"}[policy]

            async def stands_still(state: str = state) -> bool:
                await world.write()
                return (await flow()).get("state") == state

            await until(stands_still, worker)
            found = await flow()
            assert found["trouble"] == "unauthorized"
            assert f"at the {side}" in found["reason"], found
            assert (await worker.link())["state"] == "DEGRADED"
            await world.write()  # the last one may have been copied before the right was gone
            await until(lambda: is_copied("u"), worker)
            assert not await is_copied("t")
            assert (await undo(admin, [taken]))[taken] is None
            if policy == "fail":
                await world.write()
                assert (await flow())["state"] == "FAILED", "an operator is wanted"
                retry = f"http://127.0.0.1:{worker.http_port}/retry?link=a-b&topic=t"
                async with ClientSession() as session:
                    assert (await session.post(retry)).status == 200
            await until(lambda: is_copied("t"), worker)
        originals, copies = await read_records(admin, T0), await read_records(admin, COPY)
        assert [r[1:] for r in copies] == [r[1:] for r in originals]
        assert await worker.stop() == 0
    check_map(await read_map(admin, T0), originals, copies)
    assert not await read_records(admin, TopicPartition(gaps_topic_name("a-b"), 0))
