"""Every row of the table of rights in docs/operations/rights.md, against Apache Kafka.

A mirror with every feature starts without any right. It must report what it is refused, and exactly
that is granted, until it reports nothing more. So each right of the table was needed, and no right
outside the table was requested. At the end the table's rights alone must be enough.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientError

from local_cluster.client.admin import client_quotas
from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import Acl, AclOperation, ResourceType
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats import gaps_topic_name, map_topic_name
from mirror_maker.formats.probe import probe_topic_name
from mirror_maker.formats.written_rights import acl_record, rights_topic_name
from mirror_maker.settings import Limits, LinkSettings, MirrorSettings
from tests.support.mirror_process import MirrorProcess, check_map, read_map, read_records
from tests.support.mirror_rights import (
    READER,
    USERS,
    WRITER,
    Resource,
    TableRow,
    acl_of,
    implied_by,
    read_table,
    resources_of,
    understand,
)
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_port
from tests.support.secure_kafka import SecureKafka, running_secure_kafka

pytestmark = [
    pytest.mark.real,
    pytest.mark.oracle,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

WAIT_SECONDS_MAX: Final = 240.0
T0, U0, GONE0, LATER0 = (TopicPartition(topic, 0) for topic in ("t", "u", "gone", "later"))
A_T0: Final = TopicPartition("a.t", 0)
TOPICS: Final = ("t", "gone", "later", "u")
PROBED_LINK: Final = "a-b"
PROBE: Final = probe_topic_name(PROBED_LINK)
COPIES: Final = ("a.t", "a.gone", "a.later", "c.u", "a.heartbeats", "c.heartbeats", f"a.{PROBE}")
GROUP, SOURCE_GROUP = "app", "lag"
OTHERS_MAP_TOPIC: Final = map_topic_name("of-somebody-else")
OTHERS_RIGHTS_TOPIC: Final = rights_topic_name("of-somebody-else")
MM2_OFFSETS: Final = "mm2-offsets.c.internal"
QUICK: Final = Limits(
    discovery_ms=200,
    back_off_ms_max=300,
    pause_ms_min=200,
    pause_ms_max=400,
    group_sync_ms=300,
    source_group_ms=300,
    topic_sync_ms=300,
    heartbeat_topic_ms=300,
    controls_ms=300,
)
"""Short pauses, so granted rights are soon used."""
READ_BY_USER: Final = Resource(ResourceType.TOPIC, "u")
JOINED_BY_USER: Final = Resource(ResourceType.GROUP, GROUP)
QUOTA: Final = client_quotas.QuotaChange((("user", "user"),), "producer_byte_rate", 1e6)


def settings_of(source: SecureKafka, target: SecureKafka, directory: Path) -> MirrorSettings:
    """Return two links from one source that together use every feature that needs a right."""
    source_side: dict[str, Any] = {
        "source_bootstrap": source.bootstrap,
        "source_security": source.security(READER),
        "groups": (GROUP,),
    }
    first = LinkSettings(
        name=PROBED_LINK,
        source_alias="a",
        topics=("t", "gone", "later"),
        sync_group_offsets=True,
        sync_configs=True,
        deletions="mirror",
        deletion_grace_ms=500,
        mm2_topics="source",
        source_group=SOURCE_GROUP,
        probe=True,
        **source_side,
    )
    second = LinkSettings(
        name="c-b",
        source_alias="c",
        topics=("u",),
        origin="local",
        start="mm2",
        sync_acls=True,
        sync_group_acls=True,
        sync_quotas=True,
        mm2_topics="target",
        **source_side,
    )
    return MirrorSettings(
        worker_id="w1",
        target_alias="b",
        target_bootstrap=target.bootstrap,
        target_security=target.security(WRITER),
        links=(first, second),
        ready_file=str(directory / "ready.json"),
        http_port=quiet_port(),
        session_timeout_ms=6_000,
        limits=QUICK,
    )


@dataclass
class World:
    """Both clusters as their administrators see them, and the traffic at the source."""

    source: KafkaClient
    target: KafkaClient
    producer: tuple[int, int] = (-1, -1)
    written: dict[TopicPartition, int] = field(default_factory=dict)
    partitions: int = 1

    async def prepare(self) -> None:
        for topic in ("t", "gone", "u", PROBE):
            await create(self.source, topic)
        # What only others can have left: another mirror's map, MirrorMaker 2's offsets.
        for client, topic in ((self.source, OTHERS_MAP_TOPIC), (self.target, MM2_OFFSETS)):
            await create(client, topic)
            await produce_to(client, TopicPartition(topic, 0), batch_of(0, value=None))
        await create(self.source, OTHERS_RIGHTS_TOPIC)
        key, value = acl_record(acl_of("user", READ_BY_USER, AclOperation.READ))
        record = encode_batch([NewRecord(1_790_000_000_000, key, value)])
        await produce_to(self.source, TopicPartition(OTHERS_RIGHTS_TOPIC, 0), record)
        self.producer = await self.source.init_producer_id()
        acls = [acl_of("user", on, AclOperation.READ) for on in (READ_BY_USER, JOINED_BY_USER)]
        assert await create_acls(self.source, acls) == dict.fromkeys(acls)
        assert await client_quotas.alter_client_quotas(self.source, [QUOTA]) == [None]
        await self.write(GONE0)
        await self.write(T0)
        await self.write(U0)

    async def write(self, at: TopicPartition) -> None:
        """Write one more record as an idempotent producer, and commit the group's position behind
        it.
        """
        number = self.written.get(at, 0)
        producer_id, epoch = self.producer
        batch = batch_of(
            number, producer_id=producer_id, producer_epoch=epoch, base_sequence=number
        )
        assert await produce_to(self.source, at, batch) == number
        self.written[at] = number + 1
        commit = {at: CommittedOffset(number + 1, -1, "")}
        assert await commit_offsets(self.source, GROUP, commit) == {at: ErrorCode.none}

    async def change(self) -> None:
        """Change what needs further rights: a topic gains partitions, a config changes, a topic is
        deleted.
        """
        self.partitions = 2
        assert (await self.source.create_partitions({"t": 2}))["t"] is None
        changed = await alter_topic_configs(self.source, {"t": {"retention.ms": str(10**12)}})
        assert changed == {"t": None}
        assert (await self.source.delete_topics(["gone"]))["gone"] is None
        del self.written[GONE0]
        await self.write(T0)

    async def is_followed(self) -> bool:
        """Return whether the links have done everything that there is to do."""
        copies = {T0: "a.t", U0: "c.u", GONE0: "a.gone", LATER0: "a.later"}
        for at, name in copies.items():
            copied = await read_records(self.target, at._replace(topic=name))
            if len(copied) != self.written.get(at, 0):
                return False
        there = (await self.target.metadata()).topics
        if (GONE0 in self.written) != ("a.gone" in there):
            return False
        if len(there["a.t"].partitions) != self.partitions:
            return False
        configs = [
            (await client.describe_topic_configs([topic]))[topic]["retention.ms"]
            for client, topic in ((self.source, "t"), (self.target, "a.t"))
        ]
        followed = {
            acl_of("user", on, AclOperation.READ)
            for on in (READ_BY_USER._replace(name="c.u"), JOINED_BY_USER)
        }
        quotas = await client_quotas.describe_client_quotas(self.target)
        return (
            configs[0] == configs[1]
            and followed <= await describe_acls(self.target)
            and quotas == {QUOTA.entity: {QUOTA.key: QUOTA.value}}
            and await self._are_positions_there()
            and await self._are_mm2s_topics_there()
        )

    async def _are_positions_there(self) -> bool:
        ours = (await committed_offsets(self.source, [SOURCE_GROUP])).get(SOURCE_GROUP, {})
        groups = (await committed_offsets(self.target, [GROUP])).get(GROUP, {})
        found = ours.get(T0), groups.get(A_T0)
        return all(each is not None and each.offset == self.written[T0] for each in found)

    async def _are_mm2s_topics_there(self) -> bool:
        at_source = ("heartbeats", "mm2-offset-syncs.b.internal")
        at_target = (
            "heartbeats",
            "a.heartbeats",
            "c.heartbeats",
            "a.checkpoints.internal",
            "c.checkpoints.internal",
            "mm2-offset-syncs.c.internal",
        )
        for client, names in ((self.source, at_source), (self.target, at_target)):
            for name in names:
                if not await read_records(client, TopicPartition(name, 0)):
                    return False
        return True


def batch_of(number: int, value: bytes | None = b"v", **options: int) -> bytearray:
    record = NewRecord(1_790_000_000_000 + number, b"k%d" % number, value)
    return encode_batch([record], **options)


async def create(client: KafkaClient, name: str) -> None:
    # The records have old timestamps; retention by time would delete them.
    new = NewTopic(name=name, partitions=1, configs={"retention.ms": "-1"})
    assert (await client.create_topics([new]))[name] is None


class Granting:
    """Grants what the mirror reports as missing if the table lists it, and keeps account."""

    def __init__(self, world: World, worker: MirrorProcess) -> None:
        self.asked: set[tuple[str, str, AclOperation]] = set()
        """(side, `on` of the table, operation) that were refused, reported and then granted."""
        self.granted: dict[str, list[Acl]] = {"source": [], "target": []}
        self.table = [(row, resources(row)) for row in read_table()]
        self._world = world
        self._worker = worker
        self._links: list[dict[str, Any]] = []
        """The last status of the links."""

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Grant until nothing is missing and the condition holds."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while not (await self._grant_what_is_missing() and await condition()):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(
                f"{self._links}\nasked: {sorted(self.asked)}\n{self._worker.log_text()[-4000:]}"
            ) from None

    async def _grant_what_is_missing(self) -> bool:
        """Grant what is missing; return whether nothing was."""
        try:
            self._links = (await self._worker.status())["links"]
        except ClientError:
            return False  # the worker does not serve yet
        sentences: set[str] = set()
        for link in self._links:
            if link["rights_missing"]:
                assert link["state"] not in ("RUNNING", "CATCHING_UP", "STARTING"), link
                assert link["reason"], link
            sentences |= set(link["rights_missing"])
        for sentence in sorted(sentences):
            assert sentence in self._worker.log_text()
            await self._grant(sentence)
        return not sentences

    async def _grant(self, sentence: str) -> None:
        refusal = understand(sentence)
        row, found = next(
            (
                (row, found)
                for row, found in self.table
                if row.side == refusal.side
                and refusal.operation in implied_by(row.operations)
                and any(each.covers(refusal.kind, refusal.name) for each in found)
            ),
            (None, []),
        )
        assert row is not None, f"the table does not list it: {sentence}"
        key = (row.side, row.on, refusal.operation)
        if key in self.asked:
            return  # it was not retried since
        self.asked.add(key)
        acls = [acl_of(USERS[row.side], each, refusal.operation) for each in found]
        self.granted[row.side] += acls
        client = self._world.source if row.side == "source" else self._world.target
        assert not any((await create_acls(client, acls)).values())


def resources(row: TableRow) -> list[Resource]:
    return resources_of(
        row,
        target_alias="b",
        source_aliases=("a", "c"),
        topics=TOPICS,
        copies=COPIES,
        group=GROUP,
        source_group=SOURCE_GROUP,
        probed_link=PROBED_LINK,
    )


@pytest.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[tuple[SecureKafka, SecureKafka]]:
    async with contextlib.AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(running_secure_kafka(tmp_path / name))
            for name in ("source", "target")
        ]
        yield source, target


async def test_each_right_of_the_table_is_needed_and_all_of_them_suffice(
    clusters: tuple[SecureKafka, SecureKafka], tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        admins = [
            await stack.enter_async_context(KafkaClient(cluster.plain_bootstrap))
            for cluster in clusters
        ]
        world = World(source=admins[0], target=admins[1])
        for cluster, admin, name in zip(clusters, admins, (READER, WRITER), strict=True):
            await cluster.add_user(admin, name)
        await world.prepare()
        settings = settings_of(*clusters, tmp_path)
        worker = MirrorProcess(settings, tmp_path, http_port=settings.http_port)
        granting = Granting(world, worker)
        starting = asyncio.create_task(worker.start())  # it joins the group when it may
        try:
            await granting.until(world.is_followed)
            await starting
            await world.change()
            await granting.until(world.is_followed)
            check_account(granting)
            # Then the table's rights and no others, for a fresh worker.
            for side, admin in zip(("source", "target"), admins, strict=True):
                listed = {
                    acl_of(USERS[side], resource, operation)
                    for row, found in granting.table
                    if row.side == side
                    for resource in found
                    for operation in row.operations
                }
                assert not any((await create_acls(admin, sorted(listed))).values())
                surplus = [acl for acl in granting.granted[side] if acl not in listed]
                assert not any((await delete_acls(admin, surplus)).values())
            await worker.kill()
            await worker.start()
            asked = set(granting.asked)
            await create(world.source, "later")
            for at in (T0, U0, LATER0):
                await world.write(at)
            await granting.until(world.is_followed)
            assert granting.asked == asked, "the table's rights are not enough"
            for link in (await worker.status())["links"]:
                assert link["state"] in ("RUNNING", "CATCHING_UP"), link
            assert await worker.stop() == 0
        finally:
            starting.cancel()
            if worker.process is not None and worker.process.poll() is None:
                await worker.kill()
        originals = await read_records(world.source, T0)
        copies = await read_records(world.target, A_T0)
        assert [r[1:] for r in copies] == [r[1:] for r in originals]
        check_map(await read_map(world.target, T0), originals, copies)
        journal = await read_records(world.target, TopicPartition(gaps_topic_name("a-b"), 0))
        assert len(journal) == 1, "the deleted topic"


def check_account(granting: Granting) -> None:
    """Check that every right of the table was refused by name before it was granted."""
    for row, _ in granting.table:
        for operation in row.operations:
            assert (row.side, row.on, operation) in granting.asked, (row.where, row.on, operation)
