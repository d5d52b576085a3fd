"""A right of the mirror is revoked in mid-copy and granted again, with Apache Kafka's authorizer.

One topic is stopped and says why, no other is, and nothing is lost. One cluster is both sides;
copies lie beside their sources.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.formats import gaps_topic_name
from mirror_maker.settings import Limits
from tests.real.mirror.test_mirror_kill import create
from tests.support.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records
from tests.support.mirror_rights import READER, WRITER
from tests.support.producing import produce_to
from tests.support.secure_kafka import running_secure_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]

TOPICS = ("t", "u")
T0 = TopicPartition("t", 0)
READ_T = Acl(
    ResourceType.TOPIC, "t", PatternType.LITERAL, f"User:{READER}", "*", AclOperation.READ,
    Permission.ALLOW,
)  # fmt: skip
NO_WRITE = Acl(
    ResourceType.TOPIC, "a.t", PatternType.LITERAL, f"User:{WRITER}", "*", AclOperation.WRITE,
    Permission.DENY,
)  # fmt: skip


class Writing:
    """Records for both topics, one more at each call."""

    def __init__(self, admin: KafkaClient) -> None:
        self._admin = admin
        self._serial = itertools.count()

    async def more(self) -> None:
        number = next(self._serial)
        for topic in TOPICS:
            record = NewRecord(1_790_000_000_000 + number, b"k%d" % number, b"v")
            await produce_to(self._admin, TopicPartition(topic, 0), encode_batch([record]))

    async def is_copied(self, topic: str) -> bool:
        originals = await read_records(self._admin, TopicPartition(topic, 0))
        return len(await read_records(self._admin, TopicPartition(f"a.{topic}", 0))) == len(
            originals
        )


async def test_a_right_that_is_lost_in_mid_copy_stops_one_topic_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with (
        running_secure_kafka(tmp_path / "kafka") as kafka,
        KafkaClient(kafka.plain_bootstrap) as admin,
    ):
        for name in (READER, WRITER):
            await kafka.add_user(admin, name)
        topic, prefixed = ResourceType.TOPIC, PatternType.PREFIXED
        for name in TOPICS:
            await create(admin, name, 1)
            await kafka.allow(
                admin, READER, topic, name, [AclOperation.READ, AclOperation.DESCRIBE_CONFIGS]
            )
        await kafka.allow(
            admin, WRITER, ResourceType.GROUP, "heliograph-mirror-b", [AclOperation.READ]
        )
        state = [AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE]
        await kafka.allow(admin, WRITER, topic, "heliograph-", state, prefixed)
        await kafka.allow(admin, WRITER, topic, "a.", [*state, AclOperation.ALTER], prefixed)
        async with mirror(
            tmp_path,
            kafka.bootstrap,
            kafka.bootstrap,
            topics=TOPICS,
            source_security=kafka.security(READER),
            target_security=kafka.security(WRITER),
            limits=Limits(pause_ms_max=2_000),
        ) as worker:
            writing = Writing(admin)
            await writing.more()
            await worker.until(lambda: writing.is_copied("t"))

            async def is_healed() -> bool:
                return await writing.is_copied("t") and not (await worker.link())["rights_missing"]

            assert await delete_acls(admin, [READ_T]) == {READ_T: None}
            sentence = f"User:{READER} may not (READ|DESCRIBE) topic t at a"
            await stands_still_alone(worker, writing, "at the source", sentence)
            assert await create_acls(admin, [READ_T]) == {READ_T: None}
            await worker.until(is_healed)
            assert await create_acls(admin, [NO_WRITE]) == {NO_WRITE: None}
            sentence = rf"User:{WRITER} may not WRITE topic a\.t at b"
            await stands_still_alone(worker, writing, "at the target", sentence)
            assert await delete_acls(admin, [NO_WRITE]) == {NO_WRITE: None}
            await worker.until(is_healed)
            assert await worker.stop() == 0
        originals, copies = [await read_records(admin, at) for at in (T0, T0._replace(topic="a.t"))]
        assert [r[1:] for r in copies] == [r[1:] for r in originals]
        check_map(await read_map(admin, T0), originals, copies)
        assert not await read_records(admin, TopicPartition(gaps_topic_name("a-b"), 0))


async def stands_still_alone(
    worker: MirrorProcess, writing: Writing, where: str, sentence: str
) -> None:
    """Wait until `t` is paused and the link says why; then `u` is copied, and `t` is not."""

    async def is_told() -> bool:
        await writing.more()
        link = await worker.link()
        flow = next((each for each in link["flows"] if each["topic"] == "t"), None)
        return (
            flow is not None
            and (flow["state"], flow["trouble"]) == ("PAUSED", "unauthorized")
            and where in flow["reason"]
            and link["state"] == "DEGRADED"
            and any(re.fullmatch(sentence, each) for each in link["rights_missing"])
        )

    await worker.until(is_told)
    assert re.search(sentence, worker.log_text())
    await writing.more()  # the last one may have been copied before the right was revoked
    await worker.until(lambda: writing.is_copied("u"))
    assert not await writing.is_copied("t")
